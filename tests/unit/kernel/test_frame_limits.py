"""Whatever enters a frame obeys its limits, and goes on in the next beat: a frame always fits a commit."""

from __future__ import annotations

from typing import Any

import pytest

from cellule.kernel.items import LATER, Admitted, ControlItem, EventItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import ControlRecord, EventRecord, StepRecord
from cellule.kernel.limits import FRAME_BYTES_ADMIT, FRAME_BYTES_CLOSE, FRAME_BYTES_MAX
from cellule.kernel.program import StepFault
from cellule.values.cbor import encode
from tests.support.kernel_world import START_NS, Did, FunctionPrograms

MINUTE = 60_000_000_000
SCHEMAS: dict[str, Any] = {
    "a/Big@1": {"record": {"to": {"text": {}}, "pad": {"text": {}}}},
    "a/Fail@1": {"record": {"to": {"text": {}}}},
    "a/Box@1": {"record": {"count": {"int": {}}, "pad": {"text": {}}}},
    "a/Box@2": {"record": {"count": {"int": {}}, "pad": {"text": {}}, "moved": {"bool": {}}}},
}


def box(state: Any, schema: str, event: Any, _ctx: Any) -> Any:
    if schema == "a/Fail@1":
        raise StepFault("test.fault", "told to fail")
    return Did({**(state or {}), "count": (state or {"count": 0})["count"] + 1, "pad": event["pad"]})


def moved(state: Any) -> Any:
    return {**state, "moved": True}


PROGRAMS = FunctionPrograms({"a/Box": box}, {("a/Box@1", "a/Box@2"): moved})


def document(state: str = "a/Box@1", *, upcaster: bool = False, **sections: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "schemas": SCHEMAS,
        "modules": {
            "a/Box@1": {
                "kind": "pure", "state": state, "key": {"text": {}}, "event": ["a/Big@1", "a/Fail@1"],
                "upgrade": "follow",
            }
        },
        "routing": {"subscriptions": [
            {"event": event, "module": "a/Box@1", "key_field": "to"} for event in ("a/Big@1", "a/Fail@1")
        ]},
        **sections,
    }  # fmt: skip
    if upcaster:
        made["upcasters"] = [{"from": "a/Box@1", "to": "a/Box@2"}]
    return made


def sizes(world):
    return [len(frame) for frame in world.frames]


def test_a_backfill_of_long_events_goes_on_in_the_next_beats(make_world):
    """A thousand missed events of 9 kB made one frame of 9 MB, which no store took, at every beat."""
    value = encode({"to": "s", "pad": "x" * 90_000})
    start = START_NS - START_NS % MINUTE
    schedule = {
        "every_ns": MINUTE, "start_ns": start, "event": "a/Big@1", "value": value, "catch_up": "backfill",
        "limit": 100,
    }  # fmt: skip
    world = make_world(document(schedules={"big": schedule}), PROGRAMS)
    world.now_ns += 300 * MINUTE
    world.advance(0)
    assert max(sizes(world)) <= FRAME_BYTES_ADMIT + 2 * len(value)
    sent = [
        record.id for frame in world.frames for _, record in decode_frame(frame).of(EventRecord) if record.id
    ]
    assert len(sent) == len(set(sent)) == 100
    assert sent == sorted(sent)
    assert world.state("a/Box", b"s")["count"] == 100
    world.advance(MINUTE)
    assert world.state("a/Box", b"s")["count"] == 101


def test_many_schedules_that_are_due_together_share_their_frames(make_world):
    start = START_NS - START_NS % MINUTE
    schedules = {
        f"s{number}": {
            "every_ns": MINUTE, "start_ns": start, "event": "a/Big@1",
            "value": encode({"to": f"c{number}", "pad": "x" * 90_000}),
        }
        for number in range(60)
    }  # fmt: skip
    world = make_world(document(schedules=schedules), PROGRAMS)
    world.advance(MINUTE)
    assert max(sizes(world)) <= FRAME_BYTES_CLOSE
    assert [world.state("a/Box", f"c{number}".encode())["count"] for number in range(60)] == [1] * 60


def stop_many(world, count, pad, key="c{}"):
    names = [key.format(number) for number in range(count)]
    for start in range(0, count, 100):
        some = names[start : start + 100]
        world.beat([EventItem("a/Big@1", encode({"to": name, "pad": pad})) for name in some])
        world.settle()
        world.beat([EventItem("a/Fail@1", encode({"to": name})) for name in some])
        world.settle()
    return names


def all_of(world, verb):
    """Do a verb on many cells until it says that there are no more, as a host does."""
    cells, first, arguments = [], None, {}
    while True:
        beat = world.control(verb, **arguments)
        assert isinstance(beat.outcomes[0], Admitted)
        height = beat.outcomes[0].height
        record = decode_frame(beat.frame).expect(height, ControlRecord)
        cells += [key for _, key in record.arguments["cells"]]
        first = first or height
        arguments = {"until": first}
        if not record.arguments.get("more"):
            return cells


def test_a_bulk_resume_of_cells_with_long_keys_obeys_the_frame(make_world):
    world = make_world(document(), PROGRAMS)
    names = stop_many(world, 3_000, "", key="{:0500d}")
    before = len(world.frames)
    cells = all_of(world, "cell.resume")
    assert sorted(cells) == [name.encode() for name in names]
    assert max(sizes(world)[before:]) < FRAME_BYTES_MAX
    assert len(world.frames) - before > 1


