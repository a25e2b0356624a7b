"""A map that becomes cells over many beats: what arrives meanwhile, what waits, crashes between any two."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from cellule.errors import Corrupted
from cellule.kernel.decide import spills
from cellule.kernel.items import ControlItem, RefusedItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import ControlRecord, StepRecord
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.need import Nodes
from cellule.kernel.program import StepFault
from cellule.kernel.state.wait_reasons import reasons_in
from cellule.values import Link, decode
from tests.support.frames import encode_records
from tests.support.kernel_world import FunctionPrograms, KernelWorld, drive
from tests.support.stuck import find_waiting
from tests.unit.kernel.test_spills import PROGRAMS, SECOND, edition, order, paid, spill, totals

NAMES = ("a", "b", "c", "d", "e")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two entries and two messages a beat."""
    monkeypatch.setattr(spills, "SPILL_CELLS_PER_BEAT", 2)
    monkeypatch.setattr(spills, "SPILL_MESSAGES_PER_BEAT", 2)


@pytest.fixture
def world(make_world: Any, small: None) -> KernelWorld:
    """Five entries, each with its place as the total."""
    made: KernelWorld = make_world(edition(), PROGRAMS)
    made.beat([paid(name, at) for at, name in enumerate(NAMES, 1)])
    return made


def moved(world: KernelWorld) -> list[bytes]:
    """The keys that became cells in the newest frame."""
    frame = decode_frame(world.frames[-1])
    return [step.key for _, step in frame.of(StepRecord) if "control" in step.extras]


def test_each_beat_moves_as_many_entries_as_it_may_and_the_last_ends_the_map(world):
    spill(world)
    found = [moved(world)]
    while world.world.ledger.moves:
        assert world.beat().more or not world.world.ledger.moves
        found.append(moved(world))
    assert found == [[b"a", b"b"], [b"c", b"d"], [b"e", b""]]
    assert totals(world, *NAMES, "") == [*({"total": at} for at in (1, 2, 3, 4, 5)), None]


def test_events_wait_in_their_cells_and_run_in_their_order_when_all_are_moved(world):
    spill(world)
    assert not world.beat([paid("a", 10), paid("e", 20), paid("new", 30), paid("e", 40)]).steps
    ended = world.beat([paid("a", 9)])
    assert [step.key for step in ended.steps] == [b"a", b"e", b"new", b"a", b"e"]
    assert totals(world, "a", "e", "new") == [{"total": 20}, {"total": 65}, {"total": 30}]


def test_what_waits_for_the_map_runs_before_what_was_sent_since(make_world, small):
    seen: list[int] = []

    def noted(state: Any, schema: str, value: Any, context: Any) -> Any:
        seen.append(value["total"])
        return order(state, schema, value, context)

    world = make_world(edition(), FunctionPrograms({"shop/Order": noted}))
    world.same_code = False
    world.beat([paid("a", 1), paid("b", 2)])
    world.control("pause")
    world.beat([paid("a", 30), paid("b", 40), paid("a", 31), paid("a", 32), paid("b", 41)])
    spill(world)
    world.beat([paid("a", 50)])
    world.beat([paid("b", 60), paid("a", 51)])
    seen.clear()
    world.control("resume")
    world.settle()
    assert [each for each in seen if each in (30, 31, 32, 50, 51)] == [30, 31, 32, 50, 51]
    assert [each for each in seen if each in (40, 41, 60)] == [40, 41, 60]
    lists = [
        record.arguments["queue"]
        for data in world.frames for _, record in decode_frame(data).of(ControlRecord) if record.cause
    ]  # fmt: skip
    assert [[key for _, _, key in rows] for rows in lists] == [[b"b", b"a"], [b"a", b"b"], [b"a"]]


def test_a_cell_at_rest_keeps_what_it_is_handed(make_world, small):
    """Nothing else happens to it in that beat: it would leave memory as it came."""
    world = make_world(edition(), PROGRAMS)
    world.beat([paid("a", 1), paid("b", 2)])
    world.control("pause")
    world.beat([paid("a", 10) for _ in range(6)])
    spill(world)
    world.beat([paid("a", 100)])
    world.beat()
    assert len(world.entry("shop/Order", b"a").get("queue")) == 7
    world.control("resume")
    world.settle()
    assert totals(world, "a") == [{"total": 161}]


