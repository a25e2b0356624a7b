"""Retries of the store: what they made fail is done again, and a long failure is told.

`Unavailable` never drops a world. Whoever depends on the store repeats the same call with growing pauses;
when this has gone on for `stall_s`, those who wait are told, so that nobody waits for ever in silence. One
that is ending gives up then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from cellule.errors import CelluleError, Conflict, OutcomeUnknown, Unavailable
from cellule.host.limits import ATTEMPTS_MAX, BACKOFF_FIRST_S, BACKOFF_MOST_S
from cellule.sources import Clock
from cellule.store.engine import Batch, Engine

T = TypeVar("T")


class StoreRetry:
    """One activity's patience; `stalled` is called with the error when it lasts too long."""

    def __init__(self, clock: Clock, stall_s: float, stalled: Callable[[Unavailable], None]) -> None:
        self._clock = clock
        self._stall_ns = int(stall_s * 1e9)
        self._stalled = stalled
        self._since_ns: int | None = None
        self._pause_s = BACKOFF_FIRST_S
        self.trouble: Unavailable | None = None
        self.is_ending = False

    async def pause(self, error: Unavailable) -> None:
        """It failed: wait a little; raises `error` if the world is ending and this lasted too long."""
        now_ns = self._clock.monotonic_ns()
        if self._since_ns is None:
            self._since_ns = now_ns
        if now_ns - self._since_ns >= self._stall_ns:
            self.trouble = error
            self._stalled(error)
            if self.is_ending:
                raise error
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, BACKOFF_MOST_S)

    def over(self) -> None:
        """It worked."""
        if self._since_ns is not None:
            self._since_ns = self.trouble = None
            self._pause_s = BACKOFF_FIRST_S

    async def call(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of a call that may be repeated at will."""
        while True:
            try:
                result = await call()
            except Unavailable as error:
                await self.pause(error)
            else:
                self.over()
                return result


async def settle(engine: Engine, batch: Batch, key: bytes, value: bytes | None) -> bool:
    """Commit a batch that gives `key` this value, nobody else's; False if it lost to another.

    An unknown outcome is looked up and the batch submitted again; `Unavailable` if that gets nowhere.
    """
    last: CelluleError | None = None
    for _ in range(ATTEMPTS_MAX):
        try:
            await engine.commit(batch)
        except (OutcomeUnknown, Conflict) as error:
            [stored] = await engine.read([key])
            if stored == value:
                return True
            if isinstance(error, Conflict):
                return False
            last = error
        else:
            return True
    assert last is not None
    raise last


@contextmanager
def reading() -> Iterator[None]:
    """Around a read: an unknown outcome, which is somebody else's, is `Unavailable` here.

    A read changed nothing, whatever kept it from its answer. Whoever only reads waits for the same commit as
    those who sent, and hears of it with the same words.
    """
    try:
        yield
    except OutcomeUnknown as error:
        raise Unavailable(error.code, error.template, hint=error.hint, **error.fields) from error
