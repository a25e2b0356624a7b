"""Laws of aggregates: a merge of parts is the aggregate of the whole, however it is cut and ordered; a module
gives what the batch function gives, and a restart between any two beats changes nothing."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from cellule import aggregate
from cellule.kernel.programs import ProgramKinds
from cellule.modules.aggregate import AggregateKind
from cellule.values.schema.scalars import decimal_text
from tests.support.kernel_world import START_NS, KernelWorld
from tests.support.lives import Dies, Life, Passed, check_lives

HOUR = 3_600_000_000_000
BASE = START_NS // HOUR * HOUR
MEASURES = {
    "n": "count", "sum": "sum(amount)", "avg": "avg(amount)", "least": "min(amount)", "most": "max(amount)",
    "who": "distinct(who)", "named": "count(who)",
}  # fmt: skip
AMOUNTS = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9)
ITEMS = st.lists(
    st.fixed_dictionaries({
        "shop": st.sampled_from("ab"), "amount": AMOUNTS,
        "at": st.integers(0, 3 * HOUR).map(lambda at: BASE + at),
        "who": st.none() | st.sampled_from(["ada", "bob", "eve"]),
    }),
    max_size=12,
)  # fmt: skip


def whole(items: list[dict[str, Any]]) -> Any:
    return aggregate(items, MEASURES, by="shop", window=timedelta(hours=1), at="at")


@given(ITEMS, ITEMS, ITEMS)
def test_merging_is_aggregating_both_in_any_order(one, two, three):
    assert whole(one).merged(whole(two)) == whole([*one, *two])
    assert whole(two).merged(whole(one)) == whole([*one, *two])
    left = whole(one).merged(whole(two)).merged(whole(three))
    assert left == whole(one).merged(whole(two).merged(whole(three))) == whole([*three, *one, *two])


def manifest() -> dict[str, Any]:
    text: dict[str, Any] = {"text": {}}
    fields = {"shop": text, "amount": {"dec": {}}, "at": {"time": {}}, "who": {"option": text}}
    window = {"size_ns": HOUR, "time": "at", "grace_ns": 3 * HOUR}
    code = {"kind": "aggregate", "measures": MEASURES, "window": window, "batch": 2}
    return {
        "schemas": {"shop/Sold@1": {"record": fields}},
        "modules": {"shop/sales@1": {
            "style": "aggregate", "state": "sys/Aggregate@1", "context": True, "code": code,
            "event": "shop/Sold@1",
        }},
        "routing": {"subscriptions": [
            {"event": "shop/Sold@1", "module": "shop/sales@1", "key_field": "shop"},
        ]},
    }  # fmt: skip


def wire(item: dict[str, Any]) -> dict[str, Any]:
    found = {**item, "amount": decimal_text(item["amount"])}
    return {name: value for name, value in found.items() if value is not None}


def wired(result: dict[str, Any]) -> dict[str, Any]:
    return {
        name: decimal_text(value) if isinstance(value, Decimal) else value
        for name, value in result.items()
        if value is not None
    }


@settings(max_examples=25, deadline=None)
@given(ITEMS, st.integers(0, 11))
def test_a_module_gives_what_the_batch_gives_and_restarts_change_nothing(items, cut):
    world, other = (KernelWorld(manifest(), ProgramKinds(AggregateKind())) for _ in range(2))
    for at, item in enumerate(items):
        if at == cut:
            other.world = other.restored()
        world.send("shop/Sold@1", wire(item))
        other.send("shop/Sold@1", wire(item))
    assert world.frames == other.frames
    found = {}
    for shop in "ab":
        held = world.state("shop/sales", shop.encode())
        found |= {(shop, each["start_ns"]): each["results"] for each in (held or {"windows": ()})["windows"]}
    assert found == {key: wired(result) for key, result in whole(items).items()}
    world.assert_replays()


CLOCKED = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["shop/Sold@1", "shop/Sold@1", "shop/Closed@1", "shop/Gone@1"]),
            st.sampled_from("ab"), st.integers(0, 9),
        ),
        max_size=4,
    )
    | st.builds(Passed, st.integers(0, 2 * HOUR)),
    min_size=1,
    max_size=12,
)  # fmt: skip


def clocked() -> dict[str, Any]:
    """Windows of world time, which end by timers; an event closes them, another lets them fail."""
    document = manifest()
    document["schemas"] |= {
        name: {"record": {"shop": {"text": {}}}} for name in ("shop/Closed@1", "shop/Gone@1")
    }
    module = document["modules"]["shop/sales@1"]
    module["code"] = {
        "kind": "aggregate", "measures": MEASURES, "window": {"size_ns": HOUR}, "batch": 2,
        "closes": ["shop/Closed@1"], "fails": ["shop/Gone@1"], "distinct_max": 2, "on_limit": "fail",
    }  # fmt: skip
    module |= {
        "event": ["shop/Sold@1", "shop/Closed@1", "shop/Gone@1", "sys/TimerFired@1"],
        "effects_emitted": ["timer.set"],
    }
    document["routing"]["subscriptions"] += [
        {"event": name, "module": "shop/sales@1", "key_field": "shop"}
        for name in ("shop/Closed@1", "shop/Gone@1")
    ]
    return document


@settings(max_examples=25, deadline=None)
@given(CLOCKED)
def test_cold_restarts_between_beats_and_the_general_way_change_no_byte(drawn):
    def make(dies: Dies, fast: bool) -> Life:
        world = KernelWorld(clocked(), ProgramKinds(AggregateKind()), fast=fast)
        return Life(world, lambda: ProgramKinds(AggregateKind()), dies=dies)

    whole = check_lives(make, [each if isinstance(each, Passed) else list(map(sold, each)) for each in drawn])
    for shop in "ab":
        state = whole.world.state("shop/sales", shop.encode())
        event("nothing" if state is None else f"{len(state['windows'])} open, {min(state['ended'], 3)} ended")


def sold(drawn: tuple[str, str, int]) -> tuple[str, Any]:
    schema, shop, n = drawn
    item = {"shop": shop, "amount": str(n), "at": BASE, "who": "abc"[n % 3]}
    return schema, item if schema == "shop/Sold@1" else {"shop": shop}
