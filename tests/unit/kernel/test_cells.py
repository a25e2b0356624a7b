"""Cells: versions, deletion and incarnations, expected versions, replies, large states, logs, failures."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.items import EventItem, Pace, RefusedItem
from cellule.kernel.journal.codes import CONFLICT, DELETED, HALTED, OK, SKIPPED
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.limits import LOG_CHUNK_BYTES, OUTPUT_BYTES_MAX, STATE_INLINE_INDEX_MAX
from cellule.kernel.state.cells import Entry, pack, unpack
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.kernel_world import Did, FunctionPrograms


def event(name: str, **fields: object) -> EventItem:
    return EventItem(f"shop/{name}@1", encode(fields))


def test_version_counts_steps_and_born_is_the_first(world):
    first = world.send("shop/Placed@1", {"order": "o1", "total": 3})
    world.send("shop/Paid@1", {"order": "o1"})
    entry = world.entry("shop/Order", b"o1")
    assert (entry.version, entry.born, entry.era) == (2, first.steps[0].height, 0)
    assert (entry.active_ns, entry.extras) == (world.now_ns, None)
    assert entry.last > entry.born


def test_a_deleted_cell_is_gone_and_its_next_event_is_a_new_incarnation(world):
    world.send("shop/Placed@1", {"order": "o1", "total": 3})
    gone = world.beat([event("Cancelled", order="o1"), event("Paid", order="o1")])
    assert [step.status for step in gone.steps] == [DELETED, OK]
    entry = world.entry("shop/Order", b"o1")
    assert entry.version == 1
    assert entry.born == gone.steps[1].height


def test_the_size_of_a_state_is_known_without_reading_it(make_world, shop):
    def grow(state, schema, value, ctx):
        return {"total": 0, "paid": False, "seen": 0, "why": "x" * 5_000}

    world = make_world(shop(), FunctionPrograms({"shop/Order": grow}))
    world.send("shop/Paid@1", {"order": "o1"})
    size = world.entry("shop/Order", b"o1").size
    restored = world.restored().ledger.cells("shop/Order").live.cached(b"o1")
    assert isinstance(restored.state, Link)
    assert restored.size == size > 5_000


def test_a_step_with_a_linked_state_and_no_size_contradicts_its_journal(make_world, shop):
    def grow(state, schema, value, ctx):
        return {"total": 0, "paid": False, "seen": 0, "why": "x" * 5_000}

    world = make_world(shop(), FunctionPrograms({"shop/Order": grow}))
    beat = world.send("shop/Paid@1", {"order": "o1"})
    head, names, records = decode(beat.frame)
    records[-1][-1] = None
    with pytest.raises(Corrupted, match="its size is missing"):
        world.restored(0, [*world.frames[:-1], encode([head, names, records])])


def test_deleting_a_cell_leaves_no_entry(world):
    before = world.snapshot()
    world.send("shop/Ping@1", {"to": "a", "left": 0})
    world.send("shop/Placed@1", {"order": "o1", "total": 3})
    world.send("shop/Cancelled@1", {"order": "o1"})
    assert world.entry("shop/Order", b"o1") is None
    assert decode(world.cas[before])["modules"].keys() <= {"shop/Stats"}


def test_expected_version_is_compared_when_the_step_runs(world):
    def paid(expected: int) -> EventItem:
        return EventItem("shop/Paid@1", encode({"order": "o1"}), expected_version=expected)

    beat = world.beat([paid(0), paid(0), paid(1)])
    assert [step.status for step in beat.steps] == [OK, CONFLICT, OK]
    assert world.entry("shop/Order", b"o1").version == 2
    assert beat.steps[1].code == "kernel.version_conflict"
    assert "expected version 0, the cell is at 1" in beat.steps[1].text


def test_expected_version_needs_exactly_one_target(world):
    item = EventItem("shop/Placed@1", encode({"order": "o1", "total": 1}), expected_version=0)
    outcome = world.beat([item]).outcomes[0]
    assert isinstance(outcome, RefusedItem)
    assert outcome.error.code == "kernel.expected_version_targets"


def test_reply_and_annotation_are_in_the_record(world):
    beat = world.send("shop/Placed@1", {"order": "o1", "total": 3})
    assert decode(beat.steps[0].reply) == {"at": beat.steps[0].height}
    paid = world.send("shop/Paid@1", {"order": "o1"})
    extras = decode_frame(paid.frame).records[1].extras
    assert decode(extras["ann"][0]) == {"note": "paid"}


@pytest.mark.parametrize("size", [100, 600, 5_000, 100_000])
def test_states_of_every_size_survive(make_world, shop, size):
    def keep(state, schema, value, ctx):
        return {"total": len(state["why"]) if state else 0, "why": "x" * size}

    manifest = shop()
    manifest["schemas"] = {
        **manifest["schemas"],
        "shop/Order@1": {"record": {"total": {"int": {}}, "why": {"text": {}}}},
    }
    world = make_world(manifest, FunctionPrograms({"shop/Order": keep}))
    world.send("shop/Paid@1", {"order": "o1"})
    world.snapshot()
    beat = world.send("shop/Paid@1", {"order": "o1"})
    assert world.state("shop/Order", b"o1") == {"total": size, "why": "x" * size}
    assert bool(beat.blocks) == (size > 4_096)
    entry = world.entry("shop/Order", b"o1")
    assert entry.size == len(entry.state)


def test_a_state_with_links_is_walked_from_the_snapshot(make_world, shop):
    blob = encode({"hello": "world"})

    def keep(state, schema, value, ctx):
        return {"blob": Link(cid_of(blob))}

    manifest = shop()
    manifest["schemas"] = {**manifest["schemas"], "shop/Order@1": {"record": {"blob": {"hash": {}}}}}
    world = make_world(manifest, FunctionPrograms({"shop/Order": keep}))
    world.cas[cid_of(blob)] = blob
    world.send("shop/Paid@1", {"order": "o1"})
    assert world.state("shop/Order", b"o1") == {"blob": Link(cid_of(blob))}


def test_a_log_state_appends_and_seals_chunks(make_world, shop):
    def append(state, schema, value, ctx):
        return [{"n": len(state or []), "pad": "x" * 5_000}]

    manifest = shop(Order={"state": "log"})
    world = make_world(manifest, FunctionPrograms({"shop/Order": append}))
    for turn in range(20):
        beat = world.send("shop/Paid@1", {"order": "o1"})
        if turn == 11:
            world.snapshot()
    assert len(beat.frame) < LOG_CHUNK_BYTES
    entry = world.entry("shop/Order", b"o1")
    assert entry.version == 20
    assert len(entry.get("log")) == 2
    assert [item["n"] for item in decode(entry.state)] == list(range(14, 20))
    chunks = [world.cas[link.cid] for link in entry.get("log")]
    assert entry.size == sum(map(len, chunks)) + len(entry.state) > 20 * 5_000


def test_a_failing_step_halts_its_cell_with_the_queue_intact(world):
    world.send("shop/Placed@1", {"order": "o1", "total": 3})
    beat = world.beat([event("Failed", order="o1", why="no money"), event("Paid", order="o1")])
    assert [step.status for step in beat.steps] == [HALTED]
    entry = world.entry("shop/Order", b"o1")
    assert decode(entry.state) == {"total": 3, "paid": False, "seen": 1}
    assert entry.version == 1
    assert (entry.get("status"), entry.get("code")) == ("halted", "shop.failed")
    assert entry.get("text") == "no money"
    assert [message.schema for message in entry.get("queue")] == ["shop/Failed@1", "shop/Paid@1"]
    assert not world.settle()[-1].more


def test_a_failure_is_an_event_that_modules_can_take(world):
    world.beat([event("Failed", order="o1", why="no money")])
    world.settle()
    assert world.state("shop/Stats") == {"placed": 0, "failures": 1}


def test_a_failure_while_handling_a_failure_emits_none(make_world):
    def fail(state, schema, value, ctx):
        raise ValueError("always")

    world = make_world(programs=FunctionPrograms({"shop/Order": fail, "shop/Stats": fail}))
    world.beat([event("Paid", order="o1")])
    assert len(world.settle()) <= 3
    assert world.entry("shop/Stats").get("status") == "halted"


def test_a_halted_cell_takes_messages_and_runs_them_after_resume(make_world):
    broken = [True]

    def moody(state, schema, value, ctx):
        if broken[0]:
            raise ValueError("not yet")
        return {"total": 0, "paid": True, "seen": (state or {"seen": 0})["seen"] + 1}

    world = make_world(programs=FunctionPrograms({"shop/Order": moody}))
    world.beat([event("Paid", order="o1")])
    world.beat([event("Paid", order="o1")])
    world.snapshot()
    world.beat([event("Paid", order="o1")])
    broken[0] = False
    beat = world.control("cell.resume", module="shop/Order", key=b"o1")
    assert [step.status for step in beat.steps] == [OK, OK, OK]
    assert world.state("shop/Order", b"o1")["seen"] == 3
    world.same_code = False
    assert world.verify().field == "status"


def test_resuming_a_cell_that_is_not_stopped_is_refused(world):
    outcome = world.control("cell.resume", module="shop/Order", key=b"o1").outcomes[0]
    assert outcome.error.code == "kernel.not_stopped"


def test_bulk_resume_releases_all_halted_cells_of_a_module(world):
    world.beat([event("Failed", order=f"o{at}", why="x") for at in range(5)])
    world.settle()
    beat = world.control("cell.resume", module="shop/Order")
    assert len(beat.steps) == 5
    assert {step.status for step in beat.steps} == {HALTED}
    record = decode_frame(beat.frame).records[0]
    assert [key for _, key in record.arguments["cells"]] == [b"o0", b"o1", b"o2", b"o3", b"o4"]


def test_skip_sends_the_message_to_the_dead_letters(make_world, shop):
    world = make_world(shop(Order={"failure": "skip"}))
    beat = world.beat([event("Failed", order="o1", why="no"), event("Paid", order="o1")])
    assert [step.status for step in beat.steps] == [SKIPPED, OK]
    page = next_value(world.world.ledger.dead_letters.scan(b"", None, 10))
    assert [(row.module, row.key, row.code) for _, row in page] == [("shop/Order", b"o1", "shop.failed")]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Did({"total": 0}, emit=[("shop/Nowhere@1", {})]), "routing."),
        (Did({"total": 0}, emit=[("shop/Paid@1", {"order": 5})]), "routing."),
        (Did({"total": 0}, effects=[("http.request", b"\xa0", None, None)]), "kernel.effect_pure"),
        (Did({"pad": "x" * OUTPUT_BYTES_MAX}), "kernel.output_size"),
        (Did({"total": 0}, emit=[("shop/Paid@1", {"order": "o"})] * 10_001), "kernel.events_count"),
    ],
)
def test_an_output_beyond_the_rules_is_a_failed_step(make_world, answer, code):
    world = make_world(programs=FunctionPrograms({"shop/Order": lambda *_: answer}))
    step = world.send("shop/Paid@1", {"order": "o1"}).steps[0]
    assert step.status == HALTED
    assert step.code.startswith(code)


def next_value(generator):
    with pytest.raises(StopIteration) as stop:
        next(generator)
    return stop.value.value


@pytest.mark.parametrize("wrong", [{"count": -1}, {"root": b"no link"}])
def test_an_entry_whose_long_queue_is_none_is_damaged(wrong):
    whole = {"count": 70, "root": Link(cid_of(b""))}
    assert unpack([None, 0, 1, 1, 1, 0, 1, 1, {"queue": whole}]).get("queue").count == 70
    with pytest.raises(Corrupted, match="the queue is neither a list nor the root of one"):
        unpack([None, 0, 1, 1, 1, 0, 1, 1, {"queue": {**whole, **wrong}}])


def test_a_cell_that_stops_while_more_comes_for_it_is_put_to_rest_once(make_world):
    """Its slot was there before the beat, and two events of the beat found it."""
    world = make_world(pace=Pace(quota=1, burst=1))
    failing = EventItem("shop/Failed@1", encode({"order": "o1", "why": "x"}))
    world.beat([EventItem("shop/Paid@1", encode({"order": "o2"})), failing])
    assert len(world.entry("shop/Order", b"o1").get("queue")) == 1
    beat = world.beat([EventItem("shop/Paid@1", encode({"order": "o1"}))] * 2)
    assert [step.status for step in beat.steps] == [HALTED]
    entry = world.entry("shop/Order", b"o1")
    assert [message.schema for message in entry.get("queue")] == ["shop/Failed@1", *["shop/Paid@1"] * 2]


@pytest.mark.parametrize("more", [0, 1])
def test_a_state_stands_in_its_entry_up_to_the_very_limit(more):
    state = bytes(STATE_INLINE_INDEX_MAX + more)
    blocks = {}
    [held, *_] = pack(Entry(state, len(state), 1, 1, 1, 0, 1, 1, None), blocks)
    assert held == (Link(cid_of(state)) if more else [state])
    assert blocks == ({cid_of(state): state} if more else {})
