"""Snapshots in slices, eviction after every step, spilling, and what a snapshot does not depend on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cellule.errors import Corrupted
from cellule.kernel.index.keys import pair_key
from cellule.kernel.items import EventItem, Pace
from cellule.kernel.need import Need, Nodes, Pause, drive
from cellule.kernel.prove.check import check_snapshot, reachable
from cellule.kernel.state import snapshot
from cellule.kernel.state.lists import _pending
from cellule.kernel.state.module_cells import Budget
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid, cid_of
from cellule.values.link import Link
from tests.support.kernel_world import START_NS, KernelWorld


def events(count: int, name: str = "o") -> list[EventItem]:
    return [EventItem("shop/Paid@1", encode({"order": f"{name}{at}"})) for at in range(count)]


class MemorySpill:
    def __init__(self) -> None:
        self.slots: dict[int, bytes] = {}
        self.puts = 0

    def put(self, data: bytes) -> int:
        self.puts += 1
        self.slots[self.puts] = data
        return self.puts

    def get(self, slot: int) -> bytes:
        return self.slots[slot]

    def drop(self, slot: int) -> None:
        del self.slots[slot]


def test_beats_go_on_between_the_slices_of_a_snapshot(make_world, monkeypatch):
    monkeypatch.setattr(snapshot, "SLICE_NODES", 16)
    world = make_world()
    quiet = make_world()
    for each in (world, quiet):
        each.beat(events(3_000))
    job = world.world.snapshot()
    slices = 0
    while True:
        answer = world.world.snapshot_slice()
        if isinstance(answer, Need):
            world.world.ledger.nodes.add(world.fetch(answer.cids))
        elif isinstance(answer, Pause):
            slices += 1
            world.beat(events(5, "late"))
        else:
            break
    world.cas.update(job.blocks)
    job.saved()
    assert slices > 1
    assert answer == quiet.snapshot()
    world.snapshots.append((job.height, answer, 2))


def test_nothing_in_a_snapshot_depends_on_the_world(make_world):
    roots = set()
    for number in (1, 2):
        world = make_world(seed=number)
        world.entropy = make_world().entropy
        roots.add(decode(world.cas[world.baseline])["modules"] == {} and world.baseline)
    assert len(roots) == 1


def test_a_tiny_memory_gives_the_same_bytes(make_world):
    plenty = make_world()
    spill = MemorySpill()
    scarce = make_world(budget=Budget(hot_cells_max=0, dirty_bytes_max=0, nodes_bytes_max=0), spill=spill)
    for turn in range(8):
        for world in (plenty, scarce):
            world.beat(events(40, f"t{turn % 3}-"))
            world.send("shop/Failed@1", {"order": f"t{turn}-1", "why": "x"})
            if turn % 3 == 2:
                world.snapshot()
            world.settle()
    assert plenty.frames == scarce.frames
    assert plenty.snapshot() == scarce.snapshot()
    assert spill.puts > 0


def test_opening_a_world_reads_roots_and_not_cells(make_world):
    world = make_world()
    world.beat(events(2_000))
    world.snapshot()
    asked: list[int] = []
    fetch = world.fetch

    def counting(cids):
        found = fetch(cids)
        asked.append(len(found))
        return found

    world.fetch = counting
    world.restored(len(world.snapshots) - 1)
    world.fetch = fetch
    assert sum(asked) <= 4


def test_a_snapshot_with_a_queue_a_ring_and_pending_events_restores(make_world):
    world = make_world(pace=Pace(quota=3, burst=1))
    pings = [EventItem("shop/Ping@1", encode({"to": f"p{at % 4}", "left": 2})) for at in range(40)]
    world.beat(pings)
    world.beat()
    assert world.world.ledger.pending
    assert world.world.ledger.ring
    world.snapshot()
    world.settle()
    assert world.state("shop/Pinger", b"p0xx") == {"count": 10}


def saved_blocks(world):
    """The blocks of a snapshot, which is kept."""
    before = set(world.cas)
    root = world.snapshot()
    return decode(world.cas[root]), {cid: data for cid, data in world.cas.items() if cid not in before}


def test_nothing_in_a_snapshot_is_one_big_block(make_world):
    world = make_world(pace=Pace(quota=1, burst=1))
    why = "because " * 300
    halted = EventItem("shop/Failed@1", encode({"order": "o", "why": "stop"}))
    world.beat(
        [halted, *(EventItem("shop/Failed@1", encode({"order": "o", "why": why})) for _ in range(300))]
    )
    for turn in range(3):
        world.beat(events(700, f"ready-{turn}-"))
    whole, blocks = saved_blocks(world)
    assert whole["ready"][1] > 2_000
    assert len(blocks) > 80
    assert max(map(len, blocks.values())) < 64_000
    queue = world.entry("shop/Order", b"o").get("queue")
    assert len(queue) == 301
    restored = world.restored(len(world.snapshots) - 1)
    assert [slot.key for slot in restored.ledger.ring] == [slot.key for slot in world.world.ledger.ring]


def test_a_long_queue_is_an_index_and_comes_back_in_its_order(make_world):
    world = make_world(pace=Pace(quota=1, burst=1))
    world.beat([EventItem("shop/Ping@1", encode({"to": "p", "left": 0})) for _ in range(400)])
    whole, _ = saved_blocks(world)
    link, count = whole["modules"]["shop/Pinger"]
    assert count == 1
    [entry] = decode(world.cas[link.cid])[2]
    assert entry[-1]["queue"]["count"] == 399
    restored = world.restored(len(world.snapshots) - 1)
    drive(restored.ledger.slots([("shop/Pinger", b"p")]), restored.ledger.nodes, world.fetch)
    heights = [message.height for message in restored.ledger.cells("shop/Pinger").slots[b"p"].queue]
    assert heights == sorted(heights)
    assert len(heights) == 399


def test_a_long_value_of_a_message_is_a_block_that_the_step_reads(make_world):
    world = make_world(pace=Pace(quota=1, burst=1))
    long = "x" * 2_000
    world.beat([EventItem("shop/Failed@1", encode({"order": f"o{at}", "why": long})) for at in range(3)])
    value = encode({"order": "o2", "why": long})
    _, blocks = saved_blocks(world)
    assert blocks[cid_of(value)] == value
    world.world = world.restored(len(world.snapshots) - 1)
    world.settle()
    assert world.entry("shop/Order", b"o2").get("text") == long


def test_a_snapshot_writes_no_queue_that_only_the_one_before_had(make_world):
    """The chunks of a queue would be written again with every snapshot, for ever."""
    world = make_world(pace=Pace(quota=1, burst=1))
    world.beat([EventItem("shop/Ping@1", encode({"to": "p", "left": 0})) for _ in range(400)])
    _, before = saved_blocks(world)
    world.world.pace = Pace(1_000, 500)
    world.settle()
    job = world.world.snapshot()
    while not isinstance(world.world.snapshot_slice(), bytes):
        pass
    world.cas.update(job.blocks)
    job.saved()
    assert before.keys().isdisjoint(job.blocks)


def test_idle_cells_cost_a_snapshot_nothing(make_world):
    world = make_world()
    world.beat(events(3_000))
    world.snapshot()
    world.beat(events(3, "new"))
    job = world.world.snapshot()
    while not isinstance(answer := world.world.snapshot_slice(), bytes):
        if isinstance(answer, Need):
            world.world.ledger.nodes.add(world.fetch(answer.cids))
    world.cas.update(job.blocks)
    job.saved()
    assert len(job.blocks) < 20


def test_ids_that_are_saved_leave_memory_and_are_still_known(make_world, monkeypatch):
    monkeypatch.setattr("cellule.kernel.state.dedupe.DEDUPE_BUCKET_IDS", 2)
    world = make_world()
    items = [replace(each, id=f"id{at}", explicit=True) for at, each in enumerate(events(6))]
    for item in items:
        world.beat([item])
    world.snapshot()
    buckets = world.world.ledger.dedupe.closed
    assert len(buckets) > 1
    assert all(bucket.data is None for bucket in buckets)
    assert world.beat(items[:1]).frame is None


def test_the_world_starts_at_its_creation(world):
    assert world.world.ledger.now_ns == START_NS
    assert decode(world.cas[world.baseline])["height"] == 0


def test_a_snapshot_has_the_blocks_of_those_before_it_that_are_not_saved(world):
    """What one wrote is linked by the next, and need not be durable yet."""
    jobs = []
    for turn in range(3):
        world.beat(events(50, f"turn{turn}-"))
        jobs.append(world.world.snapshot())
        while not isinstance(answer := world.world.snapshot_slice(), Cid):
            assert isinstance(answer, Pause)
        if turn == 1:
            world.cas.update(jobs[0].blocks)
            jobs[0].saved()
    assert jobs[1].blocks.keys() <= jobs[2].blocks.keys()
    world.cas.update(jobs[2].blocks)
    jobs[2].saved()


def test_what_a_value_links_and_nobody_has_is_absent(world):
    present, missing = cid_of(b"here", "raw"), cid_of(b"nowhere", "raw")
    root = cid_of(encode([Link(present), Link(missing)]))
    cas = {present: b"here", root: encode([Link(present), Link(missing)])}

    def fetch(cids):
        return {cid: cas[cid] for cid in cids if cid in cas}

    nodes, absent = Nodes(0), set()
    assert drive(reachable([root], nodes, absent), nodes, fetch) == {root, present}
    assert absent == {missing}


@pytest.mark.parametrize("by", [-1, 1])
def test_a_state_that_is_longer_or_shorter_than_its_entry_says_is_damage(world, shop, by):
    world = KernelWorld(shop(), world.programs)
    world.beat(events(1))
    live = world.world.ledger.cells("shop/Order").live
    [(key, entry)] = drive(live.scan(b"", None, 10), world.world.ledger.nodes, world.fetch).entries
    live.put(key, entry.changed(size=entry.size + by))
    nodes = Nodes(0)
    with pytest.raises(Corrupted, match="does not have"):
        drive(check_snapshot(world.snapshot(), nodes), nodes, world.fetch)


@pytest.mark.parametrize(
    "places", [[(1, 0)], [(0, 0), (2, 0)], [(0, 1)], [(0, 0), (0, 2)], [(0, 0), (1, 1)], [(0, 0, "x")]]
)
def test_pending_messages_and_their_cells_stand_in_their_order(places):
    message, cell = [4, 0, "shop/Paid@1", [b"x"], 0, None], ["shop/Order", b"o1"]
    assert len(_pending({pair_key(0, 0): message, pair_key(0, 1): cell, pair_key(1, 0): message})) == 2
    rows = {pair_key(*place[:2]): cell if place[1] or len(place) > 2 else message for place in places}
    with pytest.raises(Corrupted, match="pending has a row that does not fit"):
        _pending(rows)


@pytest.mark.parametrize("field", ["born", "last"])
def test_a_cell_with_a_step_above_the_snapshot_is_damage(world, shop, field):
    world = KernelWorld(shop(), world.programs)
    world.beat(events(1))
    ledger = world.world.ledger
    live = ledger.cells("shop/Order").live
    [(key, entry)] = drive(live.scan(b"", None, 10), ledger.nodes, world.fetch).entries
    live.put(key, entry.changed(**{field: ledger.height + 1}))
    nodes = Nodes(0)
    with pytest.raises(Corrupted, match=f"has a step above height {ledger.height}"):
        drive(check_snapshot(world.snapshot(), nodes), nodes, world.fetch)
