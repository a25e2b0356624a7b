"""Who waits for which key; lives on the event loop.

A waiter is woken with `True` when a batch of this engine wrote its key, with `False` when something changed
elsewhere and it has to look for itself. A waiter registers before it reads, so no change falls in between.
Finding out that the file changed does not live here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from cellule.store.engines.sqlite.group import Decision


class Watchers:
    """The waiters of one engine; `watched` is told when the first one comes and when the last one leaves."""

    def __init__(self, watched: Callable[[bool], None]) -> None:
        self._watched = watched
        self._waiters: dict[bytes, list[asyncio.Future[bool]]] = {}

    def add(self, key: bytes) -> asyncio.Future[bool]:
        """Register a waiter for `key`."""
        if not self._waiters:
            self._watched(True)
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(key, []).append(waiter)
        return waiter

    def remove(self, key: bytes, waiter: asyncio.Future[bool]) -> None:
        """Forget a waiter, woken or not."""
        others = self._waiters[key]
        others.remove(waiter)
        if not others:
            del self._waiters[key]
        if not self._waiters:
            self._watched(False)

    def wake_touched(self, decision: Decision) -> None:
        """Wake who waits for a key that a group wrote."""
        if decision.ranges:
            touched = {key for key in self._waiters if decision.touches(key)}
        else:
            touched = self._waiters.keys() & decision.rows.keys()
        for key in touched:
            _wake(self._waiters[key], True)

    def wake_all(self) -> None:
        """Let everyone look again."""
        for waiters in self._waiters.values():
            _wake(waiters, False)


def _wake(waiters: list[asyncio.Future[bool]], written: bool) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(written)
