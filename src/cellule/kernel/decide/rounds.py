"""Queue rounds: every ready cell gets one step a round, at most `burst` rounds and `quota` steps a beat.

What is on the lane is the first round (`walk.py`). In the ring too most steps are plain: a cell of the
current era, an event its module takes as it is, a short new state and nothing else. Those are written down
right in the loop; anything else goes through `Stepper` and `Writing`, which know every case. All write the
same records.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cellule.errors import Corrupted
from cellule.kernel.decide import timers as expiry
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.eras import Compiled
from cellule.kernel.decide.intents import open as opening
from cellule.kernel.decide.intents.gate import EffectRequest
from cellule.kernel.decide.step_records import Asking, Writing
from cellule.kernel.decide.steps import Stepper
from cellule.kernel.fast.batch import FastBatch
from cellule.kernel.fast.intents import open_plain
from cellule.kernel.fast.steps import Answer, FastSteps
from cellule.kernel.items import BatchResult, StepRow
from cellule.kernel.journal.codes import OK
from cellule.kernel.journal.rows import step_row
from cellule.kernel.journal.writer import LINK_MARK, RECORD_BYTES
from cellule.kernel.limits import FRAME_BYTES_CLOSE, LOAD_SLOTS_MAX, OUTPUT_BYTES_MAX, STATE_INLINE_RECORD_MAX
from cellule.kernel.manifest.model import Module
from cellule.kernel.need import Need
from cellule.kernel.program import Output, StepFault
from cellule.kernel.state.cells import RECEIPT_MESSAGE, Entry, Slot


@dataclass(frozen=True, slots=True)
class Pace:
    """How much one beat does: written into the frame's header."""

    quota: int
    burst: int


