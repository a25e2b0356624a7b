"""A thread with one event loop that keeps a context open, and lets other threads call into it.

It carries the synchronous facade (`cellule.sync`, which is generated). A call returns what its coroutine
returned, raises what it raised, or raises that the node is closed: it never waits for a loop that has ended.
When the block is left, the context finishes what it accepted; calls that still wait then are cancelled.

Rejected: a loop per call (`asyncio.run`). The tasks of a node live as long as the node.
Rejected: `asyncio.run_coroutine_threadsafe`. A call that meets the end of the loop would wait for ever, and
its coroutine would never be awaited.
Rejected: throwing an exception of the caller's block into the context. A node closes the same way whatever
happened outside, and the exception stays what it was.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from cellule.errors import CelluleError, OutcomeUnknown, Rejected, Unavailable
from cellule.loop_end import end_tasks

T = TypeVar("T")
R = TypeVar("R")

_END: Final = object()


class _Call(Generic[R]):
    """One coroutine on its way through the loop; `outcome` is what the calling thread waits for."""

    __slots__ = ("make", "outcome", "task")

    def __init__(self, make: Callable[[], Awaitable[R]]) -> None:
        self.make = make
        self.outcome: Future[R] = Future()
        self.task: asyncio.Task[None] | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        if not self.outcome.done():
            self.task = tasks.create_task(self._perform())

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
        elif not self.outcome.done():
            self.outcome.set_exception(_closed())

    async def _perform(self) -> None:
        try:
            self.outcome.set_result(await self.make())
        except asyncio.CancelledError:
            self.outcome.set_exception(_interrupted())
        except BaseException as error:  # noqa: BLE001 - the thread that called raises it
            self.outcome.set_exception(error)


class LoopThread(Generic[T]):
    """Keeps `context` open on a thread of its own while the `with` block runs, and gives what it gives."""

    def __init__(self, context: AbstractAsyncContextManager[T]) -> None:
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._opened: Future[T] = Future()
        self._lock = threading.RLock()  # a garbage collection inside it may drop an iterator, which posts
        self._calls: set[_Call[Any]] = set()
        self._tasks: asyncio.TaskGroup | None = None  # None = no calls are taken
        self._error: BaseException | None = None
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="cellule", daemon=True)

    def __enter__(self) -> T:
        self._thread.start()
        try:
            return self._opened.result()
        except BaseException:
            self._error = None  # it is being raised already
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # For callers, from any thread

    def call(self, make: Callable[[], Awaitable[R]]) -> R:
        """Run what `make` gives on the loop, and wait for its outcome."""
        check_may_block()
        call = self._submit(make)
        try:
            return call.outcome.result()
        except BaseException:
            if not call.outcome.done():  # the wait was interrupted (KeyboardInterrupt), so nobody wants it
                self._post(call.stop)
            raise
        finally:
            self._forget(call)

    def iterate(self, source: AsyncIterator[R]) -> Generator[R, None, None]:
        """The items of an asynchronous iterator, each awaited on the loop when it is asked for."""
        check_may_block()
        return self._items(source)

    def close(self) -> None:
        """Leave the context, end the thread, and raise what the context raised."""
        if os.getpid() != self._process:
            return  # the thread stayed in the process that made it
        with self._lock:
            self._tasks = None
        with suppress(RuntimeError):  # the loop has ended by itself, with an error
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _items(self, source: AsyncIterator[R]) -> Generator[R, None, None]:
        try:
            while True:
                item: Any = self.call(lambda: anext(source, _END))
                if item is _END:
                    return
                yield item
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:  # not waited for: this may run on any thread, in a garbage collection
                with suppress(CelluleError):
                    call = self._submit(close)
                    call.outcome.add_done_callback(lambda _: self._forget(call))

    def _submit(self, make: Callable[[], Awaitable[R]]) -> _Call[R]:
        if os.getpid() != self._process:
            raise Rejected(
                "sync.forked", "the node was opened by process {owner}, and this is its fork {process}",
                owner=self._process, process=os.getpid(),
                hint="Open the folder in the process that uses it, after the fork.",
            )  # fmt: skip
        call = _Call(make)
        with self._lock:
            if self._tasks is None:
                raise _closed()
            self._calls.add(call)
            self._loop.call_soon_threadsafe(call.start, self._tasks)
        return call

    def _forget(self, call: _Call[Any]) -> None:
        with self._lock:
            self._calls.discard(call)

    def _post(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if self._tasks is not None:
                self._loop.call_soon_threadsafe(callback)

    # On the thread

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._host())
        except BaseException as error:  # noqa: BLE001 - the thread that leaves the block raises it
            self._error = error
            if not self._opened.done():
                self._opened.set_exception(error)

    async def _host(self) -> None:
        """Keep the context open, with the calls in a task group around it, so that they outlive its end."""
        failure: BaseException | None = None
        async with asyncio.TaskGroup() as tasks:
            try:
                async with self._context as value:
                    self._accept(tasks)
                    self._opened.set_result(value)
                    await self._closing.wait()
            except BaseException as error:  # noqa: BLE001 - raised below, outside the group, as it is
                failure = error
            with self._lock:
                self._tasks = None
                waiting = list(self._calls)
            for call in waiting:
                call.stop()
        await end_tasks()
        if failure is not None:
            raise failure

    def _accept(self, tasks: asyncio.TaskGroup) -> None:
        with self._lock:
            self._tasks = tasks


class Facade(Generic[T]):
    """One object of the loop as other threads hold it; two facades of one object are equal."""

    __slots__ = ("_inner", "_thread")

    def __init__(self, thread: LoopThread[Any], inner: T) -> None:
        self._thread = thread
        self._inner = inner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Facade) and self._inner is other._inner

    def __hash__(self) -> int:
        return hash(id(self._inner))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._inner!r}>"


def check_may_block() -> None:
    """Refuse to block a thread whose event loop is running: everything on that loop would stand still."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise Rejected(
        "sync.in_event_loop", "a blocking call inside a running event loop would stop everything on it",
        hint="Use `async with cellule.open(...)` here, or make the call in `asyncio.to_thread`.",
    )  # fmt: skip


def _closed() -> Unavailable:
    return Unavailable("sync.closed", "the node is closed", hint="Open the folder again.")


def _interrupted() -> OutcomeUnknown:
    return OutcomeUnknown(
        "sync.interrupted", "the node was closed while the call was under way",
        hint="Open the folder again; send an event again with the same id.",
    )  # fmt: skip
