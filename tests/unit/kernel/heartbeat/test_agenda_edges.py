"""The edges of an agenda's rules: codes of 32 bits, what one impulse may write, and beats without one."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.items import ControlItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.heartbeat_records import AgendaRecord, BindingRecord, SignalRecord, WriteRecord
from cellule.kernel.journal.records import ControlRecord
from cellule.kernel.state.heartbeat_rows import _unpack_how, unpack_impulse
from cellule.values import DEPTH_MAX
from cellule.values.cbor import decode
from cellule.values.envelope import value_of
from tests.support.enzyme_world import EnzymeWorld

ROOM = 30_000
IMPULSE = ["/s", None, [b"\x01"], "", 0, [[1, 2]]]


@pytest.mark.parametrize(
    ("code", "found"),
    [(-(1 << 31), -(1 << 31)), ((1 << 31) - 1, (1 << 31) - 1), (1 << 31, -2), (-(1 << 31) - 1, -2)],
)
def test_a_return_code_has_32_bits(code, found):
    world = EnzymeWorld({"x": lambda call, tree: code})
    world.register("x")
    world.signal("/s")
    world.tick()
    world.tick()
    assert world.agenda() == [(0, found, True, "/s", None)]
    world.assert_replays()


def test_what_all_enzymes_of_one_impulse_write_has_one_limit():
    def long(name):
        return lambda call, tree: (0, [{"do": "write", "path": f"/{name}", "value": "x" * 600_000}])

    world = EnzymeWorld({name: long(name) for name in "ab"})
    world.register("a")
    world.register("b")
    world.signal("/s")
    world.tick()
    world.tick()
    assert [line[:2] for line in world.agenda()] == [(0, 0), (1, -2)]
    world.assert_replays()


def test_a_paused_world_with_a_heartbeat_writes_nothing_while_nothing_happens():
    world = EnzymeWorld({"x": lambda call, tree: 0})
    world.register("x")
    world.tick()
    world.do("pause")
    world.tick(forced=False)
    assert world.beat([]).frame is None
    world.assert_replays()


@pytest.mark.parametrize(
    "row",
    [
        None, {}, tuple(IMPULSE), IMPULSE[:-1], [*IMPULSE, 1], [None, *IMPULSE[1:]], ["s", *IMPULSE[1:]],
        ["/s", 5, *IMPULSE[2:]], ["/s", None, b"\x01", *IMPULSE[3:]], [*IMPULSE[:3], "odd", 0, []],
        [*IMPULSE[:4], -1, []], [*IMPULSE[:5], {}], [*IMPULSE[:5], ()], [*IMPULSE[:5], [[1]]],
        [*IMPULSE[:5], [[1, -2]]], [*IMPULSE[:5], "ab"],
    ],
)  # fmt: skip
def test_an_impulse_with_one_wrong_field_is_none(row):
    assert unpack_impulse(IMPULSE).signal == "/s"
    with pytest.raises(Corrupted):
        unpack_impulse(row)


def test_a_run_emits_as_many_signals_as_its_entry_says():
    def emits(count):
        return lambda call, tree: (0, [{"do": "signal", "signal": "/t", "target": None}] * count)

    world = EnzymeWorld({"a": emits(2), "b": emits(3)})
    world.register("a", signals=2)
    world.register("b", signals=2)
    world.signal("/s")
    world.tick()
    world.tick()
    assert [line[:2] for line in world.agenda()] == [(0, 0), (1, -2)]
    world.assert_replays()


def test_an_agenda_ends_where_its_frame_is_full_and_goes_on_in_the_next_beat(monkeypatch):
    """What an enzyme drops was counted for nothing: 10,000 signals made a frame of 27 MB, at every beat."""
    monkeypatch.setattr("cellule.kernel.decide.agenda.AGENDA_BYTES_MAX", ROOM)
    monkeypatch.setattr("cellule.kernel.journal.writer.FRAME_BYTES_CLOSE", ROOM)
    world = EnzymeWorld({"a": lambda call, tree: -2, "b": lambda call, tree: 0})
    world.register("a", "/s/**")
    for _ in range(200):
        world.register("b", "/s/**")
    world.tick()
    for number in range(200):
        world.signal(f"/s/{number}")
    world.tick()
    begun = len(world.frames)
    while world.tick(forced=False).more:
        pass
    assert max(map(len, world.frames[begun:])) < ROOM + 2_000
    assert len(world.frames) - begun > 3
    handled = [each for frame in world.frames for _, each in decode_frame(frame).of(AgendaRecord)]
    assert len({each.signal for each in handled if each.signal.startswith("/s/")}) == 200
    world.assert_replays()


def test_an_impulse_that_too_many_send_again_is_fatal_for_the_one_that_is_too_many():
    """Each of them says how often all did so: 1,000 made a frame of 8 MB that no store took."""
    world = EnzymeWorld({"a": lambda call, tree: -1})
    for _ in range(400):
        world.register("a", "/s", retry_limit=1)
    world.signal("/s")
    world.tick()
    world.tick()
    codes = [line[1] for line in world.agenda()]
    assert codes.count(-1) == len(codes) - 1 > 300
    assert codes[-1] == -2
    [record] = world.records(AgendaRecord)
    assert record.extras["failed"][0][1] == "kernel.output_size"
    assert len(world.frames[-1]) < 1_200_000
    world.tick()
    world.assert_replays()


def test_a_deletion_of_very_many_long_paths_is_refused_whoever_asks():
    """The records of 10,000 nodes with long paths were 5.6 MB."""
    deep = "/".join("d" * 60 for _ in range(7))
    world = EnzymeWorld({"x": lambda call, tree: (0, [{"do": "delete", "path": "/a"}])})
    world.register("x")
    for number in range(2_200):
        world.write(f"/a/{deep}/{number}", 1)
        if number % 200 == 199:
            world.tick()
    world.do("tree.delete", path="/a")
    refused = world.tick().outcomes[0]
    assert refused.error.code == "heartbeat.delete_size"
    world.signal("/s")
    world.tick()
    world.tick()
    [record] = world.records(AgendaRecord)
    assert record.extras["failed"][0][1] == "heartbeat.delete_size"


def test_an_entry_that_is_too_long_to_stand_among_others_is_refused():
    """256 of them stand in one chunk of a snapshot: 50 long ones were a chunk that no store takes."""
    world = EnzymeWorld({"x": lambda call, tree: 0})
    world.register("x", before=["n" * 190 for _ in range(200)])
    assert world.tick().outcomes[0].error.code == "heartbeat.enzyme"
    world.register("x", before=["n" * 190 for _ in range(100)])
    world.tick()
    world.assert_replays()


def told(operation, count):
    """A run that tells so often how far an operation is."""
    return [
        {"do": "op", "op": {"do": "state", "operation": operation, "state": "ist:at", "code": number}}
        for number in range(count)
    ]


@pytest.mark.parametrize(("count", "code"), [(200, 0), (3_000, -2)])
def test_a_run_is_charged_for_each_time_that_it_writes_an_operation(count, code):
    """3,000 states of an operation of 3 kB made a frame of 9 MB, and its world was paused for good."""
    world = EnzymeWorld({"x": lambda call, tree: (0, told(operation, count))})
    world.register("x")
    wanted = {"verb": "copy", "target": "/t", "mode": "opm:states"}
    world.items.append(ControlItem("op.start", "ada", "because", wanted))
    world.tick()
    [start] = [each for each in world.records(ControlRecord) if each.verb == "op.start"]
    operation = start.arguments["operation"]
    for number in range(60):
        world.do("op.state", operation=operation, state=f"ist:{number}")
    world.do("op.state", operation=operation, state="ist:at")
    world.tick()
    world.signal("/s")
    world.tick()
    world.tick()
    assert [line[1] for line in world.agenda()] == [code]
    assert len(world.frames[-1]) < 1_200_000
    world.assert_replays()


def test_an_operation_that_a_run_starts_is_charged_too():
    first = {"do": "op", "op": {"do": "start", "verb": "v", "target": "/t", "mode": "opm:states"}}
    world = EnzymeWorld({"x": lambda call, tree: (0, [first, *told(f"{call.beat}-{call.operation}", 40)])})
    world.register("x")
    world.signal("/s")
    world.tick()
    world.tick()
    assert [line[1] for line in world.agenda()] == [0]
    world.assert_replays()


LISTENERS = {
    "t/Ear@1": {"kind": "pure", "state": "sys/Value@1", "event": ["sys/Signal@1"]},
    "t/Many@1": {"kind": "pure", "state": "sys/Value@1", "event": ["sys/Signal@1"], "key": {"text": {}}},
    "t/Deaf@1": {"kind": "pure", "state": "sys/Value@1", "event": ["sys/WorldStarted@1"]},
}


def nested(levels):
    value = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("target", "payloads", "why"),
    [
        ("/cells/t/Ear", [nested(DEPTH_MAX - 1)], None), ("/cells/t/Many/a", [1, 2], None),
        ("/cells/t/Ear", [nested(DEPTH_MAX)], "takes no payload that nests so deep"),
        ("/cells/t/Ear", [1, 2, 3], "has a full queue"), ("/cells/t/Many", [1], "takes no signals"),
        ("/cells/t/Ear/a", [1], "takes no signals"), ("/cells/t/Deaf", [1], "takes no signals"),
        ("/cells/t/None", [1], "takes no signals"),
    ],
)  # fmt: skip
def test_a_cell_takes_a_signal_or_one_warning_says_why_not(monkeypatch, target, payloads, why):
    monkeypatch.setattr("cellule.kernel.state.cells.QUEUE_MESSAGES_MAX", 2)
    steps = {name.partition("@")[0]: lambda state, schema, event, ctx: 1 for name in LISTENERS}
    world = EnzymeWorld({}, document={"modules": LISTENERS}, steps=steps)
    for payload in payloads:
        world.signal(None, target, payload=payload)
    world.tick()
    taken = world.tick().steps
    told = [decode(value_of(each.extras["payload"])) for each in world.records(SignalRecord)]
    assert [(each["code"], each["text"], each["target"]) for each in told] == (
        [] if why is None else [("heartbeat.cell_refuses", f"cell {target} {why}", target)]
    )
    assert len(taken) == len(payloads) - len(told)
    assert [each.depth for each in world.records(SignalRecord)] == [1] * len(told)
    world.assert_replays()


def test_a_node_takes_as_many_bindings_as_it_may_and_those_it_has_can_change(monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.heartbeat_controls.BINDINGS_PER_NODE_MAX", 2)
    world = EnzymeWorld({"x": lambda call, tree: 0})
    for name in ("a", "b", "c"):
        world.bind("/n", name)
    world.bind("/n", "a", propagate=True)
    outcomes = world.tick().outcomes[:4]
    assert [getattr(each, "error", None) and each.error.code for each in outcomes] == [
        None, None, "heartbeat.bindings_full", None,
    ]  # fmt: skip
    assert [(each.path, each.name) for each in world.records(BindingRecord)] == [
        ("/n", "a"), ("/n", "b"), ("/n", "a"),
    ]  # fmt: skip
    world.assert_replays()


def test_nodes_above_what_a_run_writes_are_charged_once():
    """A hundred leaves below one deep node were charged as a hundred deep nodes."""

    def deep(call, tree):
        return 0, [{"do": "write", "path": "/d" * 120 + f"/{number}", "value": 1} for number in range(500)]

    world = EnzymeWorld({"deep": deep})
    world.register("deep")
    world.signal("/s")
    world.tick()
    world.tick()
    assert world.agenda() == [(0, 0, True, "/s", None)]
    assert len(world.records(WriteRecord)) == 120 + 500
    world.assert_replays()


@pytest.mark.parametrize("how", [3, -1, True, "1", None])
def test_a_binding_of_no_kind_is_damage(how):
    assert _unpack_how(2) == 2
    with pytest.raises(Corrupted):
        _unpack_how(how)