class Rounds:
    """The steps of one beat; `steps` has a row for each, in the order of `items.Stepped`."""

    def __init__(self, desk: BeatContext, stepper: Stepper, pace: Pace, entropy: bytes) -> None:
        self._ledger = desk.ledger
        self._eras = desk.eras
        self._stepper = stepper
        self._writer = desk.writer
        self._pace = pace
        self._entropy = entropy
        self._desk = desk
        self._asking: Asking | None = None
        self._is_complete = False
        self.steps: list[StepRow] = []
        self._writing = Writing(desk, stepper, self.steps)

    def run(self, lane: FastBatch) -> Generator[Need, None, None]:
        """Step cells until the ring is empty or the beat has done enough."""
        ring, writer, steps = self._ledger.ring, self._writer, self.steps
        if lane.rows and not self._can_walk(lane):
            lane.enter()
        turns = (yield from self._walk(lane)) if lane.rows else len(ring)
        if not ring:
            return
        left = self._pace.quota - len(steps)
        plain = self._plain
        for _ in range(self._pace.burst):
            for _ in range(turns):
                if not left or (writer.size >= FRAME_BYTES_CLOSE and steps):  # one step at least
                    return
                if not ring:  # a step may bring its module to its limit, and its cells leave the ring
                    return
                left -= 1
                slot = ring[0]
                if not slot.loaded:
                    yield from self._load_ring()
                if not plain(slot):
                    yield from self._step(slot)
                if self._asking is not None:
                    yield from self._ask()
            if not ring:
                return
            turns = len(ring)

    def laid(self, lane: FastBatch) -> BatchResult:
        """What became of the events on the lane."""
        records = self._writer.records if self._is_complete else None
        return BatchResult(lane.first, lane.stop, lane.slots, records, list(self._writer.names))

    def _can_walk(self, lane: FastBatch) -> bool:
        """Tell whether the rows of a lane are all there is to step, and all may step in this beat."""
        if self._ledger.ring or len(lane.rows) > self._pace.quota:
            return False
        return None not in [track.step for track in lane.tracks]

    def _walk(self, lane: FastBatch) -> Generator[Need, None, int]:
        """Take the steps of the lane's rows, which are the first round; returns how many are left for it."""
        walk = FastSteps(self._desk, self._stepper, self._entropy, self.steps, lane)
        position = walk.run()
        self._is_complete = walk.is_complete
        rest = 0
        while position < len(lane.rows):
            if self._writer.size >= FRAME_BYTES_CLOSE and self.steps:
                rest = lane.enter_rest(position)
                break
            slot = lane.promote(position)
            if not slot.stopped:
                self._ledger.ring.appendleft(slot)
                yield from self._step_as(slot, walk.answer)
            if self._asking is not None:
                rest = lane.enter_rest(position + 1)
                yield from self._ask()
                break
            position = walk.run()
        lane.write_back()
        return rest

    def _step_as(self, slot: Slot, answer: Answer) -> Generator[Need, None, None]:
        """Take the step of the ring's first slot, whose program answered this; None if it was not called."""
        if answer is None:
            if not self._plain(slot):
                yield from self._step(slot)
            return
        era = self._eras.current
        try:
            if isinstance(answer, StepFault):
                raise answer
            output = Output(answer) if isinstance(answer, bytes) else answer
            result = self._stepper.accepted(slot, era, era.fast[slot.cells.base].module, output)
        except StepFault as fault:
            result = self._stepper.failed(slot, fault)
        self._asking = self._writing.write(slot, result)

    def _step(self, slot: Slot) -> Generator[Need, None, None]:
        """Take the step of the ring's first slot, whatever it may be."""
        result = yield from self._stepper.compute(slot, self._writer.next_height(), self._entropy)
        self._asking = self._writing.write(slot, result)

    @cached_property
    def _plain(self) -> Callable[[Slot], bool]:
        """A function that takes a step if it can be called without a closer look; False where it cannot.

        Made once a beat: what it holds does not change while steps are taken, and looking all of it up again
        would cost each of them a fifth.
        """
        ledger, eras, stepper, writer = self._ledger, self._eras, self._stepper, self._writer
        names, first, records, taken = writer.names, writer.first, writer.records, self.steps
        step_ok, write, now_ns, entropy = ledger.step_ok, self._writing.write, ledger.now_ns, self._entropy
        era = eras.current
        modules, number = era.fast, era.number

        def plain(slot: Slot) -> bool:
            base, queue, entry = slot.cells.base, slot.queue, slot.entry
            fast = modules.get(base)
            cause, kind, schema, value, depth, expected = queue[0]
            if fast is None or type(value) is not bytes or schema not in fast.ways:
                return False
            way = fast.ways[schema]
            state: Any = None
            version = born = prev = 0
            if entry is not None:
                state, version, born, prev = entry.state, entry.version, entry.born, entry.last
                if entry.era != number or type(state) is not bytes or entry.extras is not None:
                    return False
            if expected is not None and (kind != RECEIPT_MESSAGE or expected != born):
                return False  # a receipt for this incarnation of the cell is as plain as an event
            key, step = slot.key, first + len(records)
            context = None
            if fast.context:
                context = stepper.context(key, fast.module, number, step, entropy, version)
            try:
                output = way(state, value, None, key, context)
                state, asked = (output, ()) if isinstance(output, bytes) else _bare(era, fast.module, output)
                if state is None or len(state) > STATE_INLINE_RECORD_MAX or LINK_MARK in state:
                    output = Output(output) if isinstance(output, bytes) else output
                    self._asking = write(slot, stepper.accepted(slot, era, fast.module, output))
                    return True
            except StepFault as fault:
                self._asking = write(slot, stepper.failed(slot, fault))
                return True
            at = names.get(base)
            if at is None:
                at = writer.name(base)
            version, born = version + 1, born or step
            records.append(step_row(cause, at, key, born, number, version, prev, state))
            writer.size += RECORD_BYTES + len(state) + len(key)
            taken.append((cause, base, key, OK, version, step, None, "", ""))
            step_ok(slot, queue, Entry(state, len(state), version, born, number, now_ns, step, None))
            if entry is None and fast.retains:
                expiry.arm(ledger, eras, writer, slot, step)
            if asked:
                self._ask_plainly(slot, step, born, number, depth, asked)
            return True

        return plain

    def _ask_plainly(
        self, slot: Slot, step: int, born: int, era: int, depth: int, asked: Sequence[EffectRequest]
    ) -> None:
        """Open the plain requests of a plain step at once; the others are left to `_ask`."""
        opened = open_plain(self._desk, slot, step, born, era, asked)
        if opened < len(asked):
            self._asking = Asking(slot, opening.Step(step, born, depth, era), asked, (), opened)

    def _load_ring(self) -> Generator[Need, None, None]:
        """After a restore the ring names cells that are still at rest: bring the next ones together."""
        wanted: dict[str, list[bytes]] = {}
        for _, slot in zip(range(LOAD_SLOTS_MAX), self._ledger.ring, strict=False):
            if not slot.loaded:
                wanted.setdefault(slot.cells.base, []).append(slot.key)
        yield from self._ledger.load(wanted)
        first = self._ledger.ring[0]
        if not first.queue:
            raise Corrupted(
                "kernel.ready_damaged", "cell {module} {key} is listed as ready and has no message",
                module=first.cells.base, key=first.key,
            )  # fmt: skip

    def _ask(self) -> Generator[Need, None, None]:
        """Open the intents of the step just written, and abandon those of a cell it deleted."""
        asking, self._asking = self._asking, None
        assert asking is not None
        yield from opening.abandon(self._desk, asking.slot, asking.step, asking.gone)
        yield from opening.open_all(self._desk, asking.slot, asking.step, asking.asked, asking.opened)


def _bare(era: Compiled, module: Module, output: Output) -> tuple[bytes | None, Sequence[EffectRequest]]:
    """The state of an output and what it asks for; no state where there is anything else, or too much."""
    state, events, effects, reply, ann = output
    if state is None or events or reply is not None or ann is not None:
        return None, ()
    if not effects:
        return state, ()
    asked = opening.check(era, module, effects)
    size = len(state) + sum([len(each[1]) for each in asked])
    return (state, asked) if size <= OUTPUT_BYTES_MAX else (None, ())
