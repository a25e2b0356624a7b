"""A deterministic asyncio event loop: virtual time, and an order of callbacks drawn from a seed.

Invariant: the same coroutine with the same seed takes the same steps at the same virtual times, alone or
after any number of other runs. Nothing here sleeps. Threads, sockets, subprocesses and signals are refused.
`schedule.py` chooses what runs next, `runs.py` starts and ends a loop, clocks live in `clock.py`.

Rejected: a subclass of BaseEventLoop. Its private parts, which would have to be replaced, change between
Python versions; the abstract loop is a public contract.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import sys
import weakref
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, TypeVar, TypeVarTuple, Unpack

from cellule.effects.child_tasks import TaskFactory, contained
from cellule.errors import InvariantBroken, Rejected
from cellule.testing.refusals import check_not_as_completed, refuse, refusing
from cellule.testing.schedule import Schedule
from cellule.testing.tasks import NumberedFuture, NumberedTask, ReadyHandle, TimerHandle, label_of

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Handler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]

STEPS_MAX = 1_000_000
SHUTDOWN_STEPS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Unhandled:
    """An error that nobody in the code under test handled."""

    message: str
    error: BaseException | None


@refusing
class DeterministicLoop(asyncio.AbstractEventLoop):
    """See the module; `steps` and `digest` tell what happened, `unhandled` what nobody took care of."""

    def __init__(self, seed: int | None, *, steps_max: int = STEPS_MAX, traced: bool = False) -> None:
        self.seed = seed
        self.steps = 0
        self.steps_max = steps_max
        self.unhandled: list[Unhandled] = []
        self.trace: list[str] | None = [] if traced else None
        self._schedule = Schedule(seed)
        self._hash = hashlib.sha256()
        self._tasks: weakref.WeakValueDictionary[int, NumberedTask[Any]] = weakref.WeakValueDictionary()
        self._tasks_made = itertools.count()
        self._futures_made = itertools.count()
        self._generators: weakref.WeakValueDictionary[int, AsyncGenerator[Any, Any]]
        self._generators = weakref.WeakValueDictionary()
        self._generators_made = itertools.count()
        self._finalizing: set[asyncio.Task[None]] = set()
        self._handler: Handler | None = None
        self._eager = False
        self._factory: TaskFactory | None = None
        self._debug = False
        self._closed = False
        self._stopping = False

    @property
    def now_ns(self) -> int:
        """Virtual nanoseconds since the loop was made."""
        return self._schedule.now_ns

    @property
    def digest(self) -> str:
        """A hash over every step so far: what ran, in which order, at which virtual time."""
        return self._hash.copy().hexdigest()

    def note(self, text: str) -> None:
        """Put `text` into the digest (and the trace), so that two runs are compared by it as well."""
        line = f"{self._schedule.now_ns} {text}"
        self._hash.update(line.encode() + b"\n")
        if self.trace is not None:
            self.trace.append(line)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._schedule.now_ns / 1e9

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Make `callback` ready at this moment."""
        self._check_open()
        handle = ReadyHandle(callback, args, self, context)
        self._schedule.add(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Make `callback` ready once `delay` virtual seconds have passed; infinity means never."""
        self._check_open()
        when_ns = self._schedule.after(delay)
        handle = TimerHandle(when_ns / 1e9, callback, args, self, context)
        self._schedule.arm(when_ns, handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Make `callback` ready at the virtual time `when`."""
        return self.call_later(when - self.time(), callback, *args, context=context)

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        """Called by asyncio's TimerHandle."""
        self._schedule.timer_cancelled()

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future that hashes by creation number."""
        return NumberedFuture(next(self._futures_made), self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        eager_start: bool | None = None,
    ) -> asyncio.Task[T]:
        """Make a task that hashes by creation number."""
        self._check_open()
        check_not_as_completed(sys._getframe(1))  # noqa: SLF001 - only the caller's name tells them apart
        if self._factory is not None:
            coro = contained(coro, context)
        eager = self._eager if eager_start is None else eager_start
        number = next(self._tasks_made)
        task = NumberedTask(number, coro, loop=self, name=name, context=context, eager=eager)
        self._tasks[number] = task
        return task

    def set_task_factory(self, factory: object) -> None:
        """Take what changes no task: `None`, `asyncio.eager_task_factory`, or that of a pool around these.

        Tasks that other factories make hash by address.
        """
        self._factory = factory if isinstance(factory, TaskFactory) else None
        before = factory.before if isinstance(factory, TaskFactory) else factory
        if before is not None and before is not getattr(asyncio, "eager_task_factory", None):
            refuse("set_task_factory", "a foreign kind of task")
        self._eager = before is not None

    def get_task_factory(self) -> Any:
        """Return what was set."""
        eager = getattr(asyncio, "eager_task_factory", None) if self._eager else None
        return self._factory or eager

    def tasks_unfinished(self) -> list[NumberedTask[Any]]:
        """All tasks that are not done, by number."""
        return [task for _, task in sorted(self._tasks.items()) if not task.done()]

    def tasks_unheard(self) -> list[NumberedTask[Any]]:
        """All failed tasks whose exception nobody has looked at, by number."""
        return [task for _, task in sorted(self._tasks.items()) if task.is_unheard()]

    def _generator_started(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[next(self._generators_made)] = generator

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        if self._closed:
            return
        closing = self.create_task(_close_generator(self, generator), eager_start=False)
        self._finalizing.add(closing)
        closing.add_done_callback(self._finalizing.discard)

    async def shutdown_asyncgens(self) -> None:
        """Close the asynchronous generators still alive, in the order they were started."""
        for _, generator in sorted(self._generators.items()):
            await _close_generator(self, generator)
        self._generators.clear()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """There is never an executor to shut down."""

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Run until `future` is done; raise on a deadlock, a runaway or an error nobody handled."""
        main: asyncio.Future[T] = asyncio.ensure_future(future, loop=self)  # type: ignore[arg-type]
        self._drive(main.done)
        return main.result()

    def run_forever(self) -> None:
        """Run until `stop` is called."""
        self._stopping = False
        self._drive(lambda: self._stopping)

    def stop(self) -> None:
        """End `run_forever` after the current step."""
        self._stopping = True

    def shut_down(self) -> None:
        """Cancel what is left in order of creation, close the generators, then the loop."""
        self.steps_max = self.steps + SHUTDOWN_STEPS_MAX
        try:
            self._end_tasks()
            self._drive(self.create_task(self.shutdown_asyncgens()).done, strict=False)
            self._end_tasks()
        except InvariantBroken as error:
            self.unhandled.append(Unhandled("a cancelled task did not end", error))
        finally:
            for task in self.tasks_unfinished():
                task.abandon()
            self.close()

    def _end_tasks(self) -> None:
        """Cancel all tasks, and those that they start while they end, once each."""
        number_min = 0
        while left := [task for task in self.tasks_unfinished() if task.number >= number_min]:
            number_min = left[-1].number + 1
            for task in left:
                task.cancel("the run is over")
            self._drive(partial(_all_done, left), strict=False)

    def _drive(self, is_done: Callable[[], bool], *, strict: bool = True) -> None:
        self._check_open()
        check_no_running_loop()
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generator_started, finalizer=self._generator_dropped)
        _set_running_loop(self)
        try:
            while not is_done():
                self._step()
                if strict and self.unhandled:
                    self.raise_unhandled()
        finally:
            _set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _step(self) -> None:
        handle = self._schedule.next()
        if handle is None:
            self._raise_deadlock()
        if handle.cancelled():
            return
        label = label_of(handle)
        if self.steps >= self.steps_max:
            raise InvariantBroken(
                "testing.runaway", "no end after {steps} steps, at virtual second {now}; next was {label}",
                steps=self.steps, now=self.time(), label=label,
                hint="Time stands still while anything is ready: look for a loop that never waits.",
            )  # fmt: skip
        self.steps += 1
        self.note(label)
        handle.run()

    def _raise_deadlock(self) -> NoReturn:
        waiting = [task.where_waiting() for task in self.tasks_unfinished()]
        raise InvariantBroken(
            "testing.deadlock", "nothing is ready, no timer is set, and {count} tasks wait:\n{waiting}\n",
            count=len(waiting), waiting="\n".join(f"  {line}" for line in waiting), now_ns=self.now_ns,
            hint="Each line is a task and the chain of calls it waits in.",
        )  # fmt: skip

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Take an error that asyncio would only log; it fails the run unless a handler was set."""
        if self._handler is not None:
            self._handler(self, context)
        else:
            self.default_exception_handler(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Fail the run."""
        self.unhandled.append(Unhandled(str(context.get("message", "")), context.get("exception")))

    def raise_unhandled(self) -> NoReturn:
        """Fail because of what is in `unhandled`."""
        first = self.unhandled[0]
        raise InvariantBroken(
            "testing.unhandled_error", "{count} errors that nobody handled, first: {message}: {error!r}",
            count=len(self.unhandled), message=first.message, error=first.error,
        ) from first.error  # fmt: skip

    def set_exception_handler(self, handler: Handler | None) -> None:
        """Let `handler` take the errors nobody handled."""
        self._handler = handler

    def get_exception_handler(self) -> Handler | None:
        """Return what was set."""
        return self._handler

    def get_debug(self) -> bool:
        """Tell whether asyncio keeps creation tracebacks."""
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        """Let asyncio keep creation tracebacks."""
        self._debug = enabled

    def is_running(self) -> bool:
        """Tell whether this loop runs now."""
        return _get_running_loop() is self

    def is_closed(self) -> bool:
        """Tell whether the loop was closed."""
        return self._closed

    def close(self) -> None:
        """Forget everything that is scheduled; idempotent."""
        self._closed = True
        self._schedule.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")


def check_no_running_loop() -> None:
    """Refuse to run inside another event loop."""
    if _get_running_loop() is not None:
        raise Rejected(
            "testing.loop_nested", "a deterministic run cannot start inside another event loop",
            hint="Call it from a plain function, not from a coroutine.",
        )  # fmt: skip


def _all_done(tasks: Sequence[asyncio.Future[Any]]) -> bool:
    return all(task.done() for task in tasks)


async def _close_generator(loop: asyncio.AbstractEventLoop, generator: AsyncGenerator[Any, Any]) -> None:
    try:
        await generator.aclose()
    except Exception as error:  # noqa: BLE001 - reported: one broken generator must not keep others open
        message = f"closing the asynchronous generator {getattr(generator, '__qualname__', '?')} failed"
        loop.call_exception_handler({"message": message, "exception": error})
