"""The hours of a shop, on the clock of the tills."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import sales as example
from sales import ShopClosed, Sold, sales

from cellule import Refused, aggregate


@pytest.fixture
def cellule_app() -> Any:
    return example.app


def sold(world: Any, amount: str, customer: str, minutes: int = 0) -> Sold:
    hour = world.now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=5)
    at: datetime = hour + timedelta(minutes=minutes)
    return Sold("berlin", Decimal(amount), customer, at)


def test_the_numbers_of_an_hour(world: Any) -> None:
    for amount, customer in (("3", "ada"), ("4.50", "bob"), ("3", "ada")):
        world.send(sold(world, amount, customer))
    (hour,) = world.state(sales, "berlin")["windows"]
    assert hour["results"] == {
        "orders": 3, "revenue": "10.5", "average": "3.5", "largest": "4.5", "customers": 2,
    }  # fmt: skip


def test_an_hour_is_complete_five_minutes_after_its_end(world: Any) -> None:
    world.send(sold(world, "3", "ada", minutes=59))
    world.send(sold(world, "1", "bob", minutes=64))
    world.send(sold(world, "2", "eve", minutes=58))  # late, but in the grace
    assert len(world.state(sales, "berlin")["windows"]) == 2
    world.send(sold(world, "1", "bob", minutes=65))
    assert len(world.state(sales, "berlin")["windows"]) == 1
    with pytest.raises(Refused) as caught:
        world.send(sold(world, "2", "eve", minutes=58))
    assert caught.value.code == "aggregate.late"


def test_a_shop_that_closes_completes_its_hours(world: Any) -> None:
    world.send(sold(world, "3", "ada"))
    world.send(ShopClosed("berlin"))
    assert world.state(sales, "berlin")["windows"] == []


def test_the_same_numbers_of_a_batch() -> None:
    rows = [{"shop": "berlin", "amount": 3}, {"shop": "rome", "amount": 4}, {"shop": "rome", "amount": 5}]
    measures = {"revenue": "sum(amount)"}
    whole = aggregate(rows, measures, by="shop")
    assert whole["rome"] == {"revenue": 9}
    assert aggregate(rows[:1], measures, by="shop").merged(aggregate(rows[1:], measures, by="shop")) == whole
