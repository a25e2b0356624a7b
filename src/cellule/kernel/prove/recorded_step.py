"""A step with all that a frame has of it, for those who run it again: with nothing sealed in it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.records import EmittedRecord, IntentRecord, StepRecord, UpcastRecord
from cellule.kernel.need import Need, fetch
from cellule.kernel.state import log_state as log
from cellule.kernel.state.ledger import Ledger
from cellule.values.envelope import value_of
from cellule.values.link import Link
from cellule.values.sealed_value import is_sealed


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A step as a frame has it: the upcasts before it, and the events and requests that stand behind it."""

    height: int
    step: StepRecord
    upcasts: list[UpcastRecord]
    emitted: list[EmittedRecord]
    asked: list[IntentRecord]

    @classmethod
    def of(cls, frame: Frame, height: int, step: StepRecord) -> RecordedStep:
        """The records that belong to the step at a height."""
        found = cls(height, step, [], [], [])
        for before in range(height - 1, frame.header.first - 1, -1):
            record = frame.at(before)
            if not isinstance(record, UpcastRecord):
                break
            found.upcasts.insert(0, record)
        for after in range(height + 1, frame.header.last + 1):
            match frame.at(after):
                case StepRecord() | UpcastRecord():
                    break
                case EmittedRecord(cause=cause) as emitted if cause == height:
                    found.emitted.append(emitted)
                case IntentRecord(cause=cause) as asked if cause == height:
                    found.asked.append(asked)
        return found

    def opened(self, ledger: Ledger) -> Generator[Need, None, RecordedStep]:
        """The same with nothing sealed in it; `Gone` where something is erased."""
        if not ledger.keys.in_use:
            return self
        step, extras = self.step, {**self.step.extras}
        for name in ("reply", "ann"):
            extras[name] = yield from _opened(extras.get(name), ledger)
        extras["text"] = yield from ledger.keys.opened_text(self.step.extras.get("text", ""))
        state = yield from _opened(step.state, ledger, is_log="log" in extras)
        emitted, asked = [], []
        for event in self.emitted:
            value = yield from _opened(event.value, ledger)
            emitted.append(event._replace(value=value))
        for request in self.asked:
            params = yield from _opened(request.params, ledger)
            asked.append(request._replace(params=params))
        kept: Any = {name: each for name, each in extras.items() if each not in (None, "")}
        return RecordedStep(
            self.height, step._replace(state=state, extras=kept), self.upcasts, emitted, asked
        )  # fmt: skip


def _opened(stored: Any, ledger: Ledger, *, is_log: bool = False) -> Generator[Need, None, Any]:
    """A stored value as it would stand there if it were not sealed."""
    if stored is None:
        return None
    value = value_of(stored)
    if isinstance(value, Link):
        found = yield from fetch(ledger.nodes, (value.cid,))
        value = found[value.cid]
    if is_log:
        return [(yield from log.opened(value, ledger.keys))]
    return [(yield from ledger.keys.opened(value))] if is_sealed(value) else stored
