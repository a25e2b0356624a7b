"""Forks of a testing world: as on a node, with the test in the place of the outside."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from cellule.errors import Rejected
from cellule.testing import World
from tests.support.nodes import load_app

PAY = load_app(Path(__file__).parents[2] / "node_apps" / "pay.py")


@pytest.fixture
def world():
    made = World(PAY.app)
    yield made
    made.assert_replays()


def status(world, order):
    state = world.state(PAY.order, order)
    return None if state is None else state.status


def test_both_sides_go_on_and_replay(world):
    world.send(PAY.Placed("a", 1))
    child = world.fork()
    world.complete(world.intents[0], PAY.Charged("c"))
    assert (status(world, "a"), status(child, "a")) == ("pay.charge ok", "pay.charge cancelled")
    child.send(PAY.Placed("b", 1))
    assert [each.status for each in child.intents] == ["held"]
    assert status(world, "b") is None
    child.assert_replays()


def test_a_live_fork_that_keeps_has_what_was_open_under_the_same_id(world):
    world.send(PAY.Placed("a", 1))
    child = world.fork(effects="keep", live=True)
    [mine], [its] = world.intents, child.intents
    assert (mine.id, mine.status) == (its.id, its.status)
    child.complete(its, PAY.Charged("its"))
    world.fail(mine)
    assert (status(world, "a"), status(child, "a")) == ("pay.charge failed", "pay.charge ok")
    child.assert_replays()


def test_time_goes_on_in_both(world):
    world.send(PAY.Placed("nap", 1, "timer"))
    child = world.fork()
    child.advance(days=3, hours=1)
    assert (status(world, "nap"), status(child, "nap")) == ("resting", "rested")
    assert child.now - world.now == timedelta(days=3, hours=1)
    child.assert_replays()


def test_a_fork_of_the_past_gets_what_was_recorded(world):
    first = world.send(PAY.Placed("a", 1))
    world.complete(world.intents[0], PAY.Charged("c-1"))
    world.send(PAY.Placed("b", 1))
    child = world.fork(at=first.height - 1, effects="recorded")
    assert status(child, "a") is None
    child.send(PAY.Placed("a", 1))
    assert child.state(PAY.order, "a").charge == "c-1"
    assert status(world.fork(at=0), "a") is None
    child.assert_replays()


def test_a_script_answers(world):
    script = [{"kind": "pay.charge", "value": {"id": "told"}, "always": True}]
    child = world.fork(effects="scripted", script=script)
    child.send(PAY.Placed("a", 1))
    assert child.state(PAY.order, "a").charge == "told"
    again = child.fork(effects="keep")
    again.send(PAY.Placed("b", 1))
    assert [each.status for each in again.intents] == ["held"]
    for each in (child, again):
        each.assert_replays()
    with pytest.raises(Rejected, match="a script is given exactly if"):
        world.fork(script=script)


def test_forks_draw_other_chances_than_their_parent_and_each_other(world):
    forks = [world.fork(), world.fork(), world]
    assert len({each.host.world_id for each in forks}) == 3
    for each in forks:
        each.send(PAY.Placed("same", 1))
    assert len({each.intents[-1].id for each in forks}) == 3
