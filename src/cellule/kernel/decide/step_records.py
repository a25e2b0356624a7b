"""Decided steps become records, and changes of the ledger: any step there is, with all that comes of it.

The short ways of `fast/` write plain steps, which are nearly all, down where they take them; the records are
the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from cellule.kernel.decide import calls
from cellule.kernel.decide import timers as expiry
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.requests import Asking, Origin, StepSignal
from cellule.kernel.decide.sealer import NO_KEYS, Keys, StepKeys
from cellule.kernel.decide.steps import Emission, Result
from cellule.kernel.items import StepRow
from cellule.kernel.journal.codes import DELETED, OK
from cellule.kernel.journal.records import EmittedRecord, StepExtras, StepRecord, UpcastRecord
from cellule.kernel.journal.writer import FrameWriter
from cellule.kernel.manifest.system import SIGNAL
from cellule.kernel.state import call_changes, step_changes
from cellule.kernel.state import log_state as log
from cellule.kernel.state.cells import EVENT_MESSAGE, Message, Slot
from cellule.kernel.state.expectation import Call
from cellule.values.link import Link


class Writing:
    """Writes the steps of one beat; `steps` gets a row for each."""

    __slots__ = ("_context", "_ledger", "_steps", "_writer")

    def __init__(self, context: BeatContext, steps: list[StepRow]) -> None:
        self._context = context
        self._ledger = context.ledger
        self._writer = context.writer
        self._steps = steps

    def write(self, slot: Slot, result: Result, keys: StepKeys = NO_KEYS) -> Asking | None:
        """Write a decided step down, and make it so; returns what is left to do about intents.

        What it holds is sealed under `keys`; whoever waits for the step is told the rest.
        """
        asking = None
        writer = self._writer
        message = slot.queue[0]
        base, key, entry = slot.cells.base, slot.key, slot.entry
        for step in result.upcasts:
            writer.add(UpcastRecord(message.height, base, key, step.old, step.new))
        height, told = writer.next_height(), result
        if keys.own:
            result = self._sealed(result, keys.own)
        status, state = result.status, result.state
        born = result.born or (height if status in (OK, DELETED) else 0)
        prev = entry.last if entry is not None else 0
        gone = self._ledger.intents_of(slot) if status == DELETED else ()
        if result.asked or gone or result.cancels or result.removed:
            origin = Origin(height, born, message.depth, result.era, result.entry)
            asking = Asking(slot, origin, result.asked, gone, 0, result.cancels, result.removed)
        stored, extras = writer.state(state), _step_extras(writer, result)
        if isinstance(stored, Link) and state is not None and not result.log:
            extras["size"] = len(state)  # so that a restore need not read the block
        record = StepRecord(
            cause=message.height, module=base, key=key, born=born, era=result.era, status=status,
            version=result.version, prev=prev, state=stored, extras=extras,
        )  # fmt: skip
        writer.add(record)
        failures = calls.failures(slot, message, height, told, is_told_why=not keys.own)
        self._account(slot, height, born, result)
        if result.emissions or result.code or failures:
            signals = self._emit(slot, message, height, told, failures, keys)
            if signals:
                origin = Origin(height, born, message.depth, result.era, result.entry)
                asking = (asking or Asking(slot, origin, (), ()))._replace(signals=signals)
        self._steps.append((
            message.height, base, key, status, told.version, height, told.reply, told.code, told.text, born,
        ))  # fmt: skip
        return asking

    def _sealed(self, result: Result, keys: Keys) -> Result:
        """What the record of a step and the cell hold of it."""
        sealer = self._context.sealer
        state, reply, ann = [
            None if each is None else sealer.value(keys, each)
            for each in (result.state, result.reply, result.ann)
        ]
        if state is not None and result.log:
            state = log.one(state)
        return result._replace(state=state, reply=reply, ann=ann, text=sealer.text(keys, result.text))

    def _account(self, slot: Slot, height: int, born: int, result: Result) -> None:
        ledger = self._ledger
        state = result.state
        if result.status != OK:
            more = {"code": result.code, "text": result.text} if result.code else None
            step_changes.step_done(
                ledger, slot, height, result.status, result.version, born, result.era, None, 0, more
            )
            return
        assert state is not None
        size, kept = len(state), None
        if result.log:
            before = None if result.cut else slot.entry
            state, size, kept = step_changes.append_log(ledger, before, state, self._writer.blocks)
        step_changes.step_done(ledger, slot, height, OK, result.version, born, result.era, state, size, kept)
        if born == height:
            expiry.arm(self._context, slot, height)

    def _emit(
        self,
        slot: Slot,
        message: Message,
        height: int,
        result: Result,
        failures: Sequence[Emission],
        keys: StepKeys,
    ) -> list[StepSignal]:
        """Write down what a step emits; returns what of it is for enzymes."""
        stepper = self._context.stepper
        signals: list[StepSignal] = []
        failure = stepper.failure_event(slot, message, height, result)
        if failure is not None:
            at = self._append_emitted(slot, height, failure, keys.failure)
            if self._ledger.heartbeat is not None:
                told = failure
                if keys.own:  # the tree is not sealed
                    told = stepper.failure_event(slot, message, height, result._replace(text="")) or failure
                signals.append(StepSignal(at, told.depth, told.value, is_failure=True))
        for position, emission in enumerate(result.emissions):
            sent = stepper.stopped_cascade(slot, height, emission) or emission
            own = keys.emitted[position] if keys.emitted else ()
            at = self._append_emitted(slot, height, sent, own, calls.made(height, slot, result.born, sent))
            if sent.schema == SIGNAL:
                signals.append(StepSignal(at, sent.depth, sent.value, is_failure=False))
        for each in failures:
            self._append_emitted(slot, height, each, (), call_changes.born_of(each.value))
        return signals

    def _append_emitted(
        self, slot: Slot, cause: int, emission: Emission, keys: Keys, expected: Call | int | None = None
    ) -> int:
        writer = self._writer
        depth, schema, value, targets, _ = emission
        value = self._context.sealer.value(keys, value)
        height = writer.add(EmittedRecord(cause, depth, schema, writer.value(value), targets))
        if targets:
            self._ledger.emit(Message(height, EVENT_MESSAGE, schema, value, depth, expected), targets)
            call_changes.emitted(self._ledger, slot, schema, value, targets)
        return height


def _step_extras(writer: FrameWriter, result: Result) -> StepExtras:
    extras: StepExtras = {}
    if result.reply is not None:
        extras["reply"] = writer.value(result.reply)
    if result.ann is not None:
        extras["ann"] = writer.value(result.ann)
    if result.code:
        extras["code"], extras["text"] = result.code, result.text
    if result.timed_out:
        extras["timed_out"] = True
    if result.log:
        extras["log"] = True
    if result.cut:
        extras["cut"] = True
    if result.cancels:
        extras["cancels"] = list(result.cancels)
    made = calls_made(result)
    if made:
        extras["calls"] = made
    return extras


def calls_made(result: Result) -> list[list[object]]:
    """The calls of a step that went well: how far behind it the Emitted stands, the token, the answer."""
    return [[at, *each.call] for at, each in enumerate(result.emissions, 1) if each.call is not None]
