"""Decided steps become records, and changes of the ledger: any step there is, with all that comes of it.

Plain steps, which are nearly all, are written down where they are taken (`rounds.py`, `fast/steps.py`); the
records are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cellule.kernel.decide import timers as expiry
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.intents import open as opening
from cellule.kernel.decide.intents.gate import EffectRequest
from cellule.kernel.decide.steps import Emission, Result, Stepper
from cellule.kernel.items import StepRow
from cellule.kernel.journal.codes import DELETED, EMITTED, OK, STEP, UPCAST
from cellule.kernel.journal.writer import FrameWriter
from cellule.kernel.state.cells import EVENT_MESSAGE, Message, Slot


class Asking(NamedTuple):
    """What a step leaves to do about intents."""

    slot: Slot
    step: opening.Step
    asked: Sequence[EffectRequest]
    gone: Sequence[int]
    opened: int = 0  # of those asked, so many of the first are open already


class Writing:
    """Writes the steps of one beat; `steps` gets a row for each."""

    def __init__(self, desk: BeatContext, stepper: Stepper, steps: list[StepRow]) -> None:
        self._ledger = desk.ledger
        self._eras = desk.eras
        self._writer = desk.writer
        self._stepper = stepper
        self._steps = steps

    def write(self, slot: Slot, result: Result) -> Asking | None:
        """Write a decided step down, and make it so; returns what is left to do about intents."""
        asking = None
        writer = self._writer
        message = slot.queue[0]
        base, key, entry = slot.cells.base, slot.key, slot.entry
        module = writer.name(base)
        for step in result.upcasts:
            record = [UPCAST, message.height, module, key, writer.name(step.old), writer.name(step.new)]
            writer.append(record, 0)
        status, state = result.status, result.state
        height = writer.next_height()
        born = result.born or (height if status in (OK, DELETED) else 0)
        more = _step_more(writer, result) if _has_more(result) else None
        prev = entry[5] if entry is not None else 0
        gone = self._ledger.intents_of(slot) if status == DELETED else ()
        if result.asked or gone:
            step_of = opening.Step(height, born, message.depth, result.era)
            asking = Asking(slot, step_of, result.asked, gone)
        writer.append(
            [STEP, message.height, module, key, born, result.era, status, result.version, prev,
             writer.state(state), more],
            (len(state) if state is not None else 0) + len(result.text) + len(key),
        )  # fmt: skip
        self._account(slot, height, born, result)
        if result.emissions or result.code:
            self._emit(slot, message, height, result)
        self._steps.append((
            message.height, base, key, status, result.version, height, result.reply, result.code, result.text,
        ))  # fmt: skip
        return asking

    def _account(self, slot: Slot, height: int, born: int, result: Result) -> None:
        ledger = self._ledger
        state = result.state
        if result.status != OK:
            more = {"code": result.code, "text": result.text} if result.code else None
            ledger.step_done(slot, height, result.status, result.version, born, result.era, None, more)
            return
        kept: dict[str, Any] | None = None
        if result.log:
            assert state is not None
            state, kept = ledger.append_log(slot.entry, state, self._writer.blocks)
        ledger.step_done(slot, height, OK, result.version, born, result.era, state, kept)
        if born == height:
            expiry.arm(ledger, self._eras, self._writer, slot, height)

    def _emit(self, slot: Slot, message: Message, height: int, result: Result) -> None:
        failure = self._stepper.failure_event(slot, message, height, result)
        if failure is not None:
            self._append_emitted(height, failure)
        for emission in result.emissions:
            self._append_emitted(height, self._stepper.stopped_cascade(slot, height, emission) or emission)

    def _append_emitted(self, cause: int, emission: Emission) -> None:
        writer = self._writer
        depth, schema, value, targets = emission
        name = writer.name
        height = writer.append(
            [
                EMITTED,
                cause,
                depth,
                name(schema),
                writer.value(value),
                [[name(base), key] for base, key in targets],
            ],
            len(value),
        )
        if targets:
            self._ledger.pending.append((Message(height, EVENT_MESSAGE, schema, value, depth, None), targets))


def _has_more(result: Result) -> bool:
    return bool(result.code) or result.reply is not None or result.ann is not None or result.log


def _step_more(writer: FrameWriter, result: Result) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if result.reply is not None:
        more["reply"] = writer.value(result.reply)
    if result.ann is not None:
        more["ann"] = writer.value(result.ann)
    if result.code:
        more["code"], more["text"] = result.code, result.text
    if result.timed_out:
        more["timed_out"] = True
    if result.log:
        more["log"] = True
    return more
