"""Checks of the numbers that adapters, declarations and requests give; each names what may stand there."""

from __future__ import annotations

from cellule.errors import Rejected


def check_number(name: str, value: object, low: float, high: float) -> float:
    """Return a number within its bounds; `Rejected` otherwise."""
    if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
        return value
    raise _refusal(name, value, f"a number from {low:g} to {high:g}")


def check_count(name: str, value: object, low: int, high: int) -> int:
    """Return a whole number within its bounds; `Rejected` otherwise."""
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return value
    raise _refusal(name, value, f"a whole number from {low} to {high}")


def _refusal(name: str, value: object, allowed: str) -> Rejected:
    return Rejected(
        "effects.limit",
        "{name} is {allowed}, not {value}",
        name=name,
        allowed=allowed,
        value=repr(value)[:100],
    )
