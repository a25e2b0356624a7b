"""`Threads`: blocking calls beside the loop, so many at a time; for plain functions and names.

A call that is not waited for any more goes on, for nothing can end a thread; one that did not begin never
does. Threads end when there was nothing to do for a while, and never hold up the end of the process.

Rejected: the loop's own executor. It is shared by everything that blocks, and joined when the process ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final

IDLE_S: Final = 10.0


class _Call:
    """One call, and who waits for it."""

    __slots__ = ("context", "function", "future", "is_begun", "loop")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.context = copy_context()
        self.is_begun = False
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[tuple[Any, BaseException | None]] = self.loop.create_future()

    def perform(self) -> None:
        if self.future.cancelled():
            return
        self.is_begun = True
        outcome: tuple[Any, BaseException | None]
        try:
            outcome = self.context.run(self.function), None
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            outcome = None, error
        try:
            self.loop.call_soon_threadsafe(self._tell, outcome)
        except RuntimeError:  # the loop is closed: nobody waits
            return

    def _tell(self, outcome: tuple[Any, BaseException | None]) -> None:
        if not self.future.done():
            self.future.set_result(outcome)


class Threads:
    """At most `limit` threads, made when they are needed."""

    def __init__(self, limit: int, name: str) -> None:
        self._limit = limit
        self._name = name
        self._calls: deque[_Call] = deque()
        self._changed = threading.Condition()
        self._running = 0
        self._free = 0
        self._busy = 0  # threads that perform a call

    async def run(self, function: Callable[[], Any]) -> Any:
        """The result of a call, made in a copy of the caller's context; may wait for a free thread."""
        call = _Call(function)
        with self._changed:
            self._calls.append(call)
            if self._free < len(self._calls) and self._running < self._limit:
                self._begin()
            self._changed.notify()
        try:
            value, error = await call.future
        except asyncio.CancelledError:
            if call.is_begun or self._busy < self._limit:
                raise
            raise asyncio.CancelledError(f"all {self._limit} threads are with earlier calls") from None
        if error is not None:
            raise error
        return value

    def _begin(self) -> None:
        """One more thread; where the system has none to give, the calls wait for those that there are."""
        try:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        except RuntimeError:
            if not self._running:
                self._calls.pop()
                raise
        else:
            self._running += 1

    def _work(self) -> None:
        while (call := self._next()) is not None:
            call.perform()
            del call
            with self._changed:
                self._busy -= 1

    def _next(self) -> _Call | None:
        """The next call, or None after a while without one: then this thread is no longer counted."""
        with self._changed:
            self._free += 1
            is_any = self._changed.wait_for(lambda: self._calls, IDLE_S)
            self._free -= 1
            if is_any:
                self._busy += 1
                return self._calls.popleft()
            self._running -= 1
            return None
