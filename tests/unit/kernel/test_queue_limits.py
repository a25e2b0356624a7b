"""Queues and lists are bounded, refuse one event alone, and are never one big block of a snapshot."""

from __future__ import annotations

import pytest

from cellule.kernel.items import EventItem, Pace, RefusedItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.heartbeat_records import SignalRecord
from cellule.kernel.journal.records import RefusedRecord
from cellule.kernel.need import drive
from cellule.values.cbor import decode, encode
from cellule.values.envelope import value_of

BLOCK_MAX = 1_100_000  # a value of 1 MB with what holds it


def ping(to, left=0):
    return EventItem("shop/Ping@1", encode({"to": to, "left": left}))


def placed(order, total=1):
    return EventItem("shop/Placed@1", encode({"order": order, "total": total}))


def failed(order, why=""):
    return EventItem("shop/Failed@1", encode({"order": order, "why": why}))


def halted(world, order="o1"):
    """Stop a cell of the shop."""
    world.beat([failed(order)])
    assert world.entry("shop/Order", order.encode()).get("status") == "halted"
    return world


@pytest.fixture
def small(monkeypatch):
    """Limits that a test reaches."""
    for place in ("cells", "ledger"):
        monkeypatch.setattr(f"cellule.kernel.state.{place}.QUEUE_MESSAGES_MAX", 10)
    monkeypatch.setattr("cellule.kernel.state.cells.QUEUE_BYTES_MAX", 5_000)


def refused(beat):
    return [outcome.error.code for outcome in beat.outcomes if isinstance(outcome, RefusedItem)]


@pytest.mark.parametrize("fast", [True, False])
def test_a_full_queue_refuses_the_one_event(make_world, small, fast):
    world = halted(make_world(fast=fast))
    for _ in range(9):
        assert refused(world.beat([failed("o1")])) == []
    beat = world.beat([failed("o2"), failed("o1"), failed("o3")])
    assert refused(beat) == ["kernel.queue_full"]
    assert "10 messages wait" in str(beat.outcomes[1].error)
    assert len(world.entry("shop/Order", b"o1").get("queue")) == 10


def test_a_full_queue_counts_bytes_too(make_world, small):
    world = halted(make_world())
    assert refused(world.beat([failed("o1", "x" * 2_000)])) == []
    assert refused(world.beat([failed("o1", "x" * 2_000)])) == []
    assert refused(world.beat([failed("o1", "x" * 2_000)])) == ["kernel.queue_full"]


def test_a_queue_that_is_never_empty_takes_events_for_ever(make_world, small):
    world = make_world(pace=Pace(1, 1))
    world.beat([ping("busy"), ping("busy")])
    for _ in range(400):
        assert refused(world.beat([ping("busy")])) == []
    assert len(world.entry("shop/Pinger", b"busy").get("queue")) >= 1


def test_an_acknowledged_event_for_a_full_queue_is_recorded_as_refused(make_world, small):
    world = halted(make_world())
    for _ in range(9):
        world.beat([failed("o1")])
    beat = world.beat([EventItem("shop/Failed@1", encode({"order": "o1", "why": ""}), id="i", explicit=True,
        durable=True)])  # fmt: skip
    [(_, record)] = decode_frame(beat.frame).of(RefusedRecord)
    assert (record.code, record.id) == ("kernel.queue_full", "i")


def test_what_a_step_emits_to_a_full_queue_is_a_dead_letter(make_world, small):
    world = make_world()
    world.control("pause")
    for _ in range(10):
        world.beat([ping("ax")])
    world.control("cell.halt", module="shop/Pinger", key=b"ax")
    world.control("resume")
    world.beat([ping("a", 1)])
    for _ in range(3):  # nothing to write, nothing changes
        assert world.beat().frame is None
    world.beat([ping("b")])
    [(_, letter)] = drive(
        world.world.ledger.dead_letters.scan(b"", None, 10), world.world.ledger.nodes, world.fetch
    )
    assert (letter.key, letter.code) == (b"ax", "kernel.queue_full")
    assert len(world.entry("shop/Pinger", b"ax").get("queue")) == 10


def test_dead_letters_of_a_full_queue_are_told_by_a_signal_where_there_are_enzymes(make_world, small):
    world = make_world()
    world.control("tree.write", path="/anything")
    world.control("pause")
    for _ in range(10):
        world.beat([ping("ax")])
    world.control("cell.halt", module="shop/Pinger", key=b"ax")
    world.control("resume")
    world.beat([ping("a", 1), ping("a", 1)])
    [(_, signal)] = decode_frame(world.beat().frame).of(SignalRecord)
    about = decode(value_of(signal.extras["payload"]))
    assert (signal.signal, signal.extras["kind"]) == ("/sig_cei/error", "warning")
    assert signal.depth == 2  # one more than what was emitted
    assert (about["code"], about["module"], about["key"]) == ("kernel.queue_full", "shop/Pinger", b"ax")
    assert about["text"] == "2 events for it are dead letters: 10 messages wait at it"


def blocks_of(world):
    before = set(world.cas)
    world.snapshot()
    return [len(world.cas[cid]) for cid in set(world.cas) - before]


def test_nine_long_events_at_a_halted_cell_are_nine_blocks(make_world):
    """They were one block of over 8 MB, and the world stopped for good when a snapshot was due."""
    world = halted(make_world())
    for number in range(9):
        world.beat([failed("o1", f"{number}" + "x" * 900_000)])
    assert max(blocks_of(world)) <= BLOCK_MAX
    world.world = world.restored(len(world.snapshots) - 1)
    assert len(world.entry("shop/Order", b"o1").get("queue")) == 10
    assert refused(world.beat([failed("o1")])) == []


def test_very_many_short_events_at_a_halted_cell_are_many_blocks(make_world):
    world = halted(make_world())
    events = [failed("o1")] * 4_000
    for _ in range(5):
        world.beat(events)
    assert max(blocks_of(world)) <= BLOCK_MAX
    world.world = world.restored(len(world.snapshots) - 1)
    assert len(world.entry("shop/Order", b"o1").get("queue")) == 20_001


def test_ready_and_pending_cells_are_many_blocks(make_world):
    world = make_world(pace=None)
    world.control("pause")
    for start in range(0, 4_000, 1_000):
        world.beat([ping(f"{number:0400d}", 1) for number in range(start, start + 1_000)])
    assert len(world.world.ledger.ring) == 4_000
    assert max(blocks_of(world)) <= BLOCK_MAX
    world.control("resume")


def test_a_stopped_cell_with_a_short_queue_leaves_memory(make_world):
    world = make_world()
    for number in range(200):
        halted(world, f"o{number}")
    assert world.world.ledger.cells("shop/Order").slots == {}
    world.control("cell.resume", module="shop/Order")
    world.settle()
    assert world.world.ledger.cells("shop/Order").slots == {}
