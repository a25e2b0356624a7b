"""A bell that wakes one task: a flag while nobody sleeps, and one call into the loop if somebody does.

Rejected: `asyncio.Event` inside `asyncio.timeout`. Both are made for any number of tasks, and cost every lone
event a tenth of its way through the host.
"""

from __future__ import annotations

import asyncio


class Bell:
    """Rung from anywhere on the loop; one task at a time waits for it."""

    __slots__ = ("_sleeper", "loop", "rung")

    def __init__(self) -> None:
        self.rung = False
        self.loop = asyncio.get_running_loop()
        self._sleeper: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake the one who waits, now or at its next `wait`."""
        self.rung = True
        sleeper = self._sleeper
        if sleeper is not None and not sleeper.done():
            sleeper.set_result(None)

    def silence(self) -> None:
        """Forget that it rang: the next `wait` sleeps."""
        self.rung = False

    async def wait(self, most_s: float | None = None) -> None:
        """Sleep until it rings, at most `most_s` seconds; returns at once if it rang since `silence`."""
        if self.rung:
            return
        loop = asyncio.get_running_loop()
        sleeper = self._sleeper = loop.create_future()
        timer = None if most_s is None else loop.call_later(most_s, self.ring)
        try:
            await sleeper
        finally:
            self._sleeper = None
            if timer is not None:
                timer.cancel()
