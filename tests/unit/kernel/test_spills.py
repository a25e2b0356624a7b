"""The control `cell.spill`: a whole map becomes cells in one frame, or is refused and stays as it is."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from cellule.errors import Corrupted
from cellule.kernel.items import ControlItem, EventItem, RefusedItem
from cellule.kernel.journal.codes import CONFLICT, HALTED, OK
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import ControlRecord, StepRecord
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.program import StepFault
from cellule.values import Link, encode
from tests.support.frames import encode_records
from tests.support.kernel_world import Did, FunctionPrograms, KernelWorld

SECOND = 1_000_000_000
ORDERS = {"map": {"key": {"text": {}}, "value": {"ref": "shop/Order@1"}}}
CELLS: dict[str, Any] = {
    "schemas": {
        "shop/Paid@1": {"record": {"order": {"text": {}}, "total": {"int": {}}}},
        "shop/Order@1": {"record": {"total": {"int": {}}}},
    },
    "modules": {
        "shop/Order@1": {
            "state": "shop/Order@1", "event": ["shop/Paid@1", "sys/TimerFired@1"], "key": {"text": {}},
            "effects_emitted": ["timer.set"], "context": True,
        }
    },
    "routing": {"subscriptions": [{"event": "shop/Paid@1", "module": "shop/Order@1", "key_field": "order"}]},
}  # fmt: skip


def edition(whole: bool = True, **fields: Any) -> dict[str, Any]:
    """The shop's manifest, with one map of orders or a cell for each."""
    document = copy.deepcopy(CELLS)
    if whole:
        document["schemas"]["shop/Orders@1"] = ORDERS
        document["modules"]["shop/Order@1"].update(state="shop/Orders@1", cell_mode=False)
    document["modules"]["shop/Order@1"].update(fields)
    return document


def unkeyed() -> dict[str, Any]:
    """The orders as one cell that nobody told about keys."""
    document = edition()
    module = document["modules"]["shop/Order@1"]
    del module["cell_mode"], module["key"]
    document["routing"]["subscriptions"] = [{"event": "shop/Paid@1", "module": "shop/Order@1"}]
    return document


def order(state: Any, schema: str, value: Any, context: Any) -> Did:
    """One order, or all of them, by what the context says; a total of 9 sets a timer, of 13 fails."""
    if value.get("total") == 13:
        raise StepFault("shop.unlucky", "13")
    effects = (
        [("timer.set", encode({"after_ns": SECOND, "key": "t"}), None, None)]
        if value.get("total") == 9
        else []
    )
    name = context.key.decode() or value.get("order")
    mine = (state or {}).get(name) if not context.cell_mode or not context.key else state
    total = (mine or {"total": 0})["total"] + value.get("total", 1_000)
    new = {"total": total}
    return Did(new if context.cell_mode and context.key else {**(state or {}), name: new}, effects=effects)


PROGRAMS = FunctionPrograms({"shop/Order": order})


@pytest.fixture
def world_of(make_world):
    def make(document: dict[str, Any] | None = None, **options: Any) -> KernelWorld:
        return make_world(document or edition(), PROGRAMS, **options)

    return make


def paid(order: str, total: int) -> EventItem:
    return EventItem("shop/Paid@1", encode({"order": order, "total": total}))


def spill(world: KernelWorld, document: dict[str, Any] | None = None) -> Any:
    """Do the control; the outcome."""
    loaded = load_manifest(document or edition(whole=False))
    world.cas[loaded.cid] = loaded.data
    (outcome,) = world.control("cell.spill", manifest=Link(loaded.cid)).outcomes
    return outcome


def refused(world: KernelWorld, document: dict[str, Any] | None = None) -> str:
    before = world.world.ledger.height, len(world.world.ledger.eras)
    outcome = spill(world, document)
    assert isinstance(outcome, RefusedItem)
    assert (world.world.ledger.height, len(world.world.ledger.eras)) == before
    assert outcome.error.code == "kernel.cannot_spill"
    return str(outcome.error)


def totals(world: KernelWorld, *orders: str) -> list[Any]:
    return [world.state("shop/Order", name.encode()) for name in orders]


