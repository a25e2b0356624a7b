"""What a workflow awaits: `Pending` answers, `Task`s, and groups of them. No loop, no thread, no clock.

A task runs until it awaits something that is not there yet; what settles a `Pending` makes the tasks that
wait for it ready. Everything happens in the order in which it was settled, so the same answers in the same
order lead to the same commands.

A cancelled task gets `Cancelled` where it waits, once, and may await what it likes while it cleans up.
Whoever waits for a task that is cancelled waits until it has ended: `gather` and `race` never leave one
behind.

Rejected: asyncio with a loop of our own. Its order rests on callbacks, handles and weak sets that are not
ours to promise, and every library that finds a running loop would use it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, NoReturn, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Scheduler(Protocol):
    """The run that something pending is of."""

    def check_alive(self) -> None:
        """Stop code of a run that is let go."""

    def make_ready(self, task: Task[Any]) -> None:
        """Let a task go on."""

    def let_go(self) -> None:
        """From now on, whatever code of the run asks for is not done."""


class Cancelled(BaseException):
    """Raised in a task of a workflow, where it waits, once it is cancelled.

    It is no `Exception`: `except Exception` lets it pass. Clean up in `finally`, where awaiting is fine.
    """


class Won(NamedTuple, Generic[T]):
    """The first of a race: its position, and what it gave."""

    at: int
    value: T


class Pending(Generic[T_co]):
    """An answer that is not there yet; await it, any number of times."""

    __slots__ = ("_callbacks", "_error", "_loop", "_value", "is_done")

    def __init__(self, loop: Scheduler) -> None:
        self._loop = loop
        self._callbacks: list[Callable[[Pending[Any]], None]] = []
        self._value: Any = None
        self._error: BaseException | None = None
        self.is_done = False

    def __await__(self) -> Generator[Pending[Any], None, T_co]:
        self._loop.check_alive()
        if not self.is_done:
            try:
                yield self
            except GeneratorExit:  # the interpreter closes a coroutine that nobody holds any more
                self._loop.let_go()
                raise
        return self.result()

    def result(self) -> T_co:
        """What it gave, or raise what it ended with."""
        if self._error is not None:
            raise self._error
        found: T_co = self._value
        return found

    def cancel(self) -> None:
        """Let go of it: what it asked for is taken back, and whoever awaits it gets `Cancelled`."""
        self._loop.check_alive()
        self.end(Cancelled())

    # Cellule's own

    def give(self, value: Any) -> None:
        """Settle it with a value, unless it is settled."""
        self._settle(value, None)

    def end(self, error: BaseException) -> None:
        """Settle it with an error, unless it is settled."""
        self._settle(None, error)

    def when_done(self, callback: Callable[[Pending[Any]], None]) -> None:
        """Call this once it is settled; at once if it is."""
        if self.is_done:
            callback(self)
        else:
            self._callbacks.append(callback)

    @property
    def error(self) -> BaseException | None:
        """What it ended with, where that was an error."""
        return self._error

    @property
    def is_awaited(self) -> bool:
        """Whether anybody waits for it."""
        return bool(self._callbacks)

    def belongs_to(self, loop: Scheduler) -> bool:
        """Whether this is of that run."""
        return self._loop is loop

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self.is_done:
            return
        self.is_done = True
        self._value, self._error = value, error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)


class Command(Pending[T_co]):
    """A pending answer of something that was asked for; `dropped` is called where it is let go before."""

    __slots__ = ("_dropped",)

    def __init__(self, loop: Scheduler, dropped: Callable[[], None]) -> None:
        super().__init__(loop)
        self._dropped = dropped

    def cancel(self) -> None:
        """See `Pending.cancel`."""
        self._loop.check_alive()
        if not self.is_done:
            self._dropped()
        self.end(Cancelled())


class Task(Pending[T_co]):
    """A coroutine at work beside the others of its run; awaiting it gives what it returns."""

    __slots__ = ("_raises", "_waits", "coroutine", "reasons")

    def __init__(self, loop: Scheduler, coroutine: Coroutine[Any, Any, T_co]) -> None:
        super().__init__(loop)
        self.coroutine = coroutine
        self.reasons: list[object] = []  # why it was cancelled, by whom that is still to be answered for
        self._waits: Pending[Any] | None = None
        self._raises: BaseException | None = None

    def cancel(self) -> None:
        """Raise `Cancelled` in it, where it waits; what it waits for is let go."""
        self._loop.check_alive()
        self.cancel_for(None)

    # Cellule's own

    def cancel_for(self, reason: object) -> None:
        """Cancel it, for a reason that can be taken back."""
        if not self.is_done:
            self.reasons.append(reason)
            self.interrupt(Cancelled())

    def interrupt(self, error: BaseException) -> None:
        """Raise an error in it as soon as what it waits for is let go."""
        if self.is_done:
            return
        self._raises = error
        waits = self._waits
        if waits is not None:
            waits.cancel()  # settles it, at once or when its tasks have ended, and that wakes this one

    def forgive(self, reason: object, before: int) -> bool:
        """Take a reason back; tell whether there are no more than so many that were there before."""
        self.reasons.remove(reason)
        if len(self.reasons) > before:
            return False
        if isinstance(self._raises, Cancelled):
            self._raises = None
        return True

    def advance(self) -> object:
        """Run it until it waits; returns what it awaits."""
        error, self._raises = self._raises, None
        if error is not None:
            return self.coroutine.throw(error)
        return self.coroutine.send(None)

    def wait_for(self, pending: Pending[Any]) -> None:
        """Go on once this is settled."""
        if self._raises is not None and not pending.is_done:
            pending.cancel()
        self._waits = pending
        pending.when_done(self._wake)

    def _wake(self, pending: Pending[Any]) -> None:
        if self._waits is pending:
            self._waits = None
            self._loop.make_ready(self)


class Gathering(Pending[list[Any]]):
    """All of several: their results in order; the first that fails cancels the others."""

    __slots__ = ("_first", "_left", "_members")

    def __init__(self, loop: Scheduler, members: Sequence[Pending[Any]]) -> None:
        super().__init__(loop)
        self._members = members
        self._left = len(members)
        self._first: BaseException | None = None
        if not members:
            self.give([])
        for member in members:
            member.when_done(self._one_done)

    def cancel(self) -> None:
        """See `Pending.cancel`: it is settled once all have ended."""
        self._loop.check_alive()
        self._stop(Cancelled())

    def _stop(self, error: BaseException) -> None:
        if self._first is None:
            self._first = error
            for member in self._members:
                member.cancel()

    def _one_done(self, member: Pending[Any]) -> None:
        self._left -= 1
        if member.error is not None:
            self._stop(member.error)
        if self._left:
            return
        if self._first is not None:
            self.end(self._first)
        else:
            self.give([each.result() for each in self._members])


class Racing(Pending[Won[Any]]):
    """The first of several; the others are cancelled, and have ended before it is settled."""

    __slots__ = ("_left", "_members", "_winner")

    def __init__(self, loop: Scheduler, members: Sequence[Pending[Any]]) -> None:
        super().__init__(loop)
        self._members = members
        self._left = len(members)
        self._winner: int | None = None
        for at, member in enumerate(members):
            member.when_done(partial(self._one_done, at))

    def cancel(self) -> None:
        """See `Pending.cancel`: it is settled once all have ended."""
        self._loop.check_alive()
        self._stop(-1)

    def _stop(self, winner: int) -> None:
        if self._winner is None:
            self._winner = winner
            for at, member in enumerate(self._members):
                if at != winner:
                    member.cancel()

    def _one_done(self, at: int, _member: Pending[Any]) -> None:
        self._left -= 1
        self._stop(at)
        if self._left:
            return
        others = (each.error for i, each in enumerate(self._members) if i != self._winner)
        failed = next((each for each in others if each is not None and not isinstance(each, Cancelled)), None)
        assert self._winner is not None
        if failed is not None:
            self.end(failed)
        elif self._winner < 0:
            self.end(Cancelled())
        elif (error := self._members[self._winner].error) is not None:
            self.end(error)
        else:
            self.give(Won(self._winner, self._members[self._winner].result()))


def no_result(given: object) -> NoReturn:
    """Say that something cannot be awaited in a workflow."""
    raise TypeError(f"this takes coroutines, tasks and what ctx gives, not a {type(given).__qualname__}")
