"""Effects through the synchronous API."""

from __future__ import annotations

import threading

import cellule
from cellule.assembly import Options


def test_effects_are_seen_and_steered_without_a_loop(pay, tmp_path):
    options = Options(tune_process=False)
    with cellule.open_sync(tmp_path / "data", pay.app, options=options) as node:
        world = node.world()
        world.send(pay.Placed("big", 5_000))
        [parked] = world.effects(status="parked")
        world.deny(parked.id, who="ann", why="no")
        assert world.effect(parked.id).receipt.status == "denied"
        running = world.send(pay.Placed("hold1", 5))
        [view] = world.effects(cause=running.height)
        notes = world.notes(view.id)
        assert next(notes) == "charging hold1 with Bearer <secret bank>"
        notes.close()
        world.cancel(view.id, who="ann", why="enough")
        assert world.effects() == []
        assert [each.name for each in world.schedules()] == ["nightly", "often"]


def test_a_node_whose_adapter_goes_on_when_it_is_cancelled_is_closed_all_the_same(pay, tmp_path):
    """The thread that closed it waited for ever."""
    options = Options(tune_process=False)
    with cellule.open_sync(tmp_path / "data", pay.app, options=options) as node:
        world = node.world()
        [view] = world.effects(cause=world.send(pay.Placed("stubborn1", 5)).height)
        notes = world.notes(view.id)
        assert next(notes).startswith("charging")
        notes.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "cellule"]
