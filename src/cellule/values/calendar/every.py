"""`Every`: a moment, and then one after each period, for ever. Clock changes do not concern it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo

from cellule.errors import Rejected
from cellule.values.calendar.due import DUE_NS_MAX


@dataclass(frozen=True, slots=True)
class Every:
    """Due at `start_ns` and every `period_ns` after it.

    >>> Every(10, 3).next_due(3), Every(10, 3).next_due(-100)
    (13, 3)
    """

    period_ns: int
    start_ns: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.period_ns <= DUE_NS_MAX:
            raise Rejected(
                "values.interval_invalid", "An interval of {period_ns} ns cannot repeat.",
                period_ns=self.period_ns, hint="Give a positive number of nanoseconds.",
            )  # fmt: skip

    @property
    def zone(self) -> tzinfo:
        """Always UTC: an interval belongs to no place."""
        return UTC

    def next_due(self, after_ns: int) -> int | None:
        """The first moment strictly after `after_ns`; None beyond the year 2262."""
        if after_ns < self.start_ns:
            due_ns = self.start_ns
        else:
            due_ns = after_ns + self.period_ns - (after_ns - self.start_ns) % self.period_ns
        return due_ns if due_ns <= DUE_NS_MAX else None
