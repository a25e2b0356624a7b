"""The life of a subscription, in virtual time and on a node."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from billing import CardChanged, Charged, Ended, RefundAsked, Subscribed, app, refund, subscription

import cellule
from cellule.testing import World


@pytest.fixture
def world() -> Any:
    made = World(app)
    perform(made)
    yield made
    made.assert_replays()


def perform(world: World) -> None:
    """The bank of the tests: cards that begin with `bad` are declined."""
    booked: list[str] = []

    def charged(params: Any) -> Any:
        if params.card.startswith("bad"):
            raise cellule.Failed("card.declined", f"card {params.card} was declined")
        booked.append(params.card)
        return Charged(f"ch-{len(booked)}")

    world.on("billing.charge", charged)
    world.on("billing.refund", lambda params: params)


def account(world: World, customer: str = "ada") -> Any:
    run = world.state(subscription, customer)
    assert run is not None
    return run.published


def test_a_month_is_charged_after_the_other(world: World) -> None:
    world.send(Subscribed("ada", "good", 900))
    world.advance(days=75)
    assert account(world) == {"status": "active", "charges": ["ch-1", "ch-2", "ch-3"], "why": ""}


def test_a_bad_card_is_tried_again_until_the_account_is_suspended(world: World) -> None:
    world.send(Subscribed("ada", "bad", 900))
    assert account(world)["status"] == "past due"
    world.advance(days=16)
    assert account(world) == {"status": "suspended", "charges": [], "why": "card bad was declined"}
    world.advance(days=100)
    world.send(CardChanged("ada", "good"))
    assert account(world)["charges"] == ["ch-1"]


def test_a_new_card_is_tried_at_once(world: World) -> None:
    world.send(Subscribed("ada", "bad", 900))
    world.advance(days=1)
    world.send(CardChanged("ada", "good"))
    assert account(world)["status"] == "active"


def test_a_card_that_changes_during_the_month_is_charged_next(world: World) -> None:
    world.send(Subscribed("ada", "good", 900))
    world.send(CardChanged("ada", "bad one"))
    world.advance(days=31)
    assert account(world)["why"] == "card bad one was declined"


def test_who_leaves_is_charged_no_more(world: World) -> None:
    world.send(Subscribed("ada", "good", 900))
    world.advance(days=10)
    world.send(Ended("ada"))
    run = world.state(subscription, "ada")
    assert run is not None
    assert (run.status, run.result) == ("completed", "ada left")
    world.advance(days=100)
    assert list(world.intents) == []


def test_a_large_refund_waits_for_a_person(world: World) -> None:
    world.send(Subscribed("ada", "good", 9_000))
    world.send(RefundAsked("ada", "ch-1", 1_000))
    world.send(RefundAsked("ada", "ch-1", 5_000))
    [asked] = world.intents.of(refund)
    assert asked.status == "parked"
    world.approve(asked, why="fair enough")
    assert [each.status for each in world.effects.of(refund)] == ["ok", "ok"]


def test_on_a_node_it_goes_on_where_it_was(tmp_path: Path) -> None:
    async def first() -> None:
        async with cellule.open(str(tmp_path), app=app) as node:
            world = await node.world("billing")
            await world.send(Subscribed("ada", "good", 900))
            await world.cell(subscription, "ada").wait_until(lambda run: run is not None and run.published)

    async def second() -> None:
        async with cellule.open(str(tmp_path), app=app) as node:
            world = await node.world("billing")
            await world.send(Ended("ada"))
            run = await world.cell(subscription, "ada").state()
            assert run is not None
            assert (run.status, run.published["status"]) == ("completed", "ended")

    asyncio.run(first())
    asyncio.run(second())
