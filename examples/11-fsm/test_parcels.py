"""Parcels that are delivered, lost and refused. `test_parcel_paths.py` is written by `cellule fsm paths`."""

from __future__ import annotations

from typing import Any

import parcels as example
import pytest
from parcels import HandedIn, Post, Posted, parcel

from cellule import Refused, state_changes


@pytest.fixture
def cellule_app() -> Any:
    return example.app


def posted(world: Any, weight: int = 3) -> None:
    world.send(("announce", {"parcel_id": "p1", "weight": weight}))
    world.send(HandedIn("p1"))


def test_a_parcel_is_picked_up_and_its_history_says_when(world: Any) -> None:
    posted(world)
    [asked] = world.intents
    assert asked.params == Post("p1", 3)
    world.complete(asked, Posted("x"))
    world.advance(days=2)
    world.send(("picked_up", {"parcel_id": "p1"}))
    changes = state_changes(world.cell(parcel, "p1").history())
    assert [(each.from_state, each.to_state, each.trigger) for each in changes] == [
        (None, "announced", "announce"), ("announced", "posted", "handed_in"), ("posted", "waiting", "sent"),
        ("waiting", "delivered", "picked_up"),
    ]  # fmt: skip
    assert (changes[-1].at - changes[0].at).days == 2


def test_a_parcel_that_nobody_picks_up_goes_back_after_a_week(world: Any) -> None:
    posted(world)
    world.complete(world.intents[0], Posted("x"))
    world.advance(days=8)
    assert world.state(parcel, "p1")["state"] == "returned"


def test_a_carrier_that_fails_is_asked_three_times(world: Any) -> None:
    posted(world)
    for _ in range(3):
        world.fail(world.intents[0])
    assert world.state(parcel, "p1")["state"] == "returned"
    assert len(world.effects) == 3


def test_what_is_not_possible_is_refused_with_what_is(world: Any) -> None:
    posted(world, weight=31)
    with pytest.raises(Refused, match="parcel is in returned, where picked_up is not possible"):
        world.send(("picked_up", {"parcel_id": "p1"}))


def test_a_person_may_move_a_parcel_along_its_contract(world: Any) -> None:
    posted(world)
    world.send(("parcel_transition", {"parcel_id": "p1", "from_state": "posted", "to_state": "waiting"}))
    assert world.state(parcel, "p1")["state"] == "waiting"
    assert world.cell(parcel, "p1").history()[-1].ann[0]["$value"]["trigger"] == "manual"
