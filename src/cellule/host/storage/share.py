"""Work in the background takes a share of the time, and leaves the rest of it to the worlds."""

from __future__ import annotations

import asyncio

from cellule.sources import Clock


class TimeShare:
    """A share of the time, 1.0 at most; `rest` sleeps as long as the work since the last rest asks for."""

    def __init__(self, clock: Clock, share: float) -> None:
        self._clock = clock
        self._share = share
        self._since_ns = clock.monotonic_ns()

    async def rest(self) -> None:
        """Let others go on; without a share of less than all of it, only for a turn of the loop."""
        took_s = (self._clock.monotonic_ns() - self._since_ns) / 1e9
        await asyncio.sleep(took_s * (1 / self._share - 1))
        self._since_ns = self._clock.monotonic_ns()
