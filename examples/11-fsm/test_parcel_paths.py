"""Every transition and path of post/parcel, walked. Written by `cellule fsm paths`.

A walk is a list of what happens to one machine. Values are the simplest that the guards let pass: change them
as you like. 7 transitions, 4 paths, 13 refusals.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from parcels import app

from cellule.testing import World

MACHINE, KEY = "post/parcel", "a"
KEY_ONLY: set[str] = set()

# ("sent", event, value) | ("answered", effect, value, or None: it failed) | ("waited", seconds)
# ("move", from, to): by hand, because no simple value gets past the guard

TRANSITIONS: dict[str, Any] = {
    "announced -handed_in-> posted": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
        ],
        ["announced", "posted"],
    ),
    "announced -handed_in-> returned": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 31}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
        ],
        ["announced", "returned"],
    ),
    "posted -sent-> waiting": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
            ("answered", "carrier.post", {"code": "a"}),
        ],
        ["announced", "posted", "waiting"],
    ),
    "posted -sent-> posted": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
            ("answered", "carrier.post", None),
        ],
        ["announced", "posted", "posted"],
    ),
    "posted -sent-> returned": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
            ("answered", "carrier.post", None),
            ("answered", "carrier.post", None),
            ("answered", "carrier.post", None),
        ],
        ["announced", "posted", "posted", "posted", "returned"],
    ),
    "waiting -picked_up-> delivered": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
            ("answered", "carrier.post", {"code": "a"}),
            ("sent", "post/picked_up@1", {"parcel_id": "a"}),
        ],
        ["announced", "posted", "waiting", "delivered"],
    ),
    "waiting -overdue-> returned": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
            ("answered", "carrier.post", {"code": "a"}),
            ("waited", 604800.0),
        ],
        ["announced", "posted", "waiting", "returned"],
    ),
}

PATHS: dict[str, Any] = {
    "announced -> posted -> waiting -> delivered": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
            ("answered", "carrier.post", {"code": "a"}),
            ("sent", "post/picked_up@1", {"parcel_id": "a"}),
        ],
        ["announced", "posted", "waiting", "delivered"],
    ),
    "announced -> posted -> waiting -> returned": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
            ("answered", "carrier.post", {"code": "a"}),
            ("waited", 604800.0),
        ],
        ["announced", "posted", "waiting", "returned"],
    ),
    "announced -> posted -> returned": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
            ("move", "posted", "returned"),
        ],
        ["announced", "posted", "returned"],
    ),
    "announced -> returned": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 31}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
        ],
        ["announced", "returned"],
    ),
}

# What is not possible in a state: the walk to it, and the event
REFUSED: dict[str, Any] = {
    "announce in announced": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
        ],
        ["announced"],
        ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
    ),
    "picked_up in announced": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
        ],
        ["announced"],
        ("sent", "post/picked_up@1", {"parcel_id": "a"}),
    ),
    "announce in posted": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
        ],
        ["announced", "posted"],
        ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
    ),
    "HandedIn in posted": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
        ],
        ["announced", "posted"],
        ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
    ),
    "picked_up in posted": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
        ],
        ["announced", "posted"],
        ("sent", "post/picked_up@1", {"parcel_id": "a"}),
    ),
    "announce in returned": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 31}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
        ],
        ["announced", "returned"],
        ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
    ),
    "HandedIn in returned": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 31}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
        ],
        ["announced", "returned"],
        ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
    ),
    "picked_up in returned": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 31}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
        ],
        ["announced", "returned"],
        ("sent", "post/picked_up@1", {"parcel_id": "a"}),
    ),
    "announce in waiting": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
            ("answered", "carrier.post", {"code": "a"}),
        ],
        ["announced", "posted", "waiting"],
        ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
    ),
    "HandedIn in waiting": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
            ("answered", "carrier.post", {"code": "a"}),
        ],
        ["announced", "posted", "waiting"],
        ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
    ),
    "announce in delivered": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
            ("answered", "carrier.post", {"code": "a"}),
            ("sent", "post/picked_up@1", {"parcel_id": "a"}),
        ],
        ["announced", "posted", "waiting", "delivered"],
        ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
    ),
    "HandedIn in delivered": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
            ("answered", "carrier.post", {"code": "a"}),
            ("sent", "post/picked_up@1", {"parcel_id": "a"}),
        ],
        ["announced", "posted", "waiting", "delivered"],
        ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
    ),
    "picked_up in delivered": (
        [
            ("sent", "post/announce@1", {"parcel_id": "a", "weight": 1}),
            ("sent", "post/HandedIn@1", {"parcel_id": "a"}),
            ("answered", "carrier.post", {"code": "a"}),
            ("sent", "post/picked_up@1", {"parcel_id": "a"}),
        ],
        ["announced", "posted", "waiting", "delivered"],
        ("sent", "post/picked_up@1", {"parcel_id": "a"}),
    ),
}


@pytest.fixture
def world() -> World:
    return World(app)


def state_of(world: World) -> str | None:
    state = world.state(MACHINE, KEY)
    return None if state is None else state["state"]


def do(world: World, how: str, *what: Any) -> None:
    if how == "sent":
        event, value = what
        world.send((event, value), key=KEY if event in KEY_ONLY else None, check=False)
    elif how == "move":
        value = {"parcel_id": KEY, "from_state": what[0], "to_state": what[1]}
        world.send(("post/parcel_transition@1", value), check=False)
    elif how == "waited":
        world.advance(seconds=what[0])
    else:
        effect, value = what
        [asked, *_] = [each for each in world.intents.of(effect) if each.cell == (MACHINE, KEY)]
        if asked.status == "parked":
            world.approve(asked)
        if value is None:
            world.fail(asked)
        else:
            world.complete(asked, msgspec.convert(value, world.built.effect(effect).receipt))


def walk(world: World, deeds: list[Any], states: list[str]) -> None:
    for deed, state in zip(deeds, states, strict=True):
        do(world, *deed)
        assert state_of(world) == state, f"after {deed}"


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_transition_is_taken(world: World, name: str) -> None:
    walk(world, *TRANSITIONS[name])
    world.assert_replays()


@pytest.mark.parametrize("name", PATHS)
def test_a_path_leads_to_its_end(world: World, name: str) -> None:
    walk(world, *PATHS[name])
    world.assert_replays()


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_possible_is_refused_and_changes_nothing(world: World, name: str) -> None:
    deeds, states, event = REFUSED[name]
    walk(world, deeds, states)
    before, known = world.state(MACHINE, KEY), len(world.refusals)
    do(world, *event)
    assert "fsm.transition_invalid" in [each.code for each in world.refusals[known:]]
    assert world.state(MACHINE, KEY) == before
    world.assert_replays()
