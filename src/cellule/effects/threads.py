"""`Threads`: blocking calls beside the loop, so many at a time; for plain functions and names.

A call that is not waited for any more goes on, for nothing can end a thread; one that did not begin never
does. Threads end when there was nothing to do for a while, and never hold up the end of the process.

Rejected: the loop's own executor. It is shared by everything that blocks, and joined when the process ends.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final

IDLE_S: Final = 10.0


class _Call:
    """One call, and who waits for it."""

    __slots__ = ("context", "function", "future", "loop")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.context = copy_context()
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[tuple[Any, BaseException | None]] = self.loop.create_future()

    def perform(self) -> None:
        if self.future.cancelled():
            return
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
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running = 0
        self._free = 0

    async def run(self, function: Callable[[], Any]) -> Any:
        """The result of a call, made in a copy of the caller's context; may wait for a free thread."""
        call = _Call(function)
        with self._lock:
            self._calls.put(call)
            is_short = self._free < self._calls.qsize() and self._running < self._limit
            self._running += is_short
        if is_short:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        value, error = await call.future
        if error is not None:
            raise error
        return value

    def _work(self) -> None:
        while (call := self._next()) is not None:
            call.perform()
            del call

    def _next(self) -> _Call | None:
        with self._lock:
            self._free += 1
        try:
            return self._calls.get(timeout=IDLE_S)
        except queue.Empty:
            with self._lock:
                if self._calls.empty():
                    self._running -= 1
                    return None
            return self._calls.get()
        finally:
            with self._lock:
                self._free -= 1
