"""Waiting in a `testing.World`: its time passes by itself, to what is due next, until the condition holds."""

from __future__ import annotations

from collections.abc import Callable

from cellule.errors import StepFailed, TimedOut

ROUNDS_MAX = 10_000  # times that something is due on the way
FOREVER_S = 100 * 366 * 86_400


def never_rests(said: str, hint: str) -> StepFailed:
    """The error of a world that goes on and on."""
    return StepFailed("testing.never_rests", "{said}", said=said, hint=hint)


class Waits:
    """Lets the time of one world pass.

    `advance_to_due` goes to the next moment at which something is due, but not beyond a time, and says
    whether there was one.
    """

    def __init__(self, now_ns: Callable[[], int], advance_to_due: Callable[[int], bool]) -> None:
        self._now_ns = now_ns
        self._advance_to_due = advance_to_due

    def until(self, holds: Callable[[], bool], cell: object, wanted: str, timeout: float | None) -> None:
        """Return when the condition holds; raises `TimedOut` when the time is over, or nothing is due."""
        until_ns = self._now_ns() + int((FOREVER_S if timeout is None else timeout) * 1_000_000_000)
        for _ in range(ROUNDS_MAX):
            if holds():
                return
            if not self._advance_to_due(until_ns):
                break
        raise TimedOut(
            "testing.wait_timeout", "{wanted} did not come true of {cell}{span}.", wanted=wanted, cell=cell,
            span="" if timeout is None else f" within {timeout} s of the world's time",
            hint="Nothing more is due: look at world.intents for requests that the test has not answered.",
        )  # fmt: skip
