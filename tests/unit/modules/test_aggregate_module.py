"""Aggregate modules: declared as data, run by the kernel, told as typed records."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from cellule.errors import Rejected
from cellule.kernel.items import EventItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import EmittedRecord, StepRecord
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.need import Nodes, drive
from cellule.kernel.programs import ProgramKinds, load_all
from cellule.modules.aggregate import AggregateKind
from cellule.modules.kinds import CodeKinds
from cellule.values import Link, cid_of, decode, encode
from tests.support.kernel_world import START_NS, KernelWorld

TEXT: dict[str, Any] = {"text": {}}
HOUR = 3_600_000_000_000
BASE = START_NS // HOUR * HOUR
CODE: dict[str, Any] = {
    "kind": "aggregate",
    "measures": {
        "orders": "count", "coupons": "count(coupon)", "revenue": "sum(amount)", "average": "avg(amount)",
        "least": "min(amount)", "latest": "max(sold_at)", "customers": "distinct(customer)",
        "pieces": "sum(pieces)",
    },
    "window": {"size_ns": HOUR, "time": "sold_at", "grace_ns": HOUR // 2},
    "closes": ["shop/DayEnded@1"],
    "fails": ["shop/DayBroken@1"],
}  # fmt: skip


def document(code: dict[str, Any] = CODE, **module: Any) -> dict[str, Any]:
    """A manifest with one aggregate of sales, by shop."""
    item = {
        "shop": TEXT, "amount": {"dec": {}}, "pieces": {"int": {}}, "customer": TEXT, "sold_at": {"time": {}},
        "coupon": {"option": TEXT}, "weight": {"float": {}},
    }  # fmt: skip
    entry = {
        "style": "aggregate", "state": "sys/Aggregate@1", "context": True, "code": code,
        "event": ["shop/Sold@1", "shop/DayEnded@1", "shop/DayBroken@1", "sys/TimerFired@1"],
        "effects_emitted": ["timer.set"], **module,
    }  # fmt: skip
    return {
        "schemas": {
            "shop/Sold@1": {"record": item},
            "shop/DayEnded@1": {"record": {"shop": TEXT}},
            "shop/DayBroken@1": {"record": {"shop": TEXT}},
        },
        "modules": {"shop/sales@1": entry},
        "routing": {
            "subscriptions": [
                {"event": event, "module": "shop/sales@1", "key_field": "shop"}
                for event in ("shop/Sold@1", "shop/DayEnded@1", "shop/DayBroken@1")
            ]
        },
    }


def coded(**changes: Any) -> dict[str, Any]:
    """The code with other fields; None leaves one out."""
    return {name: value for name, value in {**CODE, **changes}.items() if value is not None}


def world_of(code: dict[str, Any] = CODE, **options: Any) -> KernelWorld:
    return KernelWorld(document(code), ProgramKinds(AggregateKind()), **options)


def sold(at: int = 0, amount: str = "1.5", shop: str = "a", **more: Any) -> dict[str, Any]:
    return {
        "shop": shop, "amount": amount, "pieces": 1, "customer": "ada", "sold_at": BASE + at, "weight": 0.5,
        **more,
    }  # fmt: skip


def told(world: KernelWorld) -> list[tuple[str, Any]]:
    """All emitted events of the journal: local name and value."""
    return [
        (record.schema.partition("/")[2], decode(record.value[0]))
        for frame in world.frames
        for record in decode_frame(frame).records
        if isinstance(record, EmittedRecord)
    ]


def refusals(world: KernelWorld) -> list[str]:
    return [
        record.extras["code"]
        for frame in world.frames
        for record in decode_frame(frame).records
        if isinstance(record, StepRecord) and "code" in record.extras
    ]


def window(world: KernelWorld, shop: bytes = b"a", at: int = 0) -> Any:
    return world.state("shop/sales", shop)["windows"][at]


def test_every_measure_of_a_window():
    world = world_of()
    world.send("shop/Sold@1", sold(1, "0.1"))
    world.send("shop/Sold@1", sold(2, "0.2", customer="bob", coupon="x", pieces=-4))
    world.send("shop/Sold@1", sold(3, "0.3"))
    assert window(world)["results"] == {
        "orders": 3, "coupons": 1, "revenue": "0.6", "average": "0.2", "least": "0.1", "latest": BASE + 3,
        "customers": 2, "pieces": -2,
    }  # fmt: skip
    world.assert_replays()


def test_a_window_is_told_from_its_first_item_to_its_results():
    world = world_of(coded(batch=2))
    for at in range(3):
        world.send("shop/Sold@1", sold(at))
    world.now_ns += 5 * HOUR
    world.send("shop/Sold@1", sold(HOUR + HOUR // 2))  # the grace of the first window is over
    assert [name for name, _ in told(world)] == [
        "AggregationStarted@1", "BatchProcessed@1", "AggregationStarted@1", "BatchProcessed@1",
        "AggregationCompleted@1",
    ]  # fmt: skip
    started, first, _, last, completed = [value for _, value in told(world)]
    assert (first["items"], last["items"], last["batch"], last["total_items"]) == (2, 1, 2, 3)
    assert completed["aggregation_id"] == started["aggregation_id"]
    assert len(started["aggregation_id"]) == 16
    assert (completed["total_items"], completed["batches"], completed["duration_ns"]) == (3, 2, 5 * HOUR)
    assert completed["results"]["revenue"] == "4.5"
    assert (completed["namespace"], completed["start_ns"], completed["end_ns"]) == ("a", BASE, BASE + HOUR)
    assert [each["start_ns"] for each in world.state("shop/sales", b"a")["windows"]] == [BASE + HOUR]
    world.assert_replays()


def test_an_item_of_a_window_that_is_over_is_refused_and_changes_nothing():
    world = world_of()
    world.send("shop/Sold@1", sold(2 * HOUR))
    before = world.state("shop/sales", b"a")
    world.send("shop/Sold@1", sold(0))
    assert refusals(world) == ["aggregate.late"]
    assert world.state("shop/sales", b"a") == before
    world.send("shop/Sold@1", sold(HOUR))  # in its grace
    assert [each["start_ns"] - BASE for each in world.state("shop/sales", b"a")["windows"]] == [
        HOUR,
        2 * HOUR,
    ]
    world.assert_replays()


def test_an_item_from_a_clock_that_is_days_ahead_closes_nothing():
    world = world_of()
    world.send("shop/Sold@1", sold(0))
    world.send("shop/Sold@1", sold(48 * HOUR))
    assert refusals(world) == ["aggregate.ahead"]
    assert len(world.state("shop/sales", b"a")["windows"]) == 1
    world.assert_replays()


def test_windows_of_world_time_end_by_a_timer():
    world = world_of(coded(window={"size_ns": HOUR}))
    world.send("shop/Sold@1", sold(-900 * HOUR))
    world.advance(2 * HOUR)
    completed = told(world)[-1]
    assert completed[0] == "AggregationCompleted@1"
    assert completed[1]["end_ns"] == BASE + HOUR
    assert completed[1]["results"]["orders"] == 1
    assert world.state("shop/sales", b"a")["windows"] == []
    world.assert_replays()


def test_without_windows_an_aggregation_lasts_until_an_event_closes_it():
    world = world_of(coded(window=None))
    for _ in range(2):
        world.send("shop/Sold@1", sold(0))
        world.send("shop/Sold@1", sold(90 * HOUR))
        world.send("shop/DayEnded@1", {"shop": "a"})
    done = [value for name, value in told(world) if name == "AggregationCompleted@1"]
    assert [each["results"]["orders"] for each in done] == [2, 2]
    assert done[0]["aggregation_id"] != done[1]["aggregation_id"]
    assert "start_ns" not in done[0]
    world.assert_replays()


def test_closing_windows_by_an_event_lets_their_items_come_too_late():
    world = world_of()
    world.send("shop/Sold@1", sold(0))
    world.send("shop/DayEnded@1", {"shop": "a"})
    world.send("shop/Sold@1", sold(1))
    assert refusals(world) == ["aggregate.late"]
    world.assert_replays()


def test_an_event_ends_aggregations_as_failed():
    world = world_of()
    world.send("shop/Sold@1", sold(0))
    world.send("shop/DayBroken@1", {"shop": "a"})
    name, failed = told(world)[-1]
    assert (name, failed["code"], failed["total_items"]) == (
        "AggregationFailed@1", "aggregate.failed_by_event", 1,
    )  # fmt: skip
    world.send("shop/Sold@1", sold(1))
    assert refusals(world) == ["aggregate.failed"]
    world.send("shop/DayEnded@1", {"shop": "a"})
    assert [name for name, _ in told(world)].count("AggregationCompleted@1") == 0
    world.assert_replays()


def test_the_item_beyond_the_limit_of_distinct_values_is_refused_alone():
    world = world_of(coded(distinct_max=2))
    for customer in ("a", "b", "c", "a"):
        world.send("shop/Sold@1", sold(0, customer=customer))
    assert refusals(world) == ["aggregate.distinct_full"]
    assert window(world)["results"]["orders"] == 3
    assert window(world)["partials"]["customers"] == ["a", "b"]
    world.assert_replays()


def test_at_a_limit_the_aggregation_may_fail_instead():
    world = world_of(coded(distinct_max=1, on_limit="fail"))
    for customer in ("a", "b"):
        world.send("shop/Sold@1", sold(0, customer=customer))
    name, failed = told(world)[-1]
    assert (name, failed["code"], failed["total_items"]) == (
        "AggregationFailed@1", "aggregate.distinct_full", 1,
    )  # fmt: skip
    assert refusals(world) == []
    world.send("shop/Sold@1", sold(0))
    assert refusals(world) == ["aggregate.failed"]
    world.assert_replays()


def test_more_open_windows_than_allowed_are_refused():
    window = {"size_ns": HOUR, "time": "sold_at", "grace_ns": 10 * HOUR}
    world = world_of(coded(windows_max=2, window=window))
    for at in range(3):
        world.send("shop/Sold@1", sold(at * HOUR))
    assert refusals(world) == ["aggregate.windows_full"]
    world.assert_replays()


def test_all_windows_that_a_long_key_has_open_end_in_one_step():
    """1,000 windows of a key of 500 bytes were more than one step may tell: the cell halted at its end."""
    window = {"size_ns": HOUR, "time": "sold_at", "grace_ns": 800 * HOUR, "ahead_ns": 2_000 * HOUR}
    world, shop = world_of(coded(windows_max=1_000, window=window)), "s" * 500
    for at in range(400):
        world.send("shop/Sold@1", sold(at * HOUR, shop=shop))
    assert 300 < 400 - len(refusals(world)) < 400
    assert set(refusals(world)) == {"aggregate.windows_full"}
    world.send("shop/DayEnded@1", {"shop": shop})
    assert world.state("shop/sales", shop.encode())["windows"] == []
    assert world.entry("shop/sales", shop.encode()).get("status") is None
    world.assert_replays()


@pytest.mark.parametrize(("field", "value", "code"), [
    ("customer", "x" * 300, "aggregate.value_size"),
    ("pieces", 2**64 - 1, "aggregate.sum_size"),
])  # fmt: skip
def test_a_value_that_cannot_be_kept_exactly_is_refused(field, value, code):
    world = world_of()
    world.send("shop/Sold@1", sold(0))
    world.send("shop/Sold@1", {**sold(1), field: value})
    assert refusals(world) == [code]
    assert window(world)["items"] == 1
    world.assert_replays()


def test_one_event_may_bring_many_items():
    row = {"record": {"amount": {"int": {}}}}
    made = document({"kind": "aggregate", "measures": {"total": "sum(amount)"}, "items": "rows", "batch": 3})
    made["schemas"]["shop/Sold@1"] = {"record": {"shop": TEXT, "rows": {"list": row}}}
    made["modules"]["shop/sales@1"]["event"] = ["shop/Sold@1"]
    made["routing"]["subscriptions"] = made["routing"]["subscriptions"][:1]
    world = KernelWorld(made, ProgramKinds(AggregateKind()))
    world.send("shop/Sold@1", {"shop": "a", "rows": [{"amount": n} for n in range(7)]})
    assert window(world)["results"] == {"total": 21}
    batches = [value["items"] for name, value in told(world) if name == "BatchProcessed@1"]
    assert batches == [3, 3]
    world.assert_replays()


def test_a_deploy_with_other_measures_goes_on_with_those_that_stay():
    world = world_of()
    world.send("shop/Sold@1", sold(0))
    measures = {"orders": "count", "revenue": "sum(amount)", "most": "max(amount)"}
    world.deploy(document(coded(measures=measures)))
    world.send("shop/Sold@1", sold(0, "2"))
    assert window(world)["results"] == {"orders": 2, "revenue": "3.5", "most": "2"}
    world.assert_replays()


@pytest.mark.parametrize(("changes", "field"), [
    ({"measures": {}}, "measures"),
    ({"measures": {"a": "sum"}}, "measures.a"),
    ({"measures": {"a": "total(amount)"}}, "measures.a"),
    ({"measures": {"a": "sum(weight)"}}, "measures.a"),
    ({"measures": {"a": "sum(customer)"}}, "measures.a"),
    ({"measures": {"a": "sum(amout)"}}, "measures.a"),
    ({"measures": {"a": "min(coupon.x)"}}, "measures.a"),
    ({"measures": {"a b": "count"}}, "measures"),
    ({"window": {"size_ns": 0}}, "size_ns"),
    ({"window": {"time": "sold_at"}}, "window.size_ns"),
    ({"window": {"size_ns": HOUR, "time": "customer"}}, "window.time"),
    ({"window": {"size_ns": HOUR, "grace_ns": 1}}, "window"),
    ({"batch": "many"}, "batch"),
    ({"distinct_max": 10**9}, "distinct_max"),
    ({"on_limit": "halt"}, "on_limit"),
    ({"closes": ["shop/Gone@1"]}, "closes"),
    ({"items": "customer"}, "items"),
    ({"measure": {}}, "measure"),
])  # fmt: skip
def test_a_declaration_that_cannot_work_is_refused_with_its_field(changes, field):
    with pytest.raises(Rejected) as caught:
        loaded(document(coded(**changes)))
    assert caught.value.code == "aggregate.measure"
    assert str(caught.value.fields["field"]).startswith(field)


@pytest.mark.parametrize(("changes", "field"), [
    ({"state": "shop/Sold@1"}, "state"), ({"context": False}, "context"),
    ({"effects_emitted": [], "code": coded(window={"size_ns": HOUR})}, "effects_emitted"),
    ({"event": ["shop/DayEnded@1", "shop/DayBroken@1"]}, "event"),
])  # fmt: skip
def test_a_module_that_lacks_what_aggregates_need_is_refused(changes, field):
    made = document(**{"code": CODE, **changes})
    if field == "event":
        made["routing"]["subscriptions"] = made["routing"]["subscriptions"][1:]
    with pytest.raises(Rejected) as caught:
        loaded(made)
    assert caught.value.code == "aggregate.measure"
    assert caught.value.fields["field"] == field


def loaded(made: dict[str, Any]) -> None:
    nodes = Nodes(0)
    drive(load_all(load_manifest(made), ProgramKinds(AggregateKind()), nodes), nodes, lambda _: {})


def test_the_general_and_the_short_way_give_the_same_bytes():
    worlds = [world_of(fast=fast) for fast in (True, False)]
    for world in worlds:
        for n in range(20):
            items = [
                EventItem("shop/Sold@1", encode(sold(n * HOUR // 4, shop="ab"[at % 2]))) for at in range(4)
            ]
            world.beat(items)
        world.assert_replays()
    assert worlds[0].frames == worlds[1].frames


@pytest.mark.parametrize(
    "code",
    [CODE, {"kind": "plan", "plan": {}, "triggers": {}}, {"kind": "fsm", "contract": Link(cid_of(b""))}],
)
def test_only_kinds_that_write_upcasters_are_asked_for_one(code):
    changed = document()
    changed["schemas"]["shop/Sold@2"] = changed["schemas"]["shop/Sold@1"]
    changed["upcasters"] = [{"from": "shop/Sold@1", "to": "shop/Sold@2", "code": code}]
    with closing(CodeKinds(limit_s=None)) as programs, pytest.raises(Rejected) as caught:
        drive(load_all(load_manifest(changed), programs, Nodes(1_000)), Nodes(1_000), lambda _: {})
    assert caught.value.code == "kernel.upcaster_kind"
    assert f"the upcaster shop/Sold@1 -> shop/Sold@2 is code of kind {code['kind']}" in str(caught.value)
