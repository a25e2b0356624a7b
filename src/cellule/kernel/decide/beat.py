"""The beat: one deterministic round of work, written as one frame.

Order: due timers; what the previous beat emitted; events of schedules; the items, in the order given
(`admission.py`); what is left of whole maps that become cells (`spills.py`); the agenda of signals
(`agenda.py`); then the queue rounds (`rounds.py`). What a step emits
is recorded at once and delivered in the next beat. The whole beat is a generator: it yields `Need` when nodes
of the CAS are missing and goes on when the host has brought them, so no part of it is ever done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from cellule.errors import broken
from cellule.kernel.decide import (
    agenda_records,
    buffered_runs,
    calls,
    forks,
    impulses,
    operations,
    registry,
    schedules,
    spills,
)
from cellule.kernel.decide import timers as expiry
from cellule.kernel.decide.admission import Admission
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.eras import Eras
from cellule.kernel.decide.rounds import Rounds
from cellule.kernel.decide.sealer import Sealer
from cellule.kernel.decide.short_ways import GeneralWay, ShortWays
from cellule.kernel.decide.steps import Stepper
from cellule.kernel.items import LATER, Beat, Item, Pace
from cellule.kernel.journal.heartbeat_records import (
    StageRecord,
)
from cellule.kernel.journal.writer import FrameWriter
from cellule.kernel.limits import FRAME_BYTES_MAX
from cellule.kernel.lineage import Lineage
from cellule.kernel.need import Need
from cellule.kernel.state.cells import Slot
from cellule.kernel.state.heartbeat import Heartbeat
from cellule.kernel.state.ledger import Ledger, Pending
from cellule.values.cid import cid_of


class BeatRun:
    """One beat under way."""

    __slots__ = (
        "_admission",
        "_context",
        "_has_agenda",
        "_has_moved",
        "_has_run",
        "_ledger",
        "_now_ns",
        "_rounds",
        "_writer",
    )

    def __init__(
        self, ledger: Ledger, eras: Eras, stepper: Stepper, pace: Pace, now_ns: int, entropy: bytes,
        short_ways: Callable[[BeatContext], ShortWays], lineage: Lineage,
    ) -> None:  # fmt: skip
        self._ledger = ledger
        self._now_ns = max(now_ns, ledger.now_ns)
        self._writer = FrameWriter(ledger.height + 1)
        ahead_ns = self._now_ns - now_ns
        sealer = Sealer(ledger, eras, lineage, entropy)
        self._context = context = BeatContext(
            ledger, eras, stepper, self._writer, pace, entropy, sealer, ahead_ns
        )  # fmt: skip
        context.short = short_ways(context)
        self._admission = Admission(context)
        self._rounds = Rounds(context)
        self._has_agenda = False  # an impulse was handled
        self._has_moved = False  # entries of a map, or what waits for it, became those of cells
        self._has_run = False  # a run of a schedule waited, and may be sent now

    def run(self, items: Sequence[Item]) -> Generator[Need, None, Beat]:
        """Do the whole beat."""
        ledger, context = self._ledger, self._context
        before_ns = ledger.now_ns
        if not context.eras.current.is_prepared:
            yield from context.eras.prepare()
        ledger.begin_beat(ledger.beat + 1, self._now_ns)
        pending = ledger.pending
        due: Sequence[schedules.Due] = ()
        if pending or ledger.has_timers():
            due = yield from self._deliver(pending)
        if ledger.branch is not None and ledger.branch.next:
            yield from forks.advance(context)
        if ledger.book.waiting and not ledger.paused and context.pace.quota:
            yield from buffered_runs.send_idle(context)
        for each in due:
            yield from schedules.send(context, each)
        yield from self._admit(items)
        if not ledger.paused:
            yield from self._step_all()
        if ledger.heartbeat is not None:
            if not ledger.paused and context.pace.quota:
                yield from operations.commit(context, ledger.heartbeat)
            yield from self._note(ledger.heartbeat, before_ns)
        # No record, no frame: otherwise a world that is asked and does nothing would fill its journal.
        if self._writer.next_height() == self._writer.start:
            ledger.abandon_beat(before_ns, pending)
            return (yield from self._result(None))
        frame = self._writer.encode(
            ledger.beat, self._now_ns, context.entropy, context.pace.quota, context.pace.burst, ledger.frame
        )
        # Admission and rounds leave room, so this is our fault: better stop than write what no engine takes.
        size = len(frame) + self._writer.beside
        if size > FRAME_BYTES_MAX:
            broken(
                "kernel.frame_size", "the frame has {size} bytes; a commit takes {most}",
                size=size, most=FRAME_BYTES_MAX,
            )  # fmt: skip
        ledger.settle(self._writer.next_height() - 1)
        return (yield from self._result(frame))

    def _deliver(self, pending: Pending) -> Generator[Need, None, Sequence[schedules.Due]]:
        """Fire timers and deliver what was emitted; returns the schedules whose events are to be sent."""
        ledger, context = self._ledger, self._context
        due: Sequence[schedules.Due] = ()
        if pending:
            yield from ledger.slots(target for _, targets in pending for target in targets)
        # Before anything is delivered: a cell whose time is over expires only while its queue is empty.
        if not ledger.paused and context.pace.quota:
            due = yield from expiry.run_due(context)
        if pending:
            letters = ledger.deliver_pending()
            calls.tell_letters(context, letters)
            yield from impulses.tell_dropped(context, letters)
        return due

    def _admit(self, items: Sequence[Item]) -> Generator[Need, None, None]:
        ledger, context = self._ledger, self._context
        if ledger.heartbeat is not None and (yield from ledger.heartbeat.has_due(ledger.beat)):
            context.short = GeneralWay(ledger.ring)  # the agenda stands between events and steps
        if ledger.moves:
            context.short = GeneralWay(ledger.ring)
        yield from self._admission.admit(items)
        if not context.eras.is_aligned:
            yield from schedules.align(context, self._writer.next_height() - 1)
            context.eras.is_aligned = True
        if not ledger.height and context.eras.current.manifest.enzymes:
            yield from registry.align(context, self._writer.next_height() - 1)
        if ledger.moves:
            self._has_moved = yield from spills.advance(context)

    def _step_all(self) -> Generator[Need, None, None]:
        """Run the agenda, then the queue rounds."""
        context, heartbeat = self._context, self._ledger.heartbeat
        if heartbeat is not None and context.pace.quota:
            self._has_agenda = yield from agenda_records.run(context, heartbeat)
        yield from self._rounds.run()
        if self._ledger.book.waiting:
            self._has_run = yield from buffered_runs.has_idle(context)

    def _note(self, heartbeat: Heartbeat, before_ns: int) -> Generator[Need, None, None]:
        """Write the stage note of a beat that did something, or that only counts while deadlines wait."""
        ledger, context = self._ledger, self._context
        _, promoted = yield from heartbeat.count(ledger.beat + 1)
        is_due = ledger.now_ns >= before_ns + context.pace.beat_interval_ns and context.pace.quota > 0
        counts = (
            is_due and not ledger.paused and (yield from operations.has_later(heartbeat, ledger.beat - 1))
        )
        if promoted or self._has_agenda or counts:
            self._writer.add(StageRecord(0, promoted))

    @property
    def frame_size(self) -> int:
        """What it counted of its frame."""
        return self._writer.size

    @property
    def stepping(self) -> Slot | None:
        """The slot whose step is under way, where the general way takes it."""
        return self._rounds.stepping

    def _result(self, frame: bytes | None) -> Generator[Need, None, Beat]:
        ledger, writer, outcomes = self._ledger, self._writer, self._admission.outcomes
        # Plain events answer together: an outcome for each would cost as much as its step.
        batch = None if outcomes else self._context.short.result()
        del self._context.short  # it knows the context: a circle, which only a garbage collection would free
        cid, keys, steps = None, None, self._rounds.steps
        if self._context.removed:
            steps = [*self._context.removed, *steps]
        if frame is not None:
            cid = cid_of(frame)
            ledger.end_frame(cid.digest)
        if ledger.keys.in_use:
            keys = ledger.keys.end(is_written=frame is not None)
        wake = None if ledger.paused else (yield from expiry.next_due(ledger))
        more = not ledger.paused and bool(
            ledger.ring or (ledger.pending and frame is not None) or self._has_run
        )
        # Beats for which only deadlines in beats wait come at an interval: an idle world must not spin.
        if ledger.heartbeat is not None and not ledger.paused and not more:
            more = yield from operations.has_due(ledger.heartbeat, ledger.beat + 1)
            if not more and (yield from operations.has_later(ledger.heartbeat, ledger.beat)):
                next_ns = ledger.now_ns + self._context.pace.beat_interval_ns
                wake = next_ns if wake is None else min(wake, next_ns)
        more = more or (ledger.branch is not None and ledger.branch.next > 0)
        more = more or (self._has_moved and bool(ledger.moves))
        return Beat(
            frame, cid, writer.start, writer.next_height() - 1, writer.blocks, outcomes, batch,
            steps, wake, more or (bool(outcomes) and outcomes[-1] is LATER),
            self._context.opened, self._context.closed, keys,
        )  # fmt: skip
