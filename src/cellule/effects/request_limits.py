"""What a request says about its own attempts, as its author writes it: seconds become nanoseconds.

    charge(Charge("o1", 30), key="o1", priority=0, timeout_s=5, attempts=3, deadline_s=60)

Everything wrong is refused here, where it stands in the author's step. What a request does not say is as its
effect is declared.
"""

from __future__ import annotations

from typing import TypedDict

from cellule.effects import limits as most
from cellule.effects.number_checks import check_count, check_number

_SECOND_NS = 1_000_000_000


class RequestOptions(TypedDict, total=False):
    """What may be given with one request; see `AdapterLimits` for what each means."""

    timeout_s: float
    attempts: int
    deadline_s: float
    priority: int
    backoff_s: float
    backoff_max_s: float


def request_limits(options: RequestOptions) -> dict[str, int] | None:
    """The limits of a request as its record holds them; None where it has none."""
    found: dict[str, int] = {}
    if "attempts" in options:
        found["attempts"] = check_count("attempts", options["attempts"], 1, most.ATTEMPTS_MAX)
    if "priority" in options:
        found["priority"] = check_count("priority", options["priority"], 0, most.PRIORITY_MAX)
    spans = {
        "timeout": (options.get("timeout_s"), 0.001, most.TIMEOUT_S_MAX),
        "deadline": (options.get("deadline_s"), 0.001, most.DEADLINE_S_MAX),
        "backoff": (options.get("backoff_s"), 0.0, most.TIMEOUT_S_MAX),
        "backoff_max": (options.get("backoff_max_s"), options.get("backoff_s") or 0.0, most.TIMEOUT_S_MAX),
    }
    for name, (value, least, limit) in spans.items():
        if value is not None:
            found[f"{name}_ns"] = round(check_number(f"{name}_s", value, least, limit) * _SECOND_NS)
    return found or None
