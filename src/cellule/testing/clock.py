"""Clocks for tests: one that reads a deterministic loop's virtual time, one that is set by hand.

Invariant: `monotonic_ns` never goes back; `now_ns` may jump either way, as the clocks of machines do.
Waiting is never done here: under the loop, `asyncio.sleep` and timeouts are already virtual.
"""

from __future__ import annotations

import asyncio

from cellule.errors import Rejected
from cellule.testing.loop import DeterministicLoop

WALL_ORIGIN_NS = 1_700_000_000_000_000_000
"""Where wall time starts in tests: 14 November 2023, 22:13:20 UTC."""


class VirtualClock:
    """The time of a deterministic loop (by default the running one), with a wall clock that can jump."""

    def __init__(self, loop: DeterministicLoop | None = None, *, wall_ns: int = WALL_ORIGIN_NS) -> None:
        self._loop = _running_loop() if loop is None else loop
        self._wall_ns = wall_ns

    def now_ns(self) -> int:
        """Virtual wall time, with all jumps so far."""
        return self._wall_ns + self._loop.now_ns

    def monotonic_ns(self) -> int:
        """Virtual time since the loop was made; no jump changes it."""
        return self._loop.now_ns

    def jump(self, by_ns: int) -> None:
        """Move the wall clock forward, or back if negative; nothing that waits notices."""
        self._wall_ns += by_ns


class ManualClock:
    """A clock for synchronous tests: it stands still until it is moved."""

    def __init__(self, wall_ns: int = WALL_ORIGIN_NS) -> None:
        self._wall_ns = wall_ns
        self._monotonic_ns = 0

    def now_ns(self) -> int:
        """Wall time."""
        return self._wall_ns

    def monotonic_ns(self) -> int:
        """Time passed by `advance`."""
        return self._monotonic_ns

    def advance(self, by_ns: int) -> None:
        """Let time pass on both clocks."""
        if by_ns < 0:
            raise Rejected(
                "testing.clock_back", "time cannot pass by {by_ns} ns",
                by_ns=by_ns, hint="Use jump to move the wall clock back.",
            )  # fmt: skip
        self._wall_ns += by_ns
        self._monotonic_ns += by_ns

    def jump(self, by_ns: int) -> None:
        """Move the wall clock only, forward or back."""
        self._wall_ns += by_ns


def _running_loop() -> DeterministicLoop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, DeterministicLoop):
        raise Rejected(
            "testing.real_loop", "a virtual clock needs a deterministic loop, not {kind}",
            kind=type(loop).__name__, hint="Start the code with cellule.testing.run or simulate.",
        )  # fmt: skip
    return loop
