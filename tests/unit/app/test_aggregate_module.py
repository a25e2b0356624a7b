"""`app.aggregate`: declared with classes and timedeltas, tested and read like every other module."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import msgspec
import pytest

from cellule import App
from cellule.errors import Refused, Rejected
from cellule.testing import World

app = App("shop")


@app.event(key="shop")
class Sold(msgspec.Struct, frozen=True):
    shop: str
    amount: Decimal
    customer: str


@app.event(key="shop")
class DayEnded(msgspec.Struct, frozen=True):
    shop: str


MEASURES = {"orders": "count", "revenue": "sum(amount)", "customers": "distinct(customer)"}
sales = app.aggregate(
    "sales", Sold, measures=MEASURES, window=timedelta(hours=1), closes=[DayEnded], distinct_max=2
)


def test_an_aggregate_of_an_app_ends_its_windows_by_the_clock():
    world = World(app)
    for amount, customer in ((Decimal("1.5"), "ada"), (Decimal(2), "bob")):
        world.send(Sold("a", amount, customer))
    assert world.state(sales, "a")["windows"][0]["results"] == {"orders": 2, "revenue": "3.5", "customers": 2}
    with pytest.raises(Refused) as caught:
        world.send(Sold("a", Decimal(1), "eve"))
    assert caught.value.code == "aggregate.distinct_full"
    world.advance(hours=2)
    assert world.state(sales, "a")["windows"] == []
    world.assert_replays()


def test_an_event_closes_the_windows_of_its_namespace_only():
    world = World(app)
    world.send(Sold("a", Decimal(1), "ada"))
    world.send(Sold("b", Decimal(1), "ada"))
    world.send(DayEnded("a"))
    assert world.state(sales, "a")["windows"] == []
    assert len(world.state(sales, "b")["windows"]) == 1
    world.assert_replays()


@pytest.mark.parametrize("options", [
    {"measures": {"a": "sum(customer)"}}, {"measures": {"a": "sum(nothing)"}},
    {"measures": {"a": "count"}, "at": "sold_at"}, {"measures": {"a": "count"}, "bach": 1},
    {"measures": {"a": "count"}, "window": timedelta(0)},
])  # fmt: skip
def test_an_aggregate_that_cannot_work_is_refused_when_the_app_is_built(options):
    other = App("shop")
    other.event(key="shop")(Sold)
    other.aggregate("sales", Sold, **options)
    with pytest.raises(Rejected, match="aggregate"):
        other.build()


def test_a_class_that_is_no_event_of_the_app_is_refused():
    other = App("shop")
    other.aggregate("sales", Sold, measures={"n": "count"})
    with pytest.raises(Rejected, match="Sold"):
        other.build()
