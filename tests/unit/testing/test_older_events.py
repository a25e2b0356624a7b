"""Events of older versions are upcast on their way in, as long as a chain of upcasters leads on."""

from __future__ import annotations

import msgspec
import pytest

from cellule import App, Rejected, Step
from cellule.testing import World


class PlacedV1(msgspec.Struct, frozen=True):
    order: str
    cents: int


class PlacedV2(msgspec.Struct, frozen=True):
    order_id: str
    cents: int
    currency: str


class PlacedV3(msgspec.Struct, frozen=True):
    order_id: str
    money: str


class Copied(msgspec.Struct, frozen=True):
    name: str


class Order(msgspec.Struct, frozen=True):
    money: list[str] = []


class Count(msgspec.Struct, frozen=True):
    count: int = 0


def order_1(state: Order | None, event: PlacedV1) -> Order:
    return Order([*(state or Order()).money, f"{event.cents} of v1"])


def order_3(state: Order | None, event: PlacedV3) -> Step[Order]:
    return Step(Order([*(state or Order()).money, event.money]), reply=event.money)


def copier(state: Count | None, event: Copied) -> Step[Count]:
    return Step(Count((state or Count()).count + 1), emit=[PlacedV1(event.name, 7)])


def second(old: PlacedV1) -> PlacedV2:
    if old.cents < 0:
        raise ValueError("no such amount")
    return PlacedV2(old.order, old.cents, "EUR")


def third(old: PlacedV2) -> PlacedV3:
    return PlacedV3(old.order_id, f"{old.cents} {old.currency}")


def app_of(version: int) -> App:
    app = App("shop")
    app.event(name="Placed", version=1, key="order")(PlacedV1)
    app.event(key="name")(Copied)
    app.reducer(emits=[PlacedV1])(copier)
    if version == 1:
        app.reducer(name="order")(order_1)
        return app
    app.event(name="Placed", version=2, key="order_id")(PlacedV2)
    app.event(name="Placed", version=3, key="order_id")(PlacedV3)
    app.upcaster(second)
    app.upcaster(third)
    app.reducer(name="order", reply=str)(order_3)
    return app


@pytest.fixture
def world(make_world) -> World:
    world = make_world(app_of(1), live=True)
    world.send(PlacedV1("a", 1))
    world.deploy(app_of(3))
    return world


@pytest.mark.parametrize(
    ("event", "money"),
    [(PlacedV1("a", 5), "5 EUR"), (PlacedV2("a", 5, "USD"), "5 USD"), (PlacedV3("a", "5 GBP"), "5 GBP")],
)
def test_senders_of_every_version_reach_the_same_cell(world, event, money):
    sent = world.send(event, id="one")
    assert (sent.status, sent.reply) == ("applied", money)
    assert world.send(event, id="one").duplicate
    assert world.state("order", "a") == Order(["1 of v1", money])


def test_an_older_version_that_a_step_emits_reaches_the_cell(world):
    world.send(Copied("a"))
    assert world.state("order", "a").money[-1] == "7 EUR"


def test_an_older_version_is_found_again_after_a_restart(world):
    world.restart()
    world.send(PlacedV1("b", 2))
    assert world.state("order", "b") == Order(["2 EUR"])


def test_an_event_that_its_upcaster_refuses_is_refused_at_the_edge(world):
    with pytest.raises(
        Rejected, match=r"shop/Placed@1 is of an older version and cannot be upcast"
    ) as caught:
        world.send(PlacedV1("a", -1))
    assert "no such amount" in str(caught.value)
    assert world.send(PlacedV1("a", 1)).applied


def test_a_step_that_emits_what_its_upcaster_refuses_fails(make_world):
    def bad(state: Count | None, event: Copied) -> Step[Count]:
        return Step(Count(1), emit=[PlacedV1(event.name, -1)])

    app = app_of(3)
    app.reducer(emits=[PlacedV1])(bad)
    world = make_world(app, live=True)
    failed = world.send(Copied("a"), check=False).failed
    assert "no such amount" in failed.text


def test_an_older_version_may_be_sent_with_its_key(world):
    assert world.send(PlacedV1("c", 3), key="c").applied


def test_an_older_version_without_a_chain_is_refused(make_world):
    app = App("shop")
    app.event(name="Placed", version=1, key="order")(PlacedV1)
    app.event(name="Placed", version=3, key="order_id")(PlacedV3)
    app.reducer(name="order")(order_3)
    with pytest.raises(Rejected, match="no module of the manifest subscribes to shop/Placed@1"):
        make_world(app, live=True).send(PlacedV1("a", 1))
