"""Paths of grants into params without a type, in a world."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from cellule import App, Attempt, Receipt, Step
from cellule.testing import World


class Ask(msgspec.Struct, frozen=True):
    items: Any


class Done(msgspec.Struct, frozen=True):
    text: str


class Go(msgspec.Struct, frozen=True):
    k: str


def asking(**limits):
    """An app with one request, `items` a list, under a grant."""
    app = App("paths")

    @app.adapter("paths.ask")
    async def ask(params: Ask, attempt: Attempt) -> Done:
        raise NotImplementedError

    app.event(Go, key="k")
    app.grant("some", effects=[ask], **limits)

    @app.reducer(effects=[ask], grants=["some"])
    def asks(state: str | None, event: Go | Receipt[Done]) -> Step[str]:
        if isinstance(event, Go):
            return Step("asked", effects=[ask(Ask(["a", "b"]))])
        return Step(event.status)

    return app, asks


@pytest.mark.parametrize("place", ["\u00b2", "\u0663", "9" * 900])
@pytest.mark.parametrize("part", ["allow", "budget"])
def test_a_place_in_a_list_that_is_no_number_denies_and_stops_nothing(part, place):
    """`²` is a digit to Python and no number: every beat with such a request failed."""
    path = f"items.{place}"
    once = (1, timedelta(days=1))
    limits = {"allow": {path: ["b"]}} if part == "allow" else {"budget": once, "budget_by": path}
    app, asks = asking(**limits)
    world = World(app)
    world.send(Go("a"))
    assert world.state(asks, "a") == "denied"


def test_a_place_in_a_list_is_a_number():
    app, asks = asking(allow={"items.1": ["b"]})
    world = World(app)
    world.send(Go("a"))
    assert len(world.intents) == 1
    assert world.state(asks, "a") == "asked"
