"""The ledger refuses changes that no beat makes: each is planted here once, and named for what it breaks."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted, InvariantBroken
from cellule.kernel.index import OrderedIndex
from cellule.kernel.journal.codes import ALLOW, OK
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import StepRecord
from cellule.kernel.need import Nodes, drive
from cellule.kernel.state import intent_changes, step_changes, writes
from cellule.kernel.state.branch import Branch, open_answers
from cellule.kernel.state.cells import EVENT_MESSAGE, Entry, Message, Slot
from cellule.kernel.state.dedupe import Dedupe
from cellule.kernel.state.heartbeat import Heartbeat
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.module_cells import Budget
from cellule.kernel.state.rows import (
    HELD,
    OPEN,
    PARKED,
    TIMER,
    KnownKey,
    KnownReceipt,
    OpenIntent,
    ScheduleRow,
)
from cellule.kernel.state.snapshot import SnapshotJob
from tests.support.frames import with_change

BASE = "shop/Order"
ENTRY = Entry(b"\x01", 1, 3, 5, 0, 0, 0, 7, None)


def ledger_at(height=10):
    ledger = Ledger(Nodes(1_000_000), Budget())
    ledger.height = height
    return ledger


def slot_of(ledger, entry=ENTRY, key=b"o1"):
    return ledger.take_up(ledger.cells(BASE), key, entry)


def message(height):
    return Message(height, EVENT_MESSAGE, "shop/Paid@1", b"\x01", 0, None)


def intent_of(status=OPEN):
    return OpenIntent(b"i" * 32, BASE, b"o1", 5, "pay", status, {"params": [b"\x01"], "since_ns": 0})


def time_of_an_abandoned_beat():
    ledger_at().abandon_beat(1, [])


def frame_that_follows_itself():
    ledger = ledger_at()
    ledger.end_frame(b"d" * 32)
    ledger.end_frame(b"d" * 32)


def frame_that_ends_before_it_begins():
    ledger_at().settle(10)


def step_of_another_cell():
    ledger = ledger_at()
    first, other = slot_of(ledger), slot_of(ledger, key=b"o2")
    for slot in (first, other):
        ledger.deliver(slot, message(11))
    ledger.step_ok(other, other.queue, ENTRY)


def cell_without_messages_in_the_ring():
    ledger = ledger_at()
    ledger.enter(slot_of(ledger))


def limit_reached_twice():
    ledger = ledger_at()
    drive(ledger.hold(BASE), ledger.nodes, lambda _: {})
    drive(ledger.hold(BASE), ledger.nodes, lambda _: {})


def below_a_limit_that_was_not_reached():
    ledger_at().unhold(BASE)


def version_left_out():
    ledger = ledger_at()
    slot = slot_of(ledger)
    ledger.deliver(slot, message(11))
    step_changes.step_done(ledger, slot, 12, OK, 5, 5, 0, b"\x02", 1, None)


def stopped_twice():
    ledger = ledger_at()
    slot = slot_of(ledger)
    step_changes.halt(ledger, slot, 11, 0, "why")
    step_changes.halt(ledger, slot, 12, 0, "why")


def moved_to_no_era():
    ledger = ledger_at()
    step_changes.migrate(ledger, slot_of(ledger), len(ledger.eras), b"\x01")


def tail_longer_than_its_log():
    damaged = Entry(b"\x80" * 9, 3, 3, 5, 0, 0, 0, 7, None)
    step_changes.append_log(ledger_at(), damaged, b"\x80", None)


def parked_below_nothing():
    book = ledger_at().book
    book.open.insert(b"k", intent_of(PARKED))
    book.remove(11, intent_of(PARKED))


def timers_below_nothing():
    ledger_at().book.remove(11, intent_of(TIMER))


def open_intents_below_nothing():
    ledger_at().book.remove(11, intent_of(OPEN))


def settled_twice():
    book = ledger_at().book
    book.add(11, intent_of())
    book.add(12, intent_of())
    book.open.freeze()
    book.remove(11, intent_of())
    book.remove(11, intent_of())


def waits_twice_for_a_key():
    ledger_at().book.wait_for(b"p", KnownKey(11, 0, None, [12], b"d"), 12)


def waits_for_itself():
    ledger_at().book.wait_for(b"p", KnownKey(11, 0, None, [], b"d"), 11)


def key_answered_twice():
    receipt = KnownReceipt(0, "sys/Receipt@1", [b"\x01"])
    ledger_at().book.answered(b"p", KnownKey(11, 0, receipt, [], b"d"), receipt)


def intent_of_an_older_frame():
    ledger = ledger_at()
    intent = intent_changes.Intent(10, b"i" * 32, BASE, b"o1", 5, "pay", [b"\x01"], {})
    drive(intent_changes.decided(ledger, slot_of(ledger), intent, ALLOW, {}), ledger.nodes, lambda _: {})


def approval_of_an_open_intent():
    ledger = ledger_at()
    drive(intent_changes.approved(ledger, 11, intent_of(), {}), ledger.nodes, lambda _: {})


def completion_of_a_held_intent():
    intent_changes.held_outside(ledger_at(), 11, intent_of(HELD), {"due_ns": 1})


def receipt_before_its_intent():
    ledger = ledger_at()
    outcome = intent_changes.Outcome(11, 0, "sys/Receipt@1", b"\x01", [b"\x01"], 0, {})
    drive(
        intent_changes.settled(ledger, slot_of(ledger), 11, intent_of(), outcome), ledger.nodes, lambda _: {}
    )


def waits_twice_for_an_intent():
    ledger = ledger_at()
    slot = slot_of(ledger)
    intent_changes.attach(ledger, slot, 5, 11)
    intent_changes.attach(ledger, slot, 5, 11)


def receipt_that_nobody_waits_for():
    ledger = ledger_at()
    intent_changes.detach(ledger, slot_of(ledger), 5, 11)


def number_that_was_never_given():
    Heartbeat(Nodes(1_000)).unregister(0, None)


def fork_that_goes_back():
    Branch(5, "drop", 6, 4, open_answers(None, Nodes(1_000)), live=True).go_on(3)


def fork_that_begins_again():
    Branch(5, "drop", 6, 0, open_answers(None, Nodes(1_000)), live=True).go_on(3)


def floor_that_falls(monkeypatch):
    monkeypatch.setattr("cellule.kernel.state.dedupe.DEDUPE_BUCKET_IDS", 1)
    monkeypatch.setattr("cellule.kernel.state.dedupe.DEDUPE_IDS_MAX", 0)
    monkeypatch.setattr("cellule.kernel.state.dedupe.DEDUPE_KEPT_NS", 0)
    dedupe = Dedupe()
    dedupe.add(b"k" * 16, 11, 0, 1)
    dedupe.floor_ns = 10**18
    dedupe.roll(2)


def paused_schedule_that_is_due():
    ledger_at().schedule("nightly", ScheduleRow(b"f", 5, paused=True), None, 11, 0)


def paused_schedule_that_waits():
    ledger_at().schedule("nightly", ScheduleRow(b"f", 0, paused=True, waiting_ns=5), None, 11, 0)


def snapshot_in_a_beat():
    ledger = ledger_at()
    slot_of(ledger)
    SnapshotJob(ledger)


def rest_of_a_cell_that_is_elsewhere():
    ledger = ledger_at()
    cells = ledger.cells(BASE)
    cells.put_to_rest(Slot(cells, b"o1", ENTRY))


def write_before_the_last():
    writes.follow(ENTRY, 7, 0)


def index_below_nothing():
    nodes = Nodes(1_000_000)
    index = OrderedIndex(None, nodes)
    index.insert(b"a", 1)
    index.freeze()
    drive(index.materialise(), nodes, lambda _: {})
    index._root_count = 0
    index.remove(b"a")
    index.freeze()
    drive(index.materialise(), nodes, lambda _: {})


PLANTED = {
    time_of_an_abandoned_beat: "kernel.time_order",
    frame_that_follows_itself: "kernel.frame_order",
    frame_that_ends_before_it_begins: "kernel.frame_order",
    step_of_another_cell: "kernel.ring_order",
    cell_without_messages_in_the_ring: "kernel.ring_empty",
    limit_reached_twice: "kernel.over_order",
    below_a_limit_that_was_not_reached: "kernel.over_order",
    version_left_out: "kernel.step_version",
    stopped_twice: "kernel.halted_twice",
    moved_to_no_era: "kernel.era_order",
    tail_longer_than_its_log: "kernel.log_size",
    parked_below_nothing: "kernel.intent_count",
    timers_below_nothing: "kernel.intent_count",
    open_intents_below_nothing: "kernel.intent_count",
    settled_twice: "kernel.index_remove",
    waits_twice_for_a_key: "kernel.key_order",
    waits_for_itself: "kernel.key_order",
    key_answered_twice: "kernel.key_order",
    intent_of_an_older_frame: "kernel.intent_order",
    approval_of_an_open_intent: "kernel.intent_status",
    completion_of_a_held_intent: "kernel.intent_status",
    receipt_before_its_intent: "kernel.intent_order",
    waits_twice_for_an_intent: "kernel.intent_cell",
    receipt_that_nobody_waits_for: "kernel.intent_cell",
    number_that_was_never_given: "kernel.entry_number",
    fork_that_goes_back: "kernel.fork_order",
    fork_that_begins_again: "kernel.fork_order",
    paused_schedule_that_is_due: "kernel.schedule_armed",
    paused_schedule_that_waits: "kernel.schedule_armed",
    snapshot_in_a_beat: "kernel.snapshot_order",
    rest_of_a_cell_that_is_elsewhere: "kernel.slot_stale",
    write_before_the_last: "kernel.write_order",
    index_below_nothing: "kernel.index_count",
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_change_that_no_beat_makes_is_refused(plant):
    with pytest.raises(InvariantBroken) as caught:
        plant()
    assert caught.value.code == PLANTED[plant]


def test_a_fork_may_stand_still_and_ends_with_none_left():
    branch = Branch(5, "drop", 6, 4, open_answers(None, Nodes(1_000)), live=True)
    branch.go_on(4)
    branch.go_on(0)
    assert branch.next == 0


def test_a_floor_that_falls_is_refused(monkeypatch):
    with pytest.raises(InvariantBroken) as caught:
        floor_that_falls(monkeypatch)
    assert caught.value.code == "kernel.floor_order"


def test_a_journal_that_breaks_an_invariant_is_corrupted_and_names_it(world):
    """Replay has no rule of its own for versions: the ledger's tells."""
    world.send("shop/Paid@1", {"order": "o1"})
    frame = decode_frame(world.frames[-1])
    at = next(place for place, record in enumerate(frame.records) if isinstance(record, StepRecord))
    lying = [*world.frames[:-1], with_change(world.frames[-1], at, lambda fields: fields.update(version=9))]
    with pytest.raises(Corrupted) as caught:
        world.restored(0, lying)
    assert "goes from version 0 to 9" in str(caught.value)