def test_the_frame_has_the_control_the_era_a_step_for_each_entry_and_the_end_of_the_map(world_of):
    world = world_of()
    world.beat([paid("b", 2), paid("a", 1)])
    outcome = spill(world)
    frame = decode_frame(world.frames[-1])
    kinds = [type(record).__name__ for record in frame.records]
    assert kinds == ["ControlRecord", "ManifestRecord", "StepRecord", "StepRecord", "StepRecord"]
    steps = [step for _, step in frame.of(StepRecord)]
    assert [(step.key, step.era, step.version, step.prev) for step in steps] == [
        (b"a", 1, 1, 0), (b"b", 1, 1, 0), (b"", 0 + 1, 3, steps[-1].prev),
    ]  # fmt: skip
    assert {step.extras["control"] for step in steps} == {outcome.height}
    assert totals(world, "a", "b", "") == [{"total": 1}, {"total": 2}, None]


@pytest.mark.parametrize("fast", [True, False])
def test_retention_of_the_cells_begins_with_the_move(world_of, fast):
    world = world_of(fast=fast)
    world.beat([paid("a", 1), paid("b", 2)])
    spill(world, edition(whole=False, retention={"idle_ns": 60 * SECOND}))
    world.advance(30 * SECOND)
    world.beat([paid("b", 2)])
    world.advance(45 * SECOND)
    assert totals(world, "a", "b") == [None, {"total": 4}]


def test_a_state_that_is_long_is_a_block_of_its_own_and_read_again(world_of):
    document = edition()
    long = {"record": {"total": {"int": {}}, "note": {"option": {"text": {}}}}}
    document["schemas"]["shop/Order@1"] = long
    cells = edition(whole=False)
    cells["schemas"]["shop/Order@1"] = long

    world = world_of(document)
    world.world.eras.current.programs["shop/Order"] = _Notes()
    world.same_code = False
    world.beat([paid("a", 1)])
    spill(world, cells)
    entry = world.entry("shop/Order", b"a")
    assert entry is not None
    assert entry.size > 5_000


class _Notes:
    """Answers a map with a long note."""

    is_canonical = True

    def step(self, state: Any, schema: str, value: bytes, key: bytes, context: Any) -> Any:
        from cellule.kernel.program import Output

        return Output(encode({"a": {"total": 1, "note": "x" * 5_000}}))


def test_timers_fire_in_the_cells_of_their_entries_once_each(world_of):
    world = world_of()
    world.beat([paid("a", 9), paid("b", 9)])
    world.beat([paid("a", 9)])
    spill(world)
    world.advance(2 * SECOND)
    assert totals(world, "a", "b") == [{"total": 1_018}, {"total": 1_009}]


@pytest.mark.parametrize("fast", [True, False])
def test_a_receipt_that_waited_for_an_entry_that_is_gone_bears_no_cell(world_of, fast):
    """The short way took it for that of a cell which is not there yet, and ran a step with no state."""

    def removing(state: Any, schema: str, value: Any, context: Any) -> Any:
        did = order(state, schema, value, context)
        return (
            {name: did.state[name] for name in did.state if name != "a"} if value.get("total") == 7 else did
        )

    world = world_of(fast=fast)
    world.programs.steps["shop/Order"] = removing
    world.beat([paid("a", 9), paid("b", 1), paid("b", 13), paid("a", 7), paid("b", 13)])
    world.advance(2 * SECOND)
    world.beat([paid("c", 2)])
    world.control("cell.drop", module="shop/Order", key=b"")
    waiting = [message.schema for message in world.entry("shop/Order").get("queue")]
    assert waiting == ["shop/Paid@1", "sys/TimerFired@1", "shop/Paid@1"]
    world.control("pause")
    spill(world)
    world.control("resume")
    steps = [step for data in world.frames for _, step in decode_frame(data).of(StepRecord)]
    assert [(step.status, step.extras["code"]) for step in steps if step.key == b"a"] == [
        (CONFLICT, "kernel.receipt_outlived")
    ]
    assert totals(world, "a", "b") == [None, {"total": 1}]


def test_the_receipt_of_an_entry_that_is_gone_is_not_for_the_cell_that_is_born_later(world_of):
    def removing(state: Any, schema: str, value: Any, context: Any) -> Any:
        did = order(state, schema, value, context)
        return (
            {name: did.state[name] for name in did.state if name != "a"} if value.get("total") == 7 else did
        )

    world = world_of()
    world.programs.steps["shop/Order"] = removing
    world.beat([paid("a", 9), paid("b", 9)])
    world.beat([EventItem("shop/Paid@1", encode({"order": "a", "total": 7}))])
    spill(world)
    world.programs.steps["shop/Order"] = order
    world.same_code = False
    world.beat([paid("a", 5)])
    world.advance(2 * SECOND)
    assert totals(world, "a", "b") == [{"total": 5}, {"total": 1_009}]


