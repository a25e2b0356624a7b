"""A hundred thousand timers: set, saved, restored, fired in order, and nothing left."""

from __future__ import annotations

import gc

import pytest

from cellule.kernel.index.keys import pair_of
from cellule.kernel.items import EventItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import ReceiptRecord
from cellule.values.cbor import encode
from tests.support.kernel_bank import SECOND, document
from tests.support.kernel_world import START_NS, Did, FunctionPrograms, KernelWorld

TIMERS = 100_000
PER_CELL = 25


def sleeper(state, schema, event, ctx):
    """Sets its timers at the first event; counts those that fire."""
    if schema != "bank/Tick@1":
        return Did({"heard": [state["heard"][0] + 1, event["due_ns"]]})
    first = int(event["order"])
    due = [START_NS + SECOND + (at * 7_919) % TIMERS for at in range(first, TIMERS, TIMERS // PER_CELL)]
    return Did({"heard": [0, 0]}, effects=[("timer.set", encode({"at_ns": at}), None, None) for at in due])


def fired(frames):
    """The times at which timers were due, in the order of the journal."""
    records = (record for frame in frames for record in decode_frame(frame).records)
    return [pair_of(record.extras["fired"])[0] for record in records if isinstance(record, ReceiptRecord)]


@pytest.fixture
def no_garbage():
    """Collecting garbage among a million live objects would take longer; a node freezes them."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_hundred_thousand_timers_are_set_restored_and_fired_in_order(no_garbage):
    world = KernelWorld(document(), FunctionPrograms({"bank/Order": sleeper}))
    count = TIMERS // PER_CELL
    ticks = [EventItem("bank/Tick@1", encode({"order": str(at)})) for at in range(count)]
    world.beat(ticks)
    world.settle()
    assert world.world.ledger.book.timers == TIMERS
    world.snapshot()
    world.world = world.restored(len(world.snapshots) - 1)
    assert world.world.ledger.book.timers == TIMERS
    before = len(world.frames)
    world.now_ns = START_NS + 2 * SECOND
    while world.world.ledger.book.timers:
        world.beat()
    due = fired(world.frames[before:])
    assert due == sorted(due)
    assert due == [START_NS + SECOND + at for at in range(TIMERS)]
    world.settle()
    assert [world.state("bank/Order", str(at).encode())["heard"][0] for at in range(count)] == [
        PER_CELL
    ] * count
    assert world.beat().wake is None
