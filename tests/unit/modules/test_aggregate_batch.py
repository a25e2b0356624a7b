"""Aggregates of a batch: what the pure function gives, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest

from cellule import aggregate
from cellule.errors import Rejected

HOUR = timedelta(hours=1)
NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)


class Sale(msgspec.Struct, frozen=True):
    shop: str
    amount: Decimal | None
    at: datetime


SALES = [
    Sale("a", Decimal("0.1"), NINE), Sale("a", Decimal("0.2"), NINE + HOUR / 2),
    Sale("b", None, NINE), Sale("a", Decimal(3), NINE + HOUR),
]  # fmt: skip
MEASURES = {
    "n": "count",
    "sum": "sum(amount)",
    "avg": "avg(amount)",
    "last": "max(at)",
    "d": "distinct(amount)",
}


def test_items_are_aggregated_by_namespace_and_window():
    found = aggregate(SALES, MEASURES, by="shop", window=HOUR, at="at")
    assert dict(found) == {
        ("a", NINE): {
            "n": 2, "sum": Decimal("0.3"), "avg": Decimal("0.15"), "last": NINE + HOUR / 2, "d": 2,
        },
        ("b", NINE): {"n": 1, "sum": None, "avg": None, "last": NINE, "d": 0},
        ("a", NINE + HOUR): {"n": 1, "sum": 3, "avg": 3, "last": NINE + HOUR, "d": 1},
    }  # fmt: skip
    assert found.total == 4
    assert found.distinct(("a", NINE), "d") == ["0.1", "0.2"]


def test_without_by_and_window_there_is_one_group():
    assert aggregate([{"n": 2}, {"n": 4}, {}], {"a": "avg(n)", "k": "count(n)"})[""] == {"a": 3, "k": 2}
    assert dict(aggregate([], {"k": "count"})) == {}


def test_an_average_that_does_not_end_has_28_digits():
    assert str(aggregate([{"n": 1}, {"n": 0}, {"n": 0}], {"a": "avg(n)"})[""]["a"]) == "0." + "3" * 28


@pytest.mark.parametrize(("item", "measure"), [
    ({"n": 0.5}, "sum(n)"), ({"n": True}, "sum(n)"), ({"n": "x"}, "avg(n)"), ({"n": [1]}, "distinct(n)"),
    ({"n": float("nan")}, "min(n)"), (Sale("a", None, NINE), "sum(price)"), ({"n": {}}, "max(n)"),
])  # fmt: skip
def test_a_value_without_an_exact_aggregate_is_refused_with_its_item(item, measure):
    with pytest.raises(Rejected, match="item 1") as caught:
        aggregate([{"n": None}, item], {"m": measure})
    assert caught.value.code == "aggregate.item"


def test_values_that_cannot_be_compared_are_refused():
    with pytest.raises(Rejected, match="item 1") as caught:
        aggregate([{"n": 1}, {"n": "x"}], {"m": "min(n)"})
    assert caught.value.code == "aggregate.item"


def test_true_and_one_are_distinct():
    assert aggregate([{"n": 1}, {"n": True}, {"n": 1}], {"d": "distinct(n)"})[""]["d"] == 2


def test_more_distinct_values_than_allowed_are_refused():
    with pytest.raises(Rejected) as caught:
        aggregate([{"n": n} for n in range(4)], {"d": "distinct(n)"}, distinct_max=3)
    assert caught.value.code == "aggregate.full"


@pytest.mark.parametrize("options", [
    {"window": HOUR}, {"at": "at"}, {"window": timedelta(0), "at": "at"}, {"distinct_max": 0},
])  # fmt: skip
def test_options_that_cannot_be_meant_are_refused(options):
    with pytest.raises(Rejected) as caught:
        aggregate(SALES, {"n": "count"}, **options)
    assert caught.value.code == "aggregate.measure"


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(Rejected, match="aware"):
        aggregate([{"at": datetime(2026, 1, 1)}], {"n": "count"}, window=HOUR, at="at")  # noqa: DTZ001


def test_aggregates_of_other_measures_do_not_merge():
    with pytest.raises(Rejected) as caught:
        aggregate(SALES, {"n": "count"}).merged(aggregate(SALES, {"m": "count"}))
    assert caught.value.code == "aggregate.merge"