def test_a_message_in_the_very_beat_of_the_move_goes_to_its_cell(world_of):
    world = world_of()
    world.beat([paid("a", 1)])
    loaded = load_manifest(edition(whole=False))
    world.cas[loaded.cid] = loaded.data
    control = ControlItem("cell.spill", "ada", "it grew", {"manifest": Link(loaded.cid)})
    beat = world.beat([paid("a", 5), paid("new", 9), control, paid("a", 7)])
    assert [(step.key, step.status) for step in beat.steps] == [(b"a", OK), (b"new", OK), (b"a", OK)]
    assert totals(world, "a", "new") == [{"total": 13}, {"total": 9}]
    world.advance(2 * SECOND)
    assert totals(world, "new") == [{"total": 1_009}]


def test_what_is_emitted_before_the_move_in_its_beat_reaches_the_cell_in_the_next(world_of):
    world = world_of(edition(failure="skip"))
    world.beat([paid("a", 1), paid("b", 13)])
    (letter,) = (at for at in range(1, 30) if _is_letter(world, at))
    loaded = load_manifest(edition(whole=False, failure="skip"))
    world.cas[loaded.cid] = loaded.data
    again = ControlItem("letter.redrive", "ada", "again", {"letter": letter})
    beat = world.beat([again, ControlItem("cell.spill", "ada", "", {"manifest": Link(loaded.cid)})])
    assert not any(isinstance(each, RefusedItem) for each in beat.outcomes)
    [step] = world.beat().steps
    assert (step.key, step.code) == (b"b", "shop.unlucky")


def test_a_map_that_still_waits_for_a_message_has_handed_over_the_others_for_good(world_of):
    world = world_of(edition(failure="skip"))
    world.beat([paid("a", 1), paid("b", 13)])
    (letter,) = (at for at in range(1, 30) if _is_letter(world, at))
    world.control("pause")
    world.beat([paid("a", 20)])
    loaded = load_manifest(edition(whole=False, failure="skip"))
    world.cas[loaded.cid] = loaded.data
    again = ControlItem("letter.redrive", "ada", "again", {"letter": letter})
    world.beat([again, ControlItem("cell.spill", "ada", "", {"manifest": Link(loaded.cid)})])
    assert "shop/Order" in world.world.ledger.moves
    world.control("resume")
    world.settle()
    assert totals(world, "a") == [{"total": 21}]


def test_a_map_that_has_only_messages_yet_hands_them_over_and_ends(world_of):
    world = world_of()
    world.control("pause")
    world.beat([paid("a", 1), paid("b", 2)])
    spill(world)
    frame = decode_frame(world.frames[-1])
    [end] = [step for _, step in frame.of(StepRecord)]
    assert (end.key, end.version, end.born, end.prev) == (b"", 0, 0, 0)
    world.control("resume")
    assert totals(world, "a", "b", "") == [{"total": 1}, {"total": 2}, None]


def test_an_expected_version_is_of_the_map_and_meets_another_in_the_cell(world_of):
    world = world_of()
    world.beat([paid("a", 1)])
    world.control("pause")
    world.beat([EventItem("shop/Paid@1", encode({"order": "a", "total": 5}), expected_version=1)])
    spill(world)
    world.control("resume")
    world.settle()
    assert totals(world, "a") == [{"total": 6}]


def test_a_stopped_map_goes_on_as_cells_and_only_the_one_stops_again(world_of):
    world = world_of()
    world.beat([paid("a", 1), paid("b", 2)])
    world.beat([paid("b", 13), paid("a", 5)])
    assert world.entry("shop/Order").get("status") == "halted"
    spill(world)
    steps = [step for beat in world.settle() for step in beat.steps]
    assert totals(world, "a", "b") == [{"total": 6}, {"total": 2}]
    assert world.entry("shop/Order", b"b").get("status") == "halted"
    assert [step.status for step in steps if step.key == b"b"] in ([HALTED], [])


def test_a_cell_that_kept_a_map_by_itself_becomes_cells(world_of):
    world = world_of(unkeyed())
    world.same_code = False
    world.beat([paid("a", 1), paid("b", 2)])
    spill(world)
    assert totals(world, "a", "b", "") == [{"total": 1}, {"total": 2}, None]


