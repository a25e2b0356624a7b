"""`Workflow`: what a workflow's function gets as its first argument. Everything it awaits comes from here.

    paid = await ctx.effect(charge(Charge(order.id, 30)))
    await ctx.sleep(timedelta(days=30))
    change = await ctx.event(CardChanged, Ended, timeout=timedelta(days=3))
    both = await ctx.gather(pack(ctx, order), bill(ctx, order))

A call asks at once; awaiting it only waits. So two effects that are asked for one after the other run side by
side, and one that is never awaited is done all the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeVar, overload

from cellule.modules.python.context import EPOCH, KeyReader, Moment
from cellule.modules.workflow.failure import EffectFailed, GoesOn
from cellule.modules.workflow.loop import Loop
from cellule.modules.workflow.tasks import Cancelled, Gathering, Pending, Racing, Task, Won
from cellule.values.records import RecordLike
from cellule.values.requests import Request
from cellule.values.schema.text_forms import duration_text

if TYPE_CHECKING:
    from typing import Self


T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
R = TypeVar("R")

NO_DEFAULT: Final = object()
"""Says that a timeout raises."""

Span = timedelta | float
"""A length of time; a number is of seconds."""


class RunOrigin(Protocol):
    """See `Origin`: of a run, time is that of the answer it is at work on."""

    now_ns: int
    entropy: bytes
    key: bytes


class _Commanded(Protocol):
    """The run that a context asks; `Run` says what each does."""

    @property
    def loop(self) -> Loop: ...

    def effect(self, request: Request[Any]) -> Pending[Any]: ...

    def timer(self, what: str, span: timedelta, *, shown: bool = True) -> Pending[Any]: ...

    def sleep(self, span: timedelta) -> Pending[None]: ...

    def sleep_until(self, when: datetime) -> Pending[None]: ...

    def event(
        self, kinds: tuple[Any, ...], where: Callable[[Any], object] | None, timeout: timedelta | None,
        default: Any = NO_DEFAULT,
    ) -> Pending[Any]: ...  # fmt: skip

    def emit(self, event: Any, key: object) -> None: ...

    def call(
        self, event: Any, answer: Any, key: object, where: Callable[[Any], object] | None,
        timeout: timedelta | None,
    ) -> Pending[Any]: ...  # fmt: skip

    def publish(self, value: object) -> None: ...

    def check_main(self, what: str) -> None: ...

    def arguments_for(self, given: tuple[Any, ...]) -> tuple[Any, ...]: ...

    def arguments_with(self, state: Any) -> tuple[Any, ...]: ...


class Workflow(Moment[RunOrigin]):
    """The context of one run: its key, its time and chance, and all that it can await."""

    __slots__ = ("_run",)

    def __init__(self, run: _Commanded, origin: RunOrigin, read_key: KeyReader) -> None:
        super().__init__(origin, read_key)
        self._run = run

    # What takes time

    def effect(self, request: Request[R]) -> Pending[R]:
        """Ask for an effect; awaiting it gives its receipt's value, or raises `EffectFailed`.

        Attempts, timeouts and backoff are the effect's own: it fails once no further attempt is made.
        """
        return self._run.effect(request)

    def sleep(self, span: Span) -> Pending[None]:
        """Wait so long, for a second or for years."""
        return self._run.sleep(_span(span))

    def sleep_until(self, when: datetime) -> Pending[None]:
        """Wait until an aware time."""
        return self._run.sleep_until(when)

    @overload
    def event(
        self, one: type[A], /, *, timeout: Span | None = None, where: Callable[[A], object] | None = None
    ) -> Pending[A]: ...

    @overload
    def event(
        self, one: type[A], two: type[B], /, *, timeout: Span | None = None,
        where: Callable[[A | B], object] | None = None,
    ) -> Pending[A | B]: ...  # fmt: skip

    @overload
    def event(
        self, *kinds: type[A], timeout: Span | None = None, where: Callable[[A], object] | None = None
    ) -> Pending[A]: ...

    @overload
    def event(
        self, *kinds: type[A], timeout: Span | None, default: B, where: Callable[[A], object] | None = None
    ) -> Pending[A | B]: ...

    def event(
        self, *kinds: type[Any], timeout: Span | None = None, default: Any = NO_DEFAULT,
        where: Callable[[Any], object] | None = None,
    ) -> Pending[Any]:  # fmt: skip
        """Wait for an event of these classes, of which `where` is true.

        After `timeout` it gives `default`; without one it raises `TimeoutError`. Events that came before are
        kept in order, and taken first.
        """
        return self._run.event(kinds, where, None if timeout is None else _span(timeout), default)

    def emit(self, event: RecordLike, *, key: object = None) -> None:
        """Send an event; `key` only where the route cannot take it from the event."""
        self._run.emit(event, key)

    def call(
        self, event: RecordLike, answer: type[A], *, key: object = None, timeout: Span | None = None,
        where: Callable[[A], object] | None = None,
    ) -> Pending[A]:  # fmt: skip
        """Send an event to another cell, and wait for the event that it answers with.

        The answer comes to this cell as any event does: by its key. `where` tells it from others. It raises
        `CallFailed` once no answer will come: the cell refused, its step or its run failed, it was cancelled
        or deleted, or ended without it. While that cell is halted, this one waits. After `timeout` it raises
        `TimeoutError`.
        """
        return self._run.call(event, answer, key, where, None if timeout is None else _span(timeout))

    # Several at once

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Task[T]:
        """Begin a task beside this one. If it fails and nobody awaits it, the main task gets its error."""
        return self._run.loop.spawn(coroutine)

    @overload
    def gather(self, one: Awaitable[A], /) -> Pending[list[A]]: ...

    @overload
    def gather(self, one: Awaitable[A], two: Awaitable[B], /) -> Pending[tuple[A, B]]: ...

    @overload
    def gather(
        self, one: Awaitable[A], two: Awaitable[B], three: Awaitable[C], /
    ) -> Pending[tuple[A, B, C]]: ...

    @overload
    def gather(self, *several: Awaitable[A]) -> Pending[list[A]]: ...

    def gather(self, *several: Awaitable[Any]) -> Pending[Any]:
        """Wait for all: their results in this order. The first that fails cancels the others."""
        loop = self._run.loop
        return Gathering(loop, loop.pendings(several))

    def race(self, *several: Awaitable[A]) -> Pending[Won[A]]:
        """Wait for the first: its position and its result.

        The others are cancelled, and have ended by then.
        """
        loop = self._run.loop
        if not several:
            raise ValueError("a race needs somebody who can win it")
        return Racing(loop, loop.pendings(several))

    def deadline(self, span: Span) -> Deadline:
        """`async with ctx.deadline(timedelta(days=3)) as deadline:` raises `TimeoutError` once it is over."""
        return Deadline(self._run, _span(span))

    # The run as a whole

    def publish(self, value: object) -> None:
        """Show this of the run from now on: whoever reads the cell sees it."""
        self._run.publish(value)

    def again(self, *arguments: Any) -> NoReturn:
        """Begin anew with these arguments and without history; `finally` blocks run before.

        Events that nothing has awaited yet come along. Only the main task may do it.
        """
        self._run.check_main("ctx.again")
        raise GoesOn(self._run.arguments_for(arguments))

    def forever(self, state: Any) -> NoReturn:
        """Begin anew with the same event, and with `state` as the last argument."""
        self._run.check_main("ctx.forever")
        raise GoesOn(self._run.arguments_with(state))


class Deadline:
    """A stretch of code that has to end in time; the time may be replaced while it runs."""

    __slots__ = ("_before", "_run", "_span", "_task", "_timer", "is_over")

    def __init__(self, run: _Commanded, span: timedelta) -> None:
        self._run = run
        self._span = span
        self._before = 0  # reasons for which its task was cancelled already
        self._task: Task[Any] | None = None
        self._timer: Pending[Any] | None = None
        self.is_over = False

    def replace(self, span: Span) -> None:
        """So long from now, instead of what it was."""
        if self._task is None or self.is_over:
            raise RuntimeError("a deadline is replaced while its block runs")
        self._span = _span(span)
        if self._timer is not None:
            self._timer.cancel()
        self._set()

    async def __aenter__(self) -> Self:
        self._task = task = self._run.loop.current
        assert task is not None
        self._before = len(task.reasons)
        self._set()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        timer, self._timer = self._timer, None
        assert self._task is not None
        if timer is not None and not self.is_over:
            timer.cancel()
        if not self.is_over or not self._task.forgive(self, self._before):
            return
        if error is None or isinstance(error, Cancelled):
            raise TimeoutError(f"not done within {span_text(self._span)}") from error

    def _set(self) -> None:
        self._timer = timer = self._run.timer(f"deadline {span_text(self._span)}", self._span)

        def fired(pending: Pending[Any]) -> None:
            if self._timer is not timer or self._task is None:
                return
            if pending.error is None:
                self.is_over = True
                self._task.cancel_for(self)
            elif isinstance(pending.error, EffectFailed):  # the timer was denied
                self._task.interrupt(pending.error)

        timer.when_done(fired)


def _span(given: object) -> timedelta:
    if isinstance(given, timedelta):
        return given
    if isinstance(given, int | float) and not isinstance(given, bool):
        return timedelta(seconds=given)
    raise TypeError(f"a length of time is a timedelta or seconds, not a {type(given).__qualname__}")


def span_text(span: timedelta) -> str:
    """A length of time as histories have it: `30d`, `1d12h`, `1h30m`."""
    days, rest = divmod(nanoseconds(span), nanoseconds(timedelta(days=1)))
    begin = f"{days}d" if days else ""
    return begin + (duration_text(rest) if rest or not days else "")


def nanoseconds(span: timedelta) -> int:
    """A length of time as the kernel counts it; none is negative."""
    return max(span // timedelta(microseconds=1), 0) * 1_000


def time_ns(when: datetime) -> int:
    """An aware time as the kernel counts it."""
    if when.tzinfo is None:
        raise TypeError("a time to sleep until needs its time zone: datetime(..., tzinfo=UTC)")
    return (when - EPOCH) // timedelta(microseconds=1) * 1_000
