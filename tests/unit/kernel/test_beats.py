"""Beats: order of admission, rounds, quota, emits in the next beat, limits, time."""

from __future__ import annotations

import gc

from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.items import Admitted, EventItem, Later, Pace, RefusedItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import EmittedRecord, EventRecord, StepRecord
from cellule.kernel.journal.writer import FrameWriter
from cellule.kernel.limits import DEPTH_MAX, EVENT_BYTES_MAX
from cellule.values.cbor import encode
from tests.support.kernel_world import Did, FunctionPrograms


def placed(order: str, total: int = 1) -> EventItem:
    return EventItem("shop/Placed@1", encode({"order": order, "total": total}))


def ping(to: str, left: int = 0) -> EventItem:
    return EventItem("shop/Ping@1", encode({"to": to, "left": left}))


def test_an_event_reaches_every_subscriber_in_manifest_order(world):
    beat = world.beat([placed("o1", 5)])
    assert [(step.module, step.key) for step in beat.steps] == [("shop/Order", b"o1"), ("shop/Stats", b"")]
    assert world.state("shop/Order", b"o1") == {"total": 5, "paid": False, "seen": 1}
    assert world.state("shop/Stats") == {"placed": 1, "failures": 0}


def test_heights_are_contiguous_and_frames_chained(world):
    first = world.beat([placed("o1")])
    second = world.beat([placed("o2"), placed("o3")])
    assert second.first == first.last + 1
    assert decode_frame(second.frame).header.prev == first.cid.digest
    records = decode_frame(second.frame).records
    assert second.last - second.first + 1 == len(records)


def test_what_a_step_emits_is_recorded_now_and_delivered_in_the_next_beat(world):
    beat = world.beat([ping("a", left=1)])
    kinds = [type(record) for record in decode_frame(beat.frame).records]
    assert kinds == [EventRecord, StepRecord, EmittedRecord]
    assert world.state("shop/Pinger", b"ax") is None
    assert beat.more
    following = world.beat()
    assert world.state("shop/Pinger", b"ax") == {"count": 1}
    assert following.steps[0].cause == beat.last
    assert not following.more


def test_a_beat_without_work_writes_no_frame_and_changes_nothing(world):
    before = world.snapshot()
    beat = world.beat()
    assert beat.frame is None
    assert world.snapshot() == before


def test_quota_one_is_one_step_a_beat(make_world):
    world = make_world(pace=Pace(quota=1, burst=64))
    beats = [world.beat([ping("a"), ping("b"), ping("a")]), *world.settle()]
    steps = [[step.key for step in beat.steps] for beat in beats if beat.frame]
    assert steps == [[b"a"], [b"b"], [b"a"]]


def test_rounds_are_fair_and_burst_bounds_them(make_world):
    world = make_world(pace=Pace(quota=100, burst=2))
    beat = world.beat([ping("a"), ping("a"), ping("a"), ping("b")])
    assert [step.key for step in beat.steps] == [b"a", b"b", b"a"]
    assert beat.more
    assert [step.key for step in world.beat().steps] == [b"a"]


def test_a_cell_with_ten_thousand_messages_cannot_starve_another(make_world):
    world = make_world(pace=Pace(quota=50, burst=8))
    world.beat([ping("busy")] * 10_000)
    beat = world.beat([ping("quiet")])
    assert b"quiet" in [step.key for step in beat.steps][:2]


def test_time_never_goes_back(world):
    world.send("shop/Paid@1", {"order": "o1"})
    late = world.now_ns
    world.now_ns -= 5_000_000_000
    beat = world.send("shop/Paid@1", {"order": "o1"})
    assert decode_frame(beat.frame).header.now_ns == late


def test_a_full_frame_leaves_the_rest_for_the_next_beat(world):
    big = EventItem("shop/Failed@1", encode({"order": "o1", "why": "x" * 900_000}))
    items = [big, big, big, placed("late")]
    beat = world.beat(items)
    assert [type(outcome) for outcome in beat.outcomes] == [Admitted, Admitted, Later, Later]
    assert beat.more
    rest = world.beat(items[2:])
    assert [type(outcome) for outcome in rest.outcomes] == [Admitted, Admitted]


def test_a_flood_of_large_events_leaves_room_for_steps(world):
    """A beat whose frame was filled by admission alone took no step, so a steady flood starved all cells."""
    beat = world.beat([placed(f"{at:0500d}") for at in range(5_000)])
    assert isinstance(beat.outcomes[-1], Later)
    assert len(beat.steps) > 1_000
    huge = EventItem("shop/Failed@1", encode({"order": "o1", "why": "x" * 990_000}))
    assert world.beat([huge, huge, huge]).steps


