"""The steps of a batch: a row after the other, in the order in which the ring would have them.

A step is plain if its cell is of the current era, and it answers a short new state, perhaps with a short
note, and nothing else: that is written down right here. This loop is the hot path of the whole system. `run`
stops at the first row that is not so; `FastWays` makes a slot of it, and takes its step with what it
answered, if it was called.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.fast.batch import FastBatch
from cellule.kernel.items import StepRow
from cellule.kernel.journal.codes import OK
from cellule.kernel.journal.rows import noted_step_row, step_parts, step_row
from cellule.kernel.journal.writer import LINK_MARK, RECORD_BYTES
from cellule.kernel.limits import FRAME_BYTES_CLOSE, FRAME_BYTES_MAX, STATE_INLINE_RECORD_MAX
from cellule.kernel.program import Context, Output, StepFault, fault_of
from cellule.kernel.state.cells import Entry, Slot

NOTE_BYTES = 4  # of a note in its record, beside what it says
Answer = Output | bytes | StepFault | None


class FastSteps:
    """Goes once over the rows of a batch; `answer` is that of the row it stopped at, None if not called.

    `is_complete` tells that it went over all rows at once, that no event is elsewhere, and that all records
    of steps are theirs; otherwise `steps` has what was stepped.
    """

    def __init__(self, context: BeatContext, steps: list[StepRow], batch: FastBatch) -> None:
        self._context = context
        self._steps = steps
        self._rows: Iterator[Any] = iter(batch.rows)
        self._slots = batch.slots
        self._position = 0
        self.answer: Answer = None
        self.is_complete = False

    def run(self) -> int:  # noqa: C901 - calls would cost a tenth each
        """Take plain steps, from the row after the last; returns the position of the first that is not."""
        beat = self._context
        writer, number, now_ns = beat.writer, beat.eras.current.number, beat.ledger.now_ns
        records, size, before, begun = writer.records, writer.size, len(writer.records), self._position
        step, most = (
            writer.first + before,
            FRAME_BYTES_CLOSE if begun else FRAME_BYTES_MAX,
        )  # one step at least
        here, name, make_row = None, 0, step_row
        call: Any = None
        answer: Any = None
        state: Any = None
        context: Context | None = None
        recent: dict[bytes, Entry | None] = {}
        changes: dict[bytes, Entry] = {}
        for row in self._rows:
            if row.__class__ is Slot or size >= most:
                break
            height, route, key, entry, value, fields = row
            if route is not here:
                here, call, recent, changes = route, route.step, route.recent, route.changes
                name, context = writer.names[route.base], None
            if entry is None:
                if route.retains:
                    break
                state, version, born, born_ns, prev = None, 0, step, now_ns, 0
            else:
                state, version, born, prev = entry.state, entry.version, entry.born, entry.last
                born_ns = entry.born_ns
                if entry.era != number or state.__class__ is not bytes:
                    break
            if route.takes_context:
                context = beat.stepper.context(key, route.module, number, step, beat.entropy, version)
            try:
                answer = call(state, value, fields, key, context)
            except BaseException as error:  # noqa: BLE001 - whatever a program raises fails its step
                answer = fault_of(error)
            if answer.__class__ is bytes:
                length = len(answer)
                if length > STATE_INLINE_RECORD_MAX or LINK_MARK in answer:
                    break
                version += 1
                records.append(make_row(height, name, key, born, number, version, prev, answer))
            else:
                noted = _noted(answer)
                if noted is None:
                    break
                answer, note = noted
                length, version = len(answer), version + 1
                size += NOTE_BYTES + len(note)
                records.append(noted_step_row(height, name, key, born, number, version, prev, answer, note))
            size += RECORD_BYTES + length + len(key)
            if entry is not None and recent.get(key) is entry:
                recent[key] = Entry(answer, length, version, born, born_ns, number, now_ns, step, None)
                route.grown += length - len(state)
            else:
                changes[key] = Entry(answer, length, version, born, born_ns, number, now_ns, step, None)
            step, most, answer = step + 1, FRAME_BYTES_CLOSE, None
        else:
            self.is_complete = not (begun or before or self._slots)
        writer.size, self.answer = size, answer
        if not self.is_complete:
            self._tell(before)
        position = begun + len(records) - before
        self._position = position + 1
        return position

    def _tell(self, start: int) -> None:
        """Add the plain steps whose records begin at `start` to the steps of the beat."""
        writer = self._context.writer
        names, first, records = list(writer.names), writer.first, writer.records
        for position in range(start, len(records)):
            cause, name, key, born, version = step_parts(records[position])
            self._steps.append((cause, names[name], key, OK, version, first + position, None, "", "", born))


def _noted(answer: Answer) -> tuple[bytes, bytes] | None:
    """The state and note of a step that answered just these, both short; None for any other."""
    if answer.__class__ is not Output:
        return None
    state, events, effects, reply, note, cancels, cut, ended = answer
    if state is None or note is None or events or effects or reply is not None or cancels or cut or ended:
        return None
    if len(state) > STATE_INLINE_RECORD_MAX or len(note) > STATE_INLINE_RECORD_MAX:
        return None
    return None if LINK_MARK in state or LINK_MARK in note else (state, note)
