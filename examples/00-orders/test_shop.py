"""Tests of the shop: every world is replayed when its test ends, whatever the test did."""

from __future__ import annotations

import pytest
import shop
from shop import Order, Paid, Placed, Shipped, order

from cellule import Refused
from cellule.testing import World, simulate_app


@pytest.fixture
def cellule_app():
    return shop.app


def test_an_order_ships_as_soon_as_it_is_paid(world: World) -> None:
    world.send(Placed("o1", total=30))
    assert world.send(Paid("o1", amount=10)).reply == 20
    assert world.send(Paid("o1", amount=20)).reply == 0
    assert world.state(order, "o1") == Order(total=30, paid=30, shipped=True)
    assert world.emitted == [Shipped("o1")]


def test_paying_too_much_is_refused_and_the_order_goes_on(world: World) -> None:
    world.send(Placed("o1", total=30))
    with pytest.raises(Refused, match="paid 69 too much") as caught:
        world.send(Paid("o1", amount=99))
    assert caught.value.code == "order.overpaid"
    assert world.state(order, "o1") == Order(total=30)
    assert world.send(Paid("o1", amount=30)).reply == 0


def test_no_schedule_crash_or_duplicate_ships_an_order_twice() -> None:
    def never_twice(world: World) -> None:
        shipped = [event.order_id for event in world.emitted.of(Shipped)]
        assert len(shipped) == len(set(shipped))

    senders = [[Placed(f"o{n}", 30), Paid(f"o{n}", 10), Paid(f"o{n}", 20)] for n in range(4)]
    simulate_app(shop.app, senders, check=never_twice, seeds=range(20))