def test_a_too_large_event_is_refused_without_a_record(world):
    item = EventItem("shop/Failed@1", encode({"order": "o1", "why": "x" * EVENT_BYTES_MAX}))
    beat = world.beat([item])
    assert beat.frame is None
    assert isinstance(beat.outcomes[0], RefusedItem)
    assert beat.outcomes[0].error.code == "kernel.event_size"


def test_an_event_of_the_longest_size_is_taken(world):
    def sized(length):
        return encode({"order": "o1", "why": "x" * length})

    value = sized(EVENT_BYTES_MAX - (len(sized(EVENT_BYTES_MAX)) - EVENT_BYTES_MAX))
    assert len(value) == EVENT_BYTES_MAX
    assert isinstance(
        world.beat([EventItem("shop/Failed@1", value, id="i", explicit=True)]).outcomes[0], Admitted
    )


def test_an_endless_cascade_is_stopped_and_told(make_world, shop):
    def forever(state, schema, event, ctx):
        return Did({"count": 1}, emit=[("shop/Ping@1", {"to": "a", "left": 0})])

    world = make_world(programs=FunctionPrograms({"shop/Pinger": forever}))
    world.send("shop/Ping@1", {"to": "a", "left": 0})
    world.settle()
    last = decode_frame(world.frames[-1])
    assert last.records[-1].schema == "sys/CascadeStopped@1"
    assert world.entry("shop/Pinger", b"a").version == DEPTH_MAX + 1


def test_a_module_that_answers_a_stopped_cascade_by_emitting_cannot_go_on_for_ever(
    make_world, shop, monkeypatch
):
    monkeypatch.setattr("cellule.kernel.decide.steps.DEPTH_MAX", 3)
    document = shop()
    document["modules"]["shop/Pinger@1"]["event"] = ["shop/Ping@1"]
    document["modules"]["shop/Stats@1"]["event"] = ["sys/CascadeStopped@1"]
    subscriptions = document["routing"]["subscriptions"]
    document["routing"]["subscriptions"] = [
        *(row for row in subscriptions if row["module"] != "shop/Stats@1"),
        {"event": "sys/CascadeStopped@1", "module": "shop/Stats@1"},
    ]

    def stubborn(state, schema, event, ctx):
        count = (state or {"placed": 0, "failures": 0})["placed"] + 1
        ping = ("shop/Ping@1", {"to": f"again{count}", "left": 100})
        return Did({"placed": count, "failures": 0}, emit=[ping])

    world = make_world(document, FunctionPrograms({"shop/Stats": stubborn}))
    world.send("shop/Ping@1", {"to": "p", "left": 100})
    assert len(world.settle()) < 20
    assert world.state("shop/Stats") == {"placed": 1, "failures": 0}


def test_a_beat_that_does_nothing_leaves_what_is_on_its_way_to_a_stopped_cell(world):
    """Its queue was empty, and it stands in no ring: there is nothing to take out of one."""
    world.send("shop/Ping@1", {"to": "ax", "left": 0})
    world.control("cell.halt", module="shop/Pinger", key=b"ax")
    world.send("shop/Ping@1", {"to": "a", "left": 1})
    assert world.beat().frame is None
    assert world.beat().frame is None
    world.control("cell.resume", module="shop/Pinger", key=b"ax")
    world.settle()
    assert world.state("shop/Pinger", b"ax") == {"count": 2}


def test_entropy_and_height_of_a_step_come_from_the_journal(make_world, shop):
    seen = []

    def look(state, schema, event, ctx):
        seen.append((ctx.journal_height, ctx.entropy, ctx.now_ns, ctx.version, ctx.era, ctx.beat))
        return {"total": 0, "paid": False, "seen": 0}

    world = make_world(programs=FunctionPrograms({"shop/Order": look}))
    beat = world.send("shop/Paid@1", {"order": "o1"})
    assert seen[0][0] == beat.steps[0].height
    assert len(seen[0][1]) == 32
    world.send("shop/Paid@1", {"order": "o1"})
    assert seen[0][1] != seen[1][1]
    assert [row[3] for row in seen] == [0, 1]
    live = list(seen)
    seen.clear()
    world.verify()
    assert seen == live


def test_a_beat_leaves_nothing_that_only_a_garbage_collection_would_free(world):
    """The records of every beat stood in a circle: collections took a tenth of a busy world's time."""
    world.beat([placed(f"o{number}") for number in range(50)])
    gc.collect()
    gc.disable()
    try:
        for number in range(20):
            world.beat([placed(f"o{each}") for each in range(50)] + [ping("a", left=number)])
        left = [each for each in gc.get_objects() if type(each) in (BeatContext, FrameWriter)]
    finally:
        gc.enable()
    assert len(left) <= 2  # those of the last beat
