"""`Commands`: what a run asks for, held against its history, and what of it is open.

While a run is resumed from its history, every command must be the recorded one: the same words, the same
parameters, in the same order. What differs ends the step with `workflow.changed`, whoever may have caught it.
A command beyond the history is new: it is recorded and done.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from types import FrameType
from typing import Any, Final

from cellule.kernel.manifest.model import TIMER_SET
from cellule.kernel.program import CheckedRequest, Emit, Request, StepFault
from cellule.modules.python.failure import Places
from cellule.modules.workflow import history
from cellule.modules.workflow.history import Ask
from cellule.modules.workflow.limits import WAITS_SHOWN_MAX
from cellule.modules.workflow.loop import Loop
from cellule.modules.workflow.tasks import Command
from cellule.values.cbor import encode

_OWN: Final = "cellule."
_ASKING: Final = frozenset(
    f"{__name__.rpartition('.')[0]}.{each}" for each in ("commands", "flow", "run", "tasks")
)
REMEDIES: Final = (
    "Pin it to the code it began with (`cellule cell migrate ... --to ERA`), deploy code that matches and "
    "`cellule cell resume` it, or let it begin anew: `cellule workflow rerun`."
)


@dataclass(slots=True)
class Sent:
    """What one step of a run leaves behind."""

    entries: list[bytes] = field(default_factory=list)
    events: list[Emit] = field(default_factory=list)
    effects: list[Request | CheckedRequest] = field(default_factory=list)
    cancels: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Open:
    """A command that waits for its answer; `shown` is false where another tells of it."""

    pending: Command[Any]
    ask: Ask
    since_ns: int
    due_ns: int | None = None
    key: str = ""
    kind: str = ""
    shown: bool = True
    call: tuple[str, str] | None = None  # of the answer to a call: its token, and what was called with

    def wait(self) -> list[Any]:
        """What the history says of it while it is open."""
        row = [self.ask.what, self.since_ns, self.due_ns, self.ask.place]
        if self.call is not None:
            token, name = self.call
            return [f"call {name}, {self.ask.what}", *row[1:], token]
        return row


class Commands:
    """The commands of one run; `key_of` gives the keys by which their answers find them."""

    def __init__(self, loop: Loop, places: Places, key_of: Callable[[int], str]) -> None:
        self._loop = loop
        self._places = places
        self._key = key_of
        self._position = 0
        self._expected: deque[Ask] | None = None
        self._waits = history.entry(history.WAITS, [])
        self._by_key: dict[tuple[str, str], deque[Open]] = {}
        self.open: dict[int, Open] = {}
        self.now_ns = 0
        self.sent = Sent()

    # History

    def expect(self, asks: Sequence[Ask]) -> None:
        """Until `check_asked`, commands are those that the history has behind one input."""
        self._expected = deque(asks)

    def check_asked(self) -> None:
        """Everything that the history has was asked for again; from here on, commands are new."""
        if self._expected:
            raise self.changed(self._expected[0], None)
        self._expected = None

    @property
    def is_live(self) -> bool:
        """Whether commands are new."""
        return self._expected is None

    def changed(self, expected: Ask | None, found: Ask | None, instead: str = "nothing more") -> StepFault:
        """The fault of a run whose code does something else than its history says."""
        wanted = "nothing before its next input" if expected is None else str(expected)
        got = instead if found is None else str(found)
        if expected is not None and found is not None and expected.what == found.what:
            got += " with other parameters"
        return self._loop.failed(
            "workflow.changed",
            f"the code does something else than the cell's history: command {self._position + 1}: expected "
            f"{wanted}, got {got}. {REMEDIES}",
        )

    def record(self, data: bytes) -> None:
        """Add an entry to the history, unless it is being read."""
        if self.is_live:
            self.sent.entries.append(data)

    def recorded_waits(self, found: Any) -> None:
        """The history says what the run waited for."""
        self._waits = history.entry(history.WAITS, found)

    def record_waits(self) -> None:
        """Record what the run waits for now, where that has changed."""
        shown = [each.wait() for each in self.open.values() if each.shown]
        data = history.entry(history.WAITS, shown[:WAITS_SHOWN_MAX])
        if data != self._waits:
            self._waits = data
            self.record(data)

    # Asking

    def ask(self, what: str, parameters: bytes = b"") -> tuple[int, Ask]:
        """Note a command: its number in the run, and what it is."""
        self._loop.check_alive()
        mine = Ask.of(what, parameters, self._place())
        if self._expected is not None:
            recorded = self._expected.popleft() if self._expected else None
            if recorded is None or not recorded.is_like(mine):
                raise self.changed(recorded, mine)
        else:
            self.sent.entries.append(history.entry(history.ASK, *mine))
        self._position += 1
        return self._position, mine

    def effect(self, request: CheckedRequest) -> Command[Any]:
        """Ask for an effect."""
        kind, params, slot, key, limits = request
        digested = encode([params, slot, key, limits])  # type: ignore[list-item]
        number, ask = self.ask(f"effect {kind}", digested)
        key = key or self._key(number)
        if self.is_live:
            self.sent.effects.append(CheckedRequest(kind, params, slot, key, limits))
        return self._opened(number, ask, key=key, kind=kind)

    def timer(self, what: str, due_ns: int, *, shown: bool = True) -> Command[Any]:
        """Ask to be woken at a time."""
        number, ask = self.ask(what)
        key = self._key(number)
        if self.is_live:
            self.sent.effects.append(Request(TIMER_SET, encode({"at_ns": due_ns, "key": key}), None, key))
        return self._opened(number, ask, due_ns, key=key, kind=TIMER_SET, shown=shown)

    def event(
        self, names: Sequence[str], due_ns: int | None, call: tuple[str, str] | None = None
    ) -> tuple[int, Command[Any]]:
        """Wait for an event of one of these schemas; `call` is what it answers."""
        number, ask = self.ask(f"event {' or '.join(map(_local, names))}", encode(list(names)))
        found = self._opened(number, ask, due_ns)
        self.open[number].call = call
        return number, found

    def emit(self, event: Emit) -> None:
        """Send an event."""
        self.ask(f"emit {event.schema}", encode([event.value, event.key]))
        if self.is_live:
            self.sent.events.append(event)

    def call(self, event: Emit, answer: str) -> tuple[str, str]:
        """Send an event that its cell is to answer: the token of this call, and what was called with."""
        number, _ = self.ask(f"emit {event.schema}", encode([event.value, event.key]))
        token = self._key(number)
        if self.is_live:
            self.sent.events.append(event._replace(call=(token, answer)))
        return token, _local(event.schema)

    # Answers

    def take(self, kind: str, key: str) -> Open | None:
        """The oldest open command that a receipt or a timer answers; None where none is open any more."""
        waiting = self._by_key.get((kind, key))
        if not waiting:
            return None
        found = waiting.popleft()
        if not waiting:
            del self._by_key[kind, key]
        return found

    def close(self, number: int) -> None:
        """A command has its answer."""
        self.open.pop(number, None)

    def end_timers(self) -> None:
        """The run is over: its timers need not fire. Effects that nobody waits for are done all the same."""
        for each in list(self.open.values()):
            if each.kind != TIMER_SET:
                each.kind = each.key = ""
            each.pending.cancel()

    def _opened(
        self, number: int, ask: Ask, due_ns: int | None = None, *, key: str = "", kind: str = "",
        shown: bool = True,
    ) -> Command[Any]:  # fmt: skip
        pending: Command[Any] = Command(self._loop, lambda: self._drop(number))
        found = Open(pending, ask, self.now_ns, due_ns, key, kind, shown)
        self.open[number] = found
        if key:
            self._by_key.setdefault((kind, key), deque()).append(found)
        pending.when_done(lambda _: self.close(number))
        return pending

    def _drop(self, number: int) -> None:
        """Nobody waits for a command any more: it is taken back where that is possible."""
        found = self.open.get(number)
        if found is None or not found.key:
            return
        waiting = self._by_key.get((found.kind, found.key))
        if waiting is not None and found in waiting:
            waiting.remove(found)
            if not waiting:
                del self._by_key[found.kind, found.key]
        self.ask(f"cancel command {number}")
        # A key stands for all that the cell asked for by it: where somebody still waits for another of
        # these, all of them are done, and the receipt that nobody waits for changes nothing.
        if self.is_live and not any(key == found.key for _, key in self._by_key):
            self.sent.cancels.append(found.key)

    def _place(self) -> str:
        """The line of the author's code that asks."""
        frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the only way to know it
        while frame is not None:
            module = str(frame.f_globals.get("__name__"))
            name = self._places.name(frame.f_code.co_filename)
            if module.startswith(_OWN):
                if module not in _ASKING:
                    return ""  # no code of the author's asked; who lets the run work is not meant
            elif name is not None:
                return f"{PurePath(name).name}:{frame.f_lineno}"
            frame = frame.f_back
        return ""


def _local(schema: str) -> str:
    """The name of a schema without its namespace and version."""
    return schema.rpartition("/")[2].partition("@")[0]