def test_a_restart_after_any_frame_goes_on_where_it_ended(world):
    world.beat([paid("a", 9)])
    world.control("pause")
    world.beat([paid("b", 20), paid("e", 30), paid("new", 40)])
    start = len(world.frames)
    spill(world)
    world.settle()
    world.control("resume")
    world.settle()
    expected = totals(world, *NAMES, "new", "")
    for count in range(start, len(world.frames) + 1):
        again = copy(world)
        again.frames, again.snapshots = world.frames[:count], world.snapshots[:1]
        again.world = again.restored()
        if count == start:
            spill(again)
        again.settle()
        again.control("resume")
        again.settle()
        assert totals(again, *NAMES, "new", "") == expected
        again.assert_replays()


def test_a_fork_in_the_middle_goes_on_moving(world):
    spill(world)
    child = world.fork(77)
    child.beat([paid("e", 10)])
    for each in (child, world):
        each.settle()
        each.assert_replays()
    assert totals(child, "d", "e", "") == [{"total": 4}, {"total": 15}, None]
    assert totals(world, "d", "e", "") == [{"total": 4}, {"total": 5}, None]


def test_a_snapshot_in_the_middle_holds_what_is_left_to_move(world):
    spill(world)
    root = world.snapshot()
    saved = decode(world.cas[root])
    assert saved["moves"][1] == 1
    world.beat([paid("e", 1)])
    world.assert_replays()
    world.settle()
    assert totals(world, "e") == [{"total": 6}]
    assert "moves" not in decode(world.cas[world.snapshot()])


def test_receipts_that_come_meanwhile_reach_the_cells_of_their_entries(world):
    world.beat([paid("e", 9), paid("a", 9)])
    spill(world)
    world.advance(2 * SECOND)
    assert totals(world, "a", "e") == [{"total": 1_010}, {"total": 1_014}]


def test_a_world_that_is_paused_moves_all_and_runs_nothing(world):
    world.control("pause")
    spill(world)
    world.beat([paid("a", 10)])
    world.settle()
    assert not world.world.ledger.moves
    assert totals(world, "a", "e") == [{"total": 1}, {"total": 5}]
    world.control("resume")
    world.settle()
    assert totals(world, "a") == [{"total": 11}]


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("cell.delete", {"module": "shop/Order", "key": b"a"}),
        ("cell.migrate", {"module": "shop/Order", "key": b"a"}),
        ("deploy", {}),
        ("cell.spill", {}),
    ],
)
def test_what_would_disturb_the_move_is_refused_and_works_afterwards(world, verb, arguments):
    spill(world)
    if not arguments:
        loaded = load_manifest(edition(whole=False, failure="skip"))
        world.cas[loaded.cid] = loaded.data
        arguments = {"manifest": Link(loaded.cid)}
    (outcome,) = world.control(verb, **arguments).outcomes
    assert isinstance(outcome, RefusedItem)
    assert outcome.error.code == "kernel.map_moving"
    world.settle()
    (outcome,) = world.control(verb, **arguments).outcomes
    assert not isinstance(outcome, RefusedItem) or outcome.error.code == "kernel.nothing_to_spill"


def test_a_migration_of_all_cells_leaves_the_map_alone(world):
    spill(world)
    (outcome,) = world.control("cell.migrate", all=True).outcomes
    assert not isinstance(outcome, RefusedItem)
    world.settle()
    assert totals(world, *NAMES) == [{"total": at} for at in (1, 2, 3, 4, 5)]


def test_a_cell_without_its_entry_yet_may_be_halted_and_keeps_its_events(make_world, small):
    world = make_world(edition(), PROGRAMS)
    world.beat([paid(name, at) for at, name in enumerate(NAMES, 1)])
    loaded = load_manifest(edition(whole=False))
    world.cas[loaded.cid] = loaded.data
    move = ControlItem("cell.spill", "ada", "", {"manifest": Link(loaded.cid)})
    halt = ControlItem("cell.halt", "ada", "look first", {"module": "shop/Order", "key": b"e"})
    world.beat([move, paid("e", 10), halt])
    world.settle()
    entry = world.entry("shop/Order", b"e")
    assert (entry.get("status"), entry.version, len(entry.get("queue"))) == ("halted", 1, 1)
    world.control("cell.resume", module="shop/Order", key=b"e")
    world.settle()
    assert totals(world, "e") == [{"total": 15}]


