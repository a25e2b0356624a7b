"""Queue rounds: every ready cell gets one step a round, at most `burst` rounds and `quota` steps a beat.

A step is decided by `Stepper`, written down by `Writing`, and what it asks for is opened before the next one
begins. Where the beat has short ways, they are tried first; they write the same records.
"""

from __future__ import annotations

from collections.abc import Generator

from cellule.errors import Corrupted, Rejected
from cellule.kernel.decide import impulses
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.intents import cancel as cancelling
from cellule.kernel.decide.intents import open as opening
from cellule.kernel.decide.requests import Asking
from cellule.kernel.decide.sealer import NO_KEYS, StepKeys
from cellule.kernel.decide.step_records import Writing
from cellule.kernel.decide.steps import Result
from cellule.kernel.items import StepRow
from cellule.kernel.limits import FRAME_BYTES_CLOSE, LOAD_SLOTS_MAX
from cellule.kernel.need import Need
from cellule.kernel.program import StepFault
from cellule.kernel.state.cells import Slot


class Rounds:
    """The steps of one beat; `steps` has a row for each, in the order of `items.Stepped`."""

    __slots__ = ("_context", "_writing", "asking", "stepping", "steps")

    def __init__(self, context: BeatContext) -> None:
        self._context = context
        self.asking: Asking | None = None
        self.stepping: Slot | None = None  # whose step is under way, for whoever has to tell what failed
        self.steps: list[StepRow] = []
        self._writing = Writing(context, self.steps)

    def run(self) -> Generator[Need, None, None]:
        """Step cells until the ring is empty or the beat has done enough."""
        context, steps = self._context, self.steps
        ring, writer, pace = context.ledger.ring, context.writer, context.pace
        turns = yield from context.short.first_round(self)
        if not ring:
            return
        left = pace.quota - len(steps)
        is_taken = context.short.ring_step(self)
        for _ in range(pace.burst):
            for _ in range(turns):
                if not left or (writer.size >= FRAME_BYTES_CLOSE and steps):  # one step at least
                    return
                if not ring:  # a step may bring its module to its limit, and its cells leave the ring
                    return
                left -= 1
                slot = ring[0]
                if not slot.loaded:
                    yield from self._load_ring()
                if not is_taken(slot):
                    self.stepping = slot
                    yield from self.take(slot)
                if self.asking is not None:
                    yield from self.ask()
            if not ring:
                return
            turns = len(ring)

    def take(self, slot: Slot) -> Generator[Need, None, None]:
        """Take the step of the ring's first slot, whatever it may be."""
        context = self._context
        result = yield from context.stepper.compute(slot, context.writer.next_height(), context.entropy)
        keys = NO_KEYS
        if context.sealer.in_use:
            result, keys = yield from self._with_keys(slot, result)
        self.asking = self._writing.write(slot, result, keys)

    def _with_keys(self, slot: Slot, result: Result) -> Generator[Need, None, tuple[Result, StepKeys]]:
        """The keys of what the step writes; a step that breaks a rule of sealed values has failed."""
        context = self._context
        try:
            return result, (yield from context.sealer.step_keys(slot, result))
        except Rejected as error:
            result = context.stepper.failed(slot, StepFault(error.code, str(error)))
            return result, (yield from context.sealer.step_keys(slot, result))

    def write(self, slot: Slot, result: Result) -> None:
        """Write a decided step of the ring's first slot down, and make it so."""
        self.asking = self._writing.write(slot, result)

    def ask(self) -> Generator[Need, None, None]:
        """Settle what the step just written takes back, then open the intents it asks for."""
        asking, self.asking = self.asking, None
        assert asking is not None
        if asking.gone:
            yield from cancelling.abandon(self._context, asking.slot, asking.origin, asking.gone)
        if asking.removed:
            yield from cancelling.abandon_entries(self._context, asking.slot, asking.origin, asking.removed)
        if asking.cancels:
            yield from cancelling.cancel(self._context, asking.slot, asking.origin, asking.cancels)
        yield from opening.open_all(self._context, asking.slot, asking.origin, asking.asked, asking.opened)
        for signal in asking.signals:
            yield from impulses.tell(self._context, signal)

    def _load_ring(self) -> Generator[Need, None, None]:
        """After a restore the ring names cells that are still at rest: bring the next ones together."""
        ledger = self._context.ledger
        wanted: dict[str, list[bytes]] = {}
        for _, slot in zip(range(LOAD_SLOTS_MAX), ledger.ring, strict=False):
            if not slot.loaded:
                wanted.setdefault(slot.cells.base, []).append(slot.key)
        yield from ledger.load(wanted)
        first = ledger.ring[0]
        if not first.queue:
            raise Corrupted(
                "kernel.ready_damaged", "cell {module} {key} is listed as ready and has no message",
                module=first.cells.base, key=first.key,
            )  # fmt: skip
