"""A deploy changes how long cells are kept, also those that are there; as an author meets it."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from cellule import App, Retention, Step
from cellule.testing import World


class Poke(msgspec.Struct, frozen=True):
    name: str


class Seen(msgspec.Struct, frozen=True):
    count: int = 0


def poked(state: Seen | None, event: Poke) -> Step[Seen]:
    return Step(Seen((state or Seen()).count + 1))


def keeping(**spans: float) -> App:
    """An app that keeps its cells for so many hours: since birth (`ttl`), or since the last step (`idle`)."""
    app = App("keep")
    app.event(key="name")(Poke)
    retention = Retention(**{rule: timedelta(hours=hours) for rule, hours in spans.items()})
    app.reducer(retention=retention if spans else None)(poked)
    return app


@pytest.mark.parametrize("rule", ["ttl", "idle"])
@pytest.mark.parametrize(
    ("before", "after", "lasts"),
    [(1, 720, 720), (720, 3, 3), (None, 3, 3), (1, None, None), (None, None, None)],
)
def test_retention_is_that_of_the_app_that_runs(rule, before, after, lasts):
    world = World(keeping(**({} if before is None else {rule: before})))
    world.send(Poke("a"))
    world.advance(minutes=30)
    world.deploy(keeping(**({} if after is None else {rule: after})))
    world.advance(hours=(lasts or 5_000) - 0.51)
    assert world.cell("poked", "a").exists
    if lasts is not None:
        world.advance(minutes=1)
        assert not world.cell("poked", "a").exists
    world.restart()
    world.assert_replays()
