"""The short ways of one beat, behind `decide/short_ways.py`: see there what each method promises."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.requests import EffectRequest, Origin
from cellule.kernel.decide.short_ways import Stepping
from cellule.kernel.fast.batch import FastBatch
from cellule.kernel.fast.intents import open_plain, settle_plain
from cellule.kernel.fast.modules import FastModules
from cellule.kernel.fast.ring_step import ring_step
from cellule.kernel.fast.steps import Answer, FastSteps
from cellule.kernel.items import Admitted, BatchResult, Item, Outcome
from cellule.kernel.limits import FRAME_BYTES_CLOSE, HELD_CELLS_MAX
from cellule.kernel.need import Need
from cellule.kernel.program import Output, StepFault
from cellule.kernel.state.cells import Slot

_new = tuple.__new__  # a NamedTuple without its Python-level constructor


class FastWays:
    """The short ways of one beat."""

    __slots__ = ("_batch", "_context", "_is_complete", "_is_taken", "_modules")

    def __init__(self, context: BeatContext, modules: FastModules) -> None:
        self._context = context
        self._modules = modules
        self._batch = FastBatch(context, modules)
        self._is_taken: Callable[[Slot], bool] | None = None
        self._is_complete = False

    def admit(self, items: Sequence[Item]) -> Generator[Need, None, int]:
        """See `ShortWays`."""
        if self._context.ledger.book.over and self._may_be_full(len(items)):
            return 0
        return (yield from self._batch.admit(items))

    def _may_be_full(self, count: int) -> bool:
        """Tell whether so many events may bring more cells to wait at a module's limit than may wait."""
        ledger = self._context.ledger
        return any(len(ledger.held.get(base, ())) + count > HELD_CELLS_MAX for base in ledger.book.over)

    def leave(self) -> Sequence[Outcome]:
        """See `ShortWays`."""
        batch = self._batch
        batch.enter()
        return [_new(Admitted, (height, (batch.slots[height],))) for height in batch.heights]

    def settle(self, items: Sequence[Any], start: int, outcomes: list[Outcome]) -> int:
        """See `ShortWays`."""
        return settle_plain(self._context, items, start, outcomes)

    def open(self, slot: Slot, origin: Origin, asked: Sequence[EffectRequest]) -> int:
        """See `ShortWays`."""
        return open_plain(self._context, slot, origin.height, origin.born, origin.era, asked)

    def ring_step(self, rounds: Stepping) -> Callable[[Slot], bool]:
        """See `ShortWays`."""
        if self._is_taken is None:
            self._is_taken = ring_step(self._context, self._modules, rounds)
        return self._is_taken

    def result(self) -> BatchResult | None:
        """See `ShortWays`."""
        batch, writer = self._batch, self._context.writer
        if not batch.heights:
            return None
        records = writer.records if self._is_complete else None
        return BatchResult(batch.heights, batch.slots, records, list(writer.names))

    def first_round(self, rounds: Stepping) -> Generator[Need, None, int]:
        """See `ShortWays`: the rows of the batch are the first round, if they are all there is to step."""
        batch = self._batch
        if batch.rows and not self._can_step():
            batch.enter()
        if not batch.rows:
            return len(self._context.ledger.ring)
        return (yield from self._step_rows(rounds))

    def _can_step(self) -> bool:
        """Tell whether the rows of the batch are all there is to step, and all may step in this beat."""
        batch, context = self._batch, self._context
        if context.ledger.ring or len(batch.rows) > context.pace.quota:
            return False
        return None not in [route.step for route in batch.routes]

    def _step_rows(self, rounds: Stepping) -> Generator[Need, None, int]:
        """Take the steps of the batch's rows; returns how many are left for the first round."""
        batch, context = self._batch, self._context
        steps = FastSteps(context, rounds.steps, batch)
        position = steps.run()
        self._is_complete = steps.is_complete
        rest = 0
        while position < len(batch.rows):
            if context.writer.size >= FRAME_BYTES_CLOSE and rounds.steps:
                rest = batch.enter_rest(position)
                break
            slot = batch.promote(position)
            if not slot.stopped:
                context.ledger.put_first((slot,))
                yield from self._step_as(rounds, slot, steps.answer)
            if rounds.asking is not None:
                rest = batch.enter_rest(position + 1)
                batch.write_back()  # whoever hears of an abandoned intent is read from the index
                yield from rounds.ask()
                return rest
            position = steps.run()
        batch.write_back()
        return rest

    def _step_as(self, rounds: Stepping, slot: Slot, answer: Answer) -> Generator[Need, None, None]:
        """Take the step of the ring's first slot, whose program answered this; None if it was not called."""
        if answer is None:
            if not self.ring_step(rounds)(slot):
                yield from rounds.take(slot)
            return
        stepper, era = self._context.stepper, self._context.eras.current
        try:
            if isinstance(answer, StepFault):
                raise answer
            output = Output(answer) if isinstance(answer, bytes) else answer
            result = stepper.accepted(slot, era, era.manifest.modules[slot.cells.base], output)
        except StepFault as fault:
            result = stepper.failed(slot, fault)
        rounds.write(slot, result)