def test_the_time_of_a_map_that_is_over_meanwhile_removes_nothing(make_world, small):
    world = make_world(edition(), PROGRAMS)
    world.beat([paid(name, at) for at, name in enumerate(NAMES, 1)])
    world.now_ns += 100 * SECOND
    spill(world, edition(whole=False, retention={"ttl_ns": 60 * SECOND}))
    world.settle()
    assert totals(world, *NAMES) == [{"total": at} for at in (1, 2, 3, 4, 5)]
    world.advance(61 * SECOND)
    assert totals(world, *NAMES) == [None] * 5


def test_cells_that_wait_say_why(world):
    spill(world)
    world.beat([paid("e", 1)])
    [reason] = drive(
        reasons_in(world.world.ledger, "shop/Order", b"e"), world.world.ledger.nodes, world.fetch
    )
    assert str(reason) == "its map moves: it runs when all entries of the map are cells"
    saved, nodes = decode(world.cas[world.snapshot()]), Nodes(0)
    found = {each.key: each.reason for each in drive(find_waiting(saved, nodes), nodes, world.fetch)}
    assert found[b"e"].what == "its map moves"


def test_code_that_cannot_be_had_delays_the_move_and_nothing_else(world, monkeypatch):
    spill(world)
    state_of = spills._state_of

    def failing(*_: Any) -> Any:
        raise StepFault("kernel.code_unavailable", "the library is gone")
        yield

    monkeypatch.setattr(spills, "_state_of", failing)
    beat = world.beat([paid("a", 1)])
    assert not beat.more
    assert world.world.ledger.moves
    monkeypatch.setattr(spills, "_state_of", state_of)
    world.settle()
    assert totals(world, "a", "e") == [{"total": 2}, {"total": 5}]


def test_a_long_map_takes_many_frames_and_none_is_long(make_world):
    def every(state: Any, schema: str, value: Any, context: Any) -> dict[str, Any]:
        return {f"{number:04d}{'x' * 82}": {"total": number} for number in range(10_000)}

    world = make_world(edition(), FunctionPrograms({"shop/Order": every}))
    world.same_code = False
    world.beat([paid("a", 1)])
    before = len(world.frames)
    assert world.entry("shop/Order").size > 970_000
    assert not isinstance(spill(world, edition(whole=False, retention={"idle_ns": 60 * SECOND})), RefusedItem)
    world.settle()
    assert len(world.frames) - before == 10
    assert max(map(len, world.frames[before:])) < 600_000
    assert world.entry("shop/Order", b"0007" + b"x" * 82).version == 1


# Journals that lie


def _rows(**changes: Any) -> Any:
    def lie(records: list[Any]) -> None:
        at = next(at for at, each in enumerate(records) if isinstance(each, ControlRecord) and each.cause)
        found = records[at]
        records[at] = found._replace(
            cause=changes.pop("cause", found.cause), arguments={**found.arguments, **changes}
        )

    return lie


LIES = {
    "a message that nobody sent": _rows(queue=[["shop/Order", 1, b"a"]]),
    "of another move": _rows(cause=1),
    "of another module": _rows(cells=[["shop/Other", b""]]),
}


@pytest.mark.parametrize("case", LIES)
def test_a_journal_that_lies_about_messages_is_corrupted(make_world, small, case):
    world = make_world(edition(), PROGRAMS)
    world.beat([paid("a", 1)])
    world.control("pause")
    world.beat([paid("a", 2)])
    spill(world)
    frame = decode_frame(world.frames[-1])
    records = list(frame.records)
    LIES[case](records)
    frames = [*world.frames[:-1], encode_records(frame.header, records, frame.names)]
    with pytest.raises(Corrupted, match="not those that wait for the map"):
        world.restored(frames=frames)
