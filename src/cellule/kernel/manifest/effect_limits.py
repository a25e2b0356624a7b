"""What a request may say about its own attempts: the same names as in the section `effects`.

A request's limits stand in its Intent record, so that approving, retrying or repairing it gives the same row
as the step that asked. They come from user code, so they are checked where they enter the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from cellule.kernel.manifest.limits import ATTEMPTS_MAX, PRIORITY_MAX
from cellule.kernel.manifest.model import EffectKind

_SPAN_MAX: Final = (1 << 63) - 1
BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "attempts": (1, ATTEMPTS_MAX),
    "backoff_max_ns": (0, _SPAN_MAX),
    "backoff_ns": (0, _SPAN_MAX),
    "deadline_ns": (1, _SPAN_MAX),
    "priority": (0, PRIORITY_MAX),
    "timeout_ns": (1, _SPAN_MAX),
}
"""The least and the most of every limit that a request may set."""


def limits_problem(limits: Any) -> str | None:
    """What is wrong with a request's limits, for people; None where nothing is."""
    if not isinstance(limits, Mapping) or not limits:
        return "its limits are a map of names to whole numbers"
    for name, value in limits.items():
        if name not in BOUNDS:
            return f"{name!r} is no limit of a request; it may set {', '.join(BOUNDS)}"
        least, most = BOUNDS[name]
        if type(value) is not int or not least <= value <= most:
            return f"{name} is a whole number from {least} to {most}, not {value!r}"
    return None


def limited(effect: EffectKind, limits: Mapping[str, int] | None) -> EffectKind:
    """The kind as this request wants it performed."""
    said: dict[str, Any] = {} if limits is None else dict(limits)
    return replace(effect, **said) if said else effect