# Refused


def test_an_effect_of_no_entry_is_in_the_way(world_of):
    world = world_of(unkeyed())
    world.beat([paid("a", 9)])
    assert "belongs to no entry" in refused(world)


def test_a_message_that_no_route_knows_a_key_of_is_in_the_way(world_of):
    world = world_of(unkeyed())
    world.beat([paid("a", 1)])
    world.control("pause")
    world.beat([paid("a", 1)])
    document = edition(whole=False)
    document["routing"]["subscriptions"] = [
        {"event": "shop/Paid@1", "module": "shop/Order@1", "key_only": True}
    ]
    assert "no route of the manifest says where its key stands" in refused(world, document)


def test_entries_that_are_no_states_of_the_cells_are_in_the_way(world_of):
    world = world_of()
    world.beat([paid("a", 1)])
    second = edition(whole=False)
    second["schemas"]["shop/Order@2"] = {"record": {"total": {"text": {}}}}
    second["modules"]["shop/Order@1"]["state"] = "shop/Order@2"
    assert "no upcaster leads from shop/Order@1 to shop/Order@2" in refused(world, second)


def test_cells_that_would_be_logs_are_in_the_way(world_of):
    world = world_of()
    world.beat([paid("a", 1)])
    assert "would be logs" in refused(world, edition(whole=False, state="log"))


def test_a_manifest_that_moves_nothing_is_refused(world_of):
    world = world_of()
    assert spill(world, edition(failure="skip")).error.code == "kernel.nothing_to_spill"
    assert spill(world).error.code == "kernel.nothing_to_spill"


def test_what_the_map_left_as_a_dead_letter_does_not_come_again(world_of):
    world = world_of(edition(failure="skip"))
    world.beat([paid("a", 1), paid("a", 13)])
    spill(world)
    (letter,) = (at for at in range(1, 30) if _is_letter(world, at))
    (outcome,) = world.control("letter.redrive", letter=letter).outcomes
    assert outcome.error.code == "kernel.letter_of_map"
    (outcome,) = world.control("letter.dismiss", letter=letter).outcomes
    assert not isinstance(outcome, RefusedItem)


def _is_letter(world: KernelWorld, at: int) -> bool:
    frames = [decode_frame(data) for data in world.frames]
    return any(
        height == at and record.status == 3 for frame in frames for height, record in frame.of(StepRecord)
    )


# Journals that lie


def _step(nth: int, **changes: Any) -> Any:
    def lie(records: list[Any]) -> None:
        at = [at for at, record in enumerate(records) if type(record) is StepRecord][nth]
        records[at] = records[at]._replace(**changes)

    return lie


def _arguments(**changes: Any) -> Any:
    def lie(records: list[Any]) -> None:
        control = records[0]
        assert isinstance(control, ControlRecord)
        records[0] = control._replace(arguments={**control.arguments, **changes})

    return lie


LIES = {
    "another map": (_arguments(cells=[["shop/Other", b""]]), "has no map that becomes cells"),
    "a cell as a map": (_arguments(cells=[["shop/Order", b"a"]]), "has no map that becomes cells"),
    "no map": (_arguments(cells=[]), "is not of the cell as it is"),
    "a map twice": (_arguments(cells=[["shop/Order", b""]] * 2), "has no map that becomes cells"),
    "a cell of the era before": (_step(0, era=0), "does not become cells of era 0"),
    "a cell born elsewhere": (_step(0, born=1), "is there already"),
    "a cell twice": (_step(1, key=b"a"), "is there already"),
    "cells in another order": (_step(0, key=b"c"), "not in the order of their keys"),
    "a cell with a past": (_step(0, prev=1), "is there already"),
    "another life of the map": (_step(2, born=1), "does not end the cell that held the map"),
    "an end that is none": (_step(2, status=OK), "does not end the cell that held the map"),
}


@pytest.mark.parametrize("case", LIES)
def test_a_journal_that_lies_about_a_move_is_corrupted(world_of, case):
    lie, what = LIES[case]
    world = world_of()
    world.beat([paid("a", 1), paid("b", 2)])
    spill(world)
    frame = decode_frame(world.frames[-1])
    records = list(frame.records)
    lie(records)
    frames = [*world.frames[:-1], encode_records(frame.header, records, frame.names)]
    with pytest.raises(Corrupted, match=what) as found:
        world.restored(frames=frames)
    assert found.value.code == "kernel.journal_contradicts"
