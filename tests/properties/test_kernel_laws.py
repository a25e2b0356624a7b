"""Laws of whole worlds: what must not change a byte, what must never be lost, and what is remembered."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellule.kernel.decide import admission, rounds
from cellule.kernel.index import LiveIndex, scan
from cellule.kernel.items import Admitted, Duplicate, EventItem, Later, Pace, RefusedItem
from cellule.kernel.journal.codes import HALTED, PARKED
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import EmittedRecord, EventRecord, StepRecord
from cellule.kernel.need import Nodes, drive
from cellule.kernel.state import dedupe
from cellule.kernel.state.cells import ghost, pack, unpack, weigh
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from tests.support import kernel_town as town
from tests.support.kernel_history import NOTHING, Scratch, live
from tests.support.kernel_world import KernelWorld

EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "10"))
SEEDS = st.integers(0, 2**32)
few = settings(
    max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow,
    HealthCheck.function_scoped_fixture],
)  # fmt: skip

IN_ANOTHER_PROCESS = """
from tests.support.kernel_history import live
from cellule.values.cid import cid_of
for seed in range(4):
    world = live(seed)
    print(*(cid_of(frame) for frame in world.frames), world.snapshot())
"""


def add(who: str, n: int = 1, **options: object) -> EventItem:
    return EventItem("town/Do@1", encode({"who": who, "do": "add", "n": n}), **options)


# What must not change a byte


def test_two_processes_with_different_hash_seeds_write_the_same_bytes():
    told = []
    for seed in ("1", "2"):
        surroundings = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", IN_ANOTHER_PROCESS],
            env=surroundings,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        told.append(done.stdout.split())
    here = [
        str(cid)
        for seed in range(4)
        for world in [live(seed)]
        for cid in [*map(cid_of, world.frames), world.snapshot()]
    ]
    assert told == [here, here]


@few
@given(seed=SEEDS)
def test_memory_snapshots_evictions_and_restores_never_change_a_frame(seed):
    quiet = live(seed)
    scratch = Scratch()
    disturbed = live(seed, disturbed=True, budget=NOTHING, spill=scratch)
    assert disturbed.frames == quiet.frames
    assert disturbed.snapshot() == quiet.snapshot()
    assert scratch.made > 0
    quiet.assert_replays()
    disturbed.assert_replays()


@few
@given(seed=SEEDS, order=st.randoms(use_true_random=False), budget=st.sampled_from([0, 1_000_000]))
def test_the_same_cells_give_the_same_root_in_any_order_of_writing(seed, order, budget):
    world = live(seed)
    saved = decode(world.cas[world.snapshot()])
    for link, count in saved["modules"].values():
        nodes = Nodes(1_000_000)
        cells = drive(scan(link.cid, b"", None, 10_000, nodes), nodes, world.fetch)
        assert len(cells) == count
        assert root_of(world, cells, order, budget) == link.cid


def root_of(world, cells, order, budget):
    """The root of an index that got these cells in a random order, with others that went again."""
    nodes, blocks = Nodes(budget), {}
    index = LiveIndex(
        None, nodes, pack=lambda entry: pack(entry, {}), unpack=unpack, weigh=weigh, hot_max=budget
    )
    writes = [(key, unpack(value)) for key, value in cells]
    order.shuffle(writes)
    for key, entry in writes:
        index.put(key + b"?", entry)
        index.put(key, ghost())
        if order.random() < 0.2:
            index.freeze()
            blocks.update(
                drive(index.materialise(3), nodes, lambda cids: {cid: blocks[cid] for cid in cids}).blocks
            )
        index.put(key, entry)
        index.delete(key + b"?")
    index.freeze()
    return drive(index.materialise(3), nodes, lambda cids: {cid: blocks[cid] for cid in cids}).root


# What must never be lost or done twice


@few
@given(
    events=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 99)), min_size=1, max_size=40),
    cuts=st.lists(st.integers(1, 7), min_size=1, max_size=40),
    frame_bytes=st.sampled_from([2, 300, 1_000, 2_000_000]),
    quota=st.sampled_from([1, 4, 1_000]),
    burst=st.sampled_from([1, 64]),
)
def test_splitting_admission_into_other_beats_never_loses_or_duplicates_an_event(
    events, cuts, frame_bytes, quota, burst
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "FRAME_BYTES_CLOSE", frame_bytes)
        patch.setattr(admission, "FRAME_BYTES_ADMIT", frame_bytes // 2)
        world = KernelWorld(town.document(town.Edition()), town.PROGRAMS, pace=Pace(quota, burst))
        waiting = [add(who, n) for who, n in events]
        heights = []
        for cut in cuts * len(waiting):
            if not waiting:
                break
            outcomes = world.beat(waiting[:cut]).outcomes
            taken = [outcome.height for outcome in outcomes if isinstance(outcome, Admitted)]
            assert outcomes[len(taken) :] == [Later()] * (len(outcomes) - len(taken))
            heights += taken
            del waiting[: len(taken)]
        assert not waiting
        world.settle()
        world.assert_replays()
    assert len(set(heights)) == len(events)
    steps = [step for frame in world.frames for _, step in decode_frame(frame).of(StepRecord)]
    assert Counter(step.cause for step in steps if step.cause in heights) == Counter(
        heights * 2
    )  # two subscribers
    for who in {who for who, _ in events}:
        own = [n for name, n in events if name == who]
        state = world.state("town/Account", who.encode())
        assert (state["sum"], world.entry("town/Account", who.encode()).version) == (sum(own), len(own))


@few
@given(seed=SEEDS)
def test_every_admitted_event_meets_each_of_its_cells_in_order(seed):
    """Each message of a cell is consumed once, in the order of admission, or still waits in its queue."""
    world = live(seed)
    expected: dict[tuple[str, bytes], list[int]] = {}
    consumed: dict[tuple[str, bytes], list[int]] = {}
    for frame in map(decode_frame, world.frames):
        for height, record in frame.numbered():
            for cell in record.targets if isinstance(record, EventRecord | EmittedRecord) else ():
                expected.setdefault(cell, []).append(height)
            if isinstance(record, StepRecord) and record.status not in (HALTED, PARKED):
                consumed.setdefault((record.module, record.key), []).append(record.cause)
    pending = {message.height for message, _ in world.world.ledger.pending}
    for cell, heights in expected.items():
        entry = world.entry(*cell)
        queue = [message.height for message in (() if entry is None else entry.get("queue", ()))]
        assert [*consumed.get(cell, []), *queue] == [height for height in heights if height not in pending]


# What is remembered

WINDOW_S, BUCKET, IDS_MIN, IDS_MAX, KEPT_S = 100, 3, 5, 12, 30


@pytest.fixture
def small_window(monkeypatch):
    monkeypatch.setattr(dedupe, "DEDUPE_WINDOW_NS", WINDOW_S * town.SECOND_NS)
    monkeypatch.setattr(dedupe, "DEDUPE_BUCKET_IDS", BUCKET)
    monkeypatch.setattr(dedupe, "DEDUPE_IDS_MIN", IDS_MIN)
    monkeypatch.setattr(dedupe, "DEDUPE_IDS_MAX", IDS_MAX)
    monkeypatch.setattr(dedupe, "DEDUPE_KEPT_NS", KEPT_S * town.SECOND_NS)


@settings(few, max_examples=4 * EXAMPLES)
@given(
    sends=st.lists(
        st.tuples(
            st.integers(0, 30), st.sampled_from([0, 0, 1, 40, 120]), st.sampled_from(["", "", "restart"])
        ),
        max_size=60,
    )
)
def test_the_window_of_ids_keeps_its_promises(small_window, sends):
    """A retry keeps its first `issued_ns`. It is a duplicate, or refused as too old; never applied twice.

    One that is not older than `KEPT_S` is a duplicate always. Where that leaves no room for another id, a
    first attempt is refused, and may be made again.
    """
    world = KernelWorld(town.document(town.Edition()), town.PROGRAMS)
    first: dict[int, tuple[int, int, int]] = {}  # id -> issued_ns, height, how many ids came before it
    for number, seconds, then in sends:
        world.now_ns += seconds * town.SECOND_NS
        issued_ns, height, before = first.get(number, (world.now_ns, None, len(first)))
        outcome = world.beat([add("a", id=f"id-{number}", explicit=True, issued_ns=issued_ns)]).outcomes[0]
        is_young = world.now_ns - issued_ns <= KEPT_S * town.SECOND_NS
        if height is None and isinstance(outcome, RefusedItem):
            assert outcome.error.code == "kernel.ids_full"
            youngest = sorted(issued_ns for issued_ns, _, _ in first.values())[-(IDS_MAX - BUCKET) :]
            assert world.now_ns - youngest[0] <= KEPT_S * town.SECOND_NS
        elif height is None:
            assert isinstance(outcome, Admitted)
            first[number] = (issued_ns, outcome.height, before)
        elif isinstance(outcome, Duplicate):
            assert outcome.height == height
        else:
            assert outcome.error.code == "kernel.too_old"
            assert not is_young
            is_young = world.now_ns - issued_ns <= WINDOW_S * town.SECOND_NS
            is_recent = len(first) - before <= IDS_MAX - BUCKET
            is_needed = len(first) - before <= IDS_MIN
            assert not ((is_young or is_needed) and is_recent)
        assert world.world.ledger.dedupe.count() <= IDS_MAX + BUCKET
        if then == "restart":
            world.snapshot()
            world.world = world.restored(len(world.snapshots) - 1)
    assert getattr(world.entry("town/Account", b"a"), "version", 0) == len(first)
    world.assert_replays()
