"""Which senders wait for which steps: outcomes of a beat are matched with the handles of its items.

An event is complete when every cell it went to has stepped, in this beat or a later one; or when one of those
cells is stopped, or the world paused: then it is kept, and its sender is told so. Nothing is released here:
that happens when the beat is durable. So is what it has to say for the log.
"""

from __future__ import annotations

from cellule.host.inbox.sends import Sent
from cellule.host.run.beat_log import BeatLog
from cellule.kernel.items import (
    LATER,
    Admitted,
    BatchResult,
    Beat,
    ControlItem,
    Duplicate,
    RefusedItem,
)
from cellule.kernel.journal.codes import DELETED, HALTED, PARKED
from cellule.kernel.state.cells import Slot, ghost
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.wait_reasons import reason_of


class Deliveries:
    """The events of one world that wait for steps, by height."""

    def __init__(self, ledger: Ledger, world: str) -> None:
        self._ledger = ledger
        self.log = BeatLog(world)
        self.open: dict[int, Sent] = {}

    def admit(self, beat: Beat, sents: list[Sent]) -> tuple[list[Sent], list[Sent]]:
        """Note what became of each item; returns those with an outcome, and those for a later beat."""
        settled: list[Sent] = []
        later: list[Sent] = []
        waiting = self.open
        if beat.batch is not None:
            self._take(beat.batch, sents)
            return sents, later
        for sent, outcome in zip(sents, beat.told, strict=True):
            if type(outcome) is Admitted:
                sent.height, slots = outcome
                sent.left = len(slots)
                if slots:
                    sent.slots = slots
                    waiting[sent.height] = sent
                elif type(sent.item) is ControlItem:
                    self.log.controlled(sent.item, sent.height, self._ledger)
            elif outcome is LATER:
                later.append(sent)
                continue
            elif isinstance(outcome, Duplicate):
                sent.height, sent.duplicate, sent.left = outcome.height, True, 0
            elif isinstance(outcome, RefusedItem):
                sent.height, sent.error = outcome.height, outcome.error
            settled.append(sent)
        return settled, later

    def _take(self, batch: BatchResult, sents: list[Sent]) -> None:
        """Note the heights of events that were all admitted; where all have their steps, none waits."""
        if batch.records is not None:
            return
        slots, waiting = batch.slots, self.open
        for height, sent in zip(batch.heights, sents, strict=True):
            sent.height, sent.left = height, 1
            waiting[height] = sent
            if height in slots:
                sent.slots = (slots[height],)

    def renew(self, ledger: Ledger) -> None:
        """The world was restored: those who wait look at its cells now."""
        self._ledger = ledger
        for sent in self.open.values():
            sent.slots = tuple(ledger.cells(slot.cells.base).slots.get(slot.key, slot) for slot in sent.slots)

    def complete(self, beat: Beat) -> list[Sent]:
        """Match the beat's steps; returns the events of earlier beats that are complete with it."""
        completed: list[Sent] = []
        waiting = self.open
        stops = False
        first = beat.first
        for row in beat.rows:
            cause = row[0]
            sent = waiting.get(cause)
            if row[3] > DELETED:
                stops = stops or row[3] == HALTED or row[3] == PARKED
                self.log.stepped(row)
            if sent is None:
                continue
            if sent.left == 1:
                del waiting[cause]
                sent.slots = ()
                if cause < first:
                    completed.append(sent)
            sent.left -= 1
            sent.rows = (*sent.rows, row) if sent.rows else (row,)
        if waiting and (stops or self._ledger.paused or not beat.more):
            completed.extend(self._kept())
        return completed

    def _kept(self) -> list[Sent]:
        """The events that wait for something only a person or a deploy can do."""
        kept: list[Sent] = []
        for height, sent in list(self.open.items()):
            slot = sent.stopped_slot() or (sent.slots[0] if self._ledger.paused else self._held_slot(sent))
            if slot is None:
                continue
            entry = slot.at_rest() or ghost()
            reason = reason_of(entry, is_ready=False, paused=self._ledger.paused, is_held=True)
            sent.parked = (slot.cells.base, slot.key, str(reason))
            sent.slots = ()
            del self.open[height]
            kept.append(sent)
        return kept

    def _held_slot(self, sent: Sent) -> Slot | None:
        """The first cell of an event that waits because its module is at its limit of open intents."""
        over = self._ledger.book.over
        slots = [slot for slot in sent.slots if slot.cells.base in over and slot.queue] if over else []
        return slots[0] if slots else None
