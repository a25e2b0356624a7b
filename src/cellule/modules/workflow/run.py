"""`Run`: one run of a workflow at work. Answers go in one after the other; commands come out.

A run is made of its history, or begins; either way it is the same code that runs, and what it leaves behind
depends on the answers and their order alone. `Workflow` is the author's view of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from cellule.kernel.manifest.model import TIMER_SET
from cellule.kernel.manifest.system import Ended
from cellule.kernel.program import StepRefusal
from cellule.modules.python.step import Keyed
from cellule.modules.workflow import history
from cellule.modules.workflow.code import WorkflowCode
from cellule.modules.workflow.commands import Commands
from cellule.modules.workflow.failure import EffectFailed, call_failure, failure_of, told_to_callers
from cellule.modules.workflow.flow import NO_DEFAULT, Workflow, nanoseconds, span_text, time_ns
from cellule.modules.workflow.limits import EVENTS_KEPT_MAX
from cellule.modules.workflow.loop import Loop
from cellule.modules.workflow.start import Start, StartOrigin, key_of
from cellule.modules.workflow.tasks import Cancelled, Command, Pending
from cellule.values.requests import Receipt, Request
from cellule.values.schema.annotations import shown_type


class _Waiter(NamedTuple):
    """Somebody who waits for an event."""

    number: int
    kinds: tuple[type, ...]
    where: Callable[[Any], object] | None
    pending: Command[Any]


class _Kept(NamedTuple):
    """An event that nothing has awaited yet: its object, and as it stands in the history."""

    event: Any
    schema: str
    value: Any


class Run:
    """One run; after each answer, `settle` lets it work until it waits."""

    def __init__(self, code: WorkflowCode, start: Start, key: bytes) -> None:
        self._loop = Loop()
        self.start = start
        self.cancelled: str | None = None  # why somebody outside cancelled it
        self._published: bytes | None = None  # the entry of what it shows of itself
        self._code = code
        self._origin = StartOrigin(start, key)
        self.commands = Commands(self.loop, code.places, partial(key_of, start))
        self.commands.now_ns = start.now_ns
        self._waiters: dict[int, _Waiter] = {}
        self._calls: dict[str, Pending[Any]] = {}  # by their tokens; see `give_failure`
        self._kept: list[_Kept] = []

    @property
    def loop(self) -> Loop:
        """Its tasks."""
        return self._loop

    def begin(self) -> None:
        """Call the function."""
        code, start = self._code, self.start
        context = Workflow(self, self._origin, code.read_key)
        event = code.events[start.schema](start.value)
        given = [read(each) for read, each in zip(code.argument_readers, start.arguments, strict=False)]
        self.loop.main = self.loop.spawn(code.function(context, event, *given))

    def settle(self) -> bool:
        """Work until everything waits; tell whether the run is over."""
        self.loop.run()
        if self.loop.is_over:
            return True
        if not self.commands.open:
            text = "the run waits, and for nothing that could come: its tasks wait for each other"
            raise self.loop.failed("workflow.deadlock", text)
        return False

    @property
    def kept(self) -> Sequence[tuple[str, Any]]:
        """The events that nothing has awaited."""
        return [(each.schema, each.value) for each in self._kept]

    # Answers

    @property
    def order(self) -> str:
        """The schema by which somebody outside cancels the run."""
        return self._code.order

    def awaits(self, schema: str) -> bool:
        """Whether events of a schema come to runs, and not only begin them."""
        return schema in self._code.awaited

    def at(self, now_ns: int) -> None:
        """The time of the answer that comes next."""
        self._origin.now_ns = self.commands.now_ns = now_ns

    def give_event(self, schema: str, value: Any) -> None:
        """An event: to the first who waits for it, else it is kept."""
        event = self._code.events[schema](value)
        for waiter in self._waiters.values():
            if isinstance(event, waiter.kinds) and (waiter.where is None or waiter.where(event)):
                del self._waiters[waiter.number]
                waiter.pending.give(event)
                return
        if len(self._kept) >= EVENTS_KEPT_MAX:
            text = f"the run keeps {EVENTS_KEPT_MAX} events already that nothing has awaited"
            raise StepRefusal("workflow.events_kept", text)
        self._kept.append(_Kept(event, schema, value))

    def give_receipt(self, schema: str, value: Any) -> bool:
        """What came of an effect; false where nobody waits for it any more."""
        receipt: Receipt[Any] = self._code.receipts[schema](value)
        found = self.commands.take(receipt.kind, receipt.key or "")
        if found is None:
            return False
        if receipt.ok:
            found.pending.give(receipt.value)
        else:
            found.pending.end(failure_of(receipt))
        return True

    def give_timer(self, value: Any) -> bool:
        """A timer fired; false where nobody waits for it any more."""
        found = self.commands.take(TIMER_SET, value.get("key") or "")
        if found is None:
            return False
        found.pending.give(None)
        return True

    def give_failure(self, outcome: Any) -> bool:
        """A call gets no answer; false where nobody waits for one any more."""
        pending = self._calls.pop(outcome["call"], None)
        is_open = pending is not None and not pending.is_done
        if pending is not None:
            pending.end(call_failure(outcome))
        return is_open

    def cancel(self, why: str) -> None:
        """Somebody outside cancels the run, once: its main task gets `Cancelled` where it waits."""
        if self.cancelled is not None:
            return
        self.cancelled = why
        assert self.loop.main is not None
        self.loop.main.cancel_for(self)

    # What `Workflow` asks for

    def effect(self, request: Request[Any]) -> Command[Any]:
        """See `Workflow.effect`."""
        self.loop.check_alive()
        if getattr(request, "kind", None) == TIMER_SET:
            raise TypeError("a workflow needs no timer effect: await ctx.sleep(timedelta(days=3))")
        (checked,) = self._code.requests.encoded([request])
        return self.commands.effect(checked)

    def timer(self, what: str, span: timedelta, *, shown: bool = True) -> Command[Any]:
        """A timer from now."""
        self.loop.check_alive()
        return self.commands.timer(what, self._origin.now_ns + nanoseconds(span), shown=shown)

    def sleep(self, span: timedelta) -> Command[None]:
        """See `Workflow.sleep`."""
        return self.timer(f"sleep {span_text(span)}", span)

    def sleep_until(self, when: datetime) -> Command[None]:
        """See `Workflow.sleep_until`."""
        return self.commands.timer(f"sleep until {when.isoformat()}", time_ns(when))

    def event(
        self, kinds: tuple[Any, ...], where: Callable[[Any], object] | None, timeout: timedelta | None,
        default: Any = NO_DEFAULT, call: tuple[str, str] | None = None,
    ) -> Pending[Any]:  # fmt: skip
        """See `Workflow.event`; `call` is what the event answers."""
        self.loop.check_alive()
        names = [self.check_awaits(kind) for kind in kinds]
        due_ns = None if timeout is None else self._origin.now_ns + nanoseconds(timeout)
        number, pending = self.commands.event(names, due_ns, call)
        for at, kept in enumerate(self._kept):
            if isinstance(kept.event, kinds) and (where is None or where(kept.event)):
                del self._kept[at]
                pending.give(kept.event)
                return pending
        self._waiters[number] = _Waiter(number, kinds, where, pending)
        pending.when_done(lambda _: self._forget(number))
        if timeout is not None:
            self._limit(pending, timeout, default)
        return pending

    def _forget(self, number: int) -> None:
        self._waiters.pop(number, None)

    def _limit(self, pending: Command[Any], timeout: timedelta, default: Any) -> None:
        timer = self.timer(f"timeout {span_text(timeout)}", timeout, shown=False)

        def fired(_: Pending[Any]) -> None:
            if timer.error is None and default is not NO_DEFAULT:
                pending.give(default)
            elif timer.error is None:
                pending.end(TimeoutError(f"no such event within {span_text(timeout)}"))
            elif isinstance(timer.error, EffectFailed):
                pending.end(timer.error)

        def ended(_: Pending[Any]) -> None:
            if not timer.is_done:
                timer.cancel()

        timer.when_done(fired)
        pending.when_done(ended)

    def emit(self, event: Any, key: object) -> None:
        """See `Workflow.emit`."""
        self.loop.check_alive()
        (made,) = self._code.emissions.encoded([event if key is None else Keyed(event, key)])
        self.commands.emit(made)

    def call(
        self, event: Any, answer: Any, key: object, where: Callable[[Any], object] | None,
        timeout: timedelta | None,
    ) -> Pending[Any]:  # fmt: skip
        """See `Workflow.call`."""
        self.loop.check_alive()
        name = self.check_awaits(answer)
        if not self._code.hears_of_calls:  # the manifest of its era is older
            self.emit(event, key)
            return self.event((answer,), where, timeout)
        (made,) = self._code.emissions.encoded([event if key is None else Keyed(event, key)])
        call = self.commands.call(made, name)
        self._calls[call[0]] = pending = self.event((answer,), where, timeout, call=call)
        return pending

    def publish(self, value: object) -> None:
        """See `Workflow.publish`."""
        self.loop.check_alive()
        data = self._code.emissions.plain(value, "what is published")
        self._code.check_size(data, "what is published")
        self._published = history.entry_with(data, history.PUBLISH)
        self.commands.record(self._published)

    def check_awaits(self, kind: Any) -> str:
        """The schema of an event that comes to this workflow."""
        name = self._code.names.get(kind)
        if name is None:
            shown = shown_type(kind) if isinstance(kind, type) else repr(kind)
            known = ", ".join(shown_type(each) for each in self._code.names) or "none"
            raise TypeError(
                f"{shown} is no event that comes to this workflow ({known}). "
                "Name it in its decorator: @app.workflow(events=[...])"
            )
        return name

    # Going on anew

    def check_main(self, what: str) -> None:
        """Only the main task can end a run."""
        self.loop.check_alive()
        if self.loop.current is not self.loop.main:
            raise RuntimeError(f"{what} is for the main task: return from this one, and call it there")

    def arguments_for(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """The event and arguments of the next run, as they stand in its first entry."""
        code = self._code
        if not 1 <= len(given) <= 1 + len(code.signature.arguments):
            raise TypeError(
                f"ctx.again takes what {code.function.__name__} takes behind ctx, not {len(given)} values"
            )
        event, *arguments = given
        schema = code.names.get(type(event))
        if schema is None or type(event) not in code.signature.starts:
            raise TypeError(f"a run begins with an event, not with a {shown_type(type(event))}")
        return schema, code.event_writers[schema](event), code.written(arguments)

    def arguments_with(self, state: Any) -> tuple[Any, ...]:
        """The same event, and another last argument."""
        if not self._code.signature.arguments:
            name = self._code.function.__name__
            raise TypeError(f"ctx.forever gives {name} its last parameter: give it one behind the event")
        arguments = list(self.start.arguments)
        last = len(self._code.signature.arguments) - 1
        if len(arguments) < last:
            raise TypeError("ctx.forever gives the last parameter only: use ctx.again")
        return self.start.schema, self.start.value, [*arguments[:last], self._code.written_last(state)]

    # Its end

    @property
    def error(self) -> BaseException | None:
        """What the run ended with, where that is no result."""
        assert self.loop.main is not None
        return self.loop.failure or self.loop.main.error

    def ending(self) -> tuple[list[bytes], Ended]:
        """The history of a run that is over: its begin, what it showed, its end; and what callers hear."""
        entries = [self.start.entry(), *([self._published] if self._published is not None else [])]
        status, detail = self._outcome()
        entries.append(history.entry(history.END, self._origin.now_ns, status, detail))
        return entries, told_to_callers(status, detail)

    def _outcome(self) -> tuple[Any, ...]:
        """How the run ended; raises what is no way for a run to end."""
        main, error = self.loop.main, self.error
        assert main is not None
        if error is None:
            return history.COMPLETED, self._code.written_result(main.result())
        if isinstance(error, Cancelled):
            return history.CANCELLED, self.cancelled or ""
        found = self._code.failure(error)
        if found is None:
            raise error
        return history.FAILED, list(found)