def test_a_bulk_migration_of_long_states_obeys_the_frame(make_world):
    """The states of 2,300 cells of 4 kB were one frame, which no store took; nothing else was admitted."""
    world = make_world(document(), PROGRAMS)
    names = stop_many(world, 600, "x" * 4_000)
    world.deploy(document("a/Box@2"))
    all_of(world, "cell.resume")
    world.settle()
    world.deploy(document("a/Box@2", upcaster=True))
    before = len(world.frames)
    cells = all_of(world, "cell.migrate")
    assert sorted(cells) == sorted(name.encode() for name in names)
    assert max(sizes(world)[before:]) < FRAME_BYTES_CLOSE
    world.settle()
    assert world.state("a/Box", b"c599")["moved"] is True


def test_a_module_is_resumed_although_many_others_stopped_before(make_world):
    """Only the first 10,000 stopped cells were looked at, whatever the module."""
    world = make_world(document(), PROGRAMS)
    stop_many(world, 5, "")
    beat = world.control("cell.resume", module="a/Box")
    height = beat.outcomes[0].height
    assert len(decode_frame(beat.frame).expect(height, ControlRecord).arguments["cells"]) == 5


@pytest.mark.parametrize("until", ["7", -1, True, 1 << 70])
def test_a_bulk_verb_refuses_a_height_that_is_none(make_world, until):
    world = make_world(document(), PROGRAMS)
    assert world.control("cell.resume", until=until).outcomes[0].error.code == "kernel.argument"


def noted(state: Any, _schema: str, event: Any, _ctx: Any) -> Any:
    note, reply = map(int, event["pad"].split())
    return Did({"count": 1, "pad": ""}, ann="n" * note, reply="r" * reply if reply else None)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(("note", "reply"), [(4_000, 0), (10, 9_000)])
def test_notes_and_replies_close_a_frame(make_world, fast, note, reply):
    """They were counted for nothing: 2,000 steps with notes of 4 kB made a frame of 8 MB."""
    world = make_world(document(), FunctionPrograms({"a/Box": noted}), fast=fast)
    values = [encode({"to": f"c{number}", "pad": f"{note} {reply}"}) for number in range(1_500)]
    left: Any = [("a/Big@1", value, None) for value in values]
    while left:
        outcomes = world.beat(left).outcomes
        left = [item for item, outcome in zip(left, outcomes, strict=False) if outcome is LATER]
    world.settle()
    assert max(sizes(world)) < FRAME_BYTES_CLOSE + 100_000
    steps = [record for frame in world.frames for _, record in decode_frame(frame).of(StepRecord)]
    assert len(steps) == 1_500
    world.assert_replays()


def test_ids_and_correlations_close_a_frame(make_world):
    world = make_world(document(), PROGRAMS)
    items = [
        EventItem(
            "a/Fail@1", encode({"to": "c"}), id=f"{number:0990}", correlation="\N{GRINNING FACE}" * 1_000
        )
        for number in range(2_000)
    ]
    outcomes = world.beat(items).outcomes
    assert LATER in outcomes
    assert max(sizes(world)) < FRAME_BYTES_ADMIT + 10_000


def test_long_controls_close_a_frame_and_one_that_is_too_long_is_refused(make_world):
    world = make_world(document(), PROGRAMS)
    long = [ControlItem("pause", "ada", "why", {"note": "x" * 400_000}) for _ in range(20)]
    outcomes = world.beat(long).outcomes
    assert outcomes[3:] == [LATER] * 17
    refused = world.beat([ControlItem("resume", "ada", "why", {"note": "x" * 1_600_000})]).outcomes[0]
    assert (refused.error.code, world.world.ledger.paused) == ("kernel.argument", True)
    world.assert_replays()


def test_events_that_go_to_too_many_long_keys_fail_their_step(make_world):
    """1,000 events to 40 modules by a key of 450 bytes: 19 MB of targets in one frame."""
    names = [f"r{number}" for number in range(10)]
    made: dict[str, Any] = document()
    made["modules"] |= {
        f"a/{name}@1": {"kind": "pure", "state": "a/Box@1", "key": {"text": {}}, "event": ["a/Fail@1"]}
        for name in names
    }
    made["routing"]["subscriptions"] += [
        {"event": "a/Fail@1", "module": f"a/{name}@1", "key_field": "to"} for name in names
    ]

    def step(state: Any, schema: str, event: Any, _ctx: Any) -> Any:
        count = int(event["pad"]) if schema == "a/Big@1" else 0
        return Did({"count": 1, "pad": ""}, [("a/Fail@1", {"to": f"{n:0450}"}) for n in range(count)])

    programs = FunctionPrograms({f"a/{name}": step for name in ("Box", *names)})
    world = make_world(made, programs)
    world.send("a/Big@1", {"to": "x", "pad": "1000"})
    assert world.entry("a/Box", b"x").get("code") == "kernel.output_size"
    world.send("a/Big@1", {"to": "y", "pad": "100"})
    world.settle()
    assert world.state("a/r9", b"0" * 449 + b"7")["count"] == 1
    world.assert_replays()
