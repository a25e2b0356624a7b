"""Records as they are shown: timers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cellule.errors import Rejected
from cellule.host.read.record_view import RecordRenderer
from cellule.kernel.journal.records import RECORDS
from cellule.testing import VirtualClock
from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

BRIEF = load_app(Path(__file__).parents[2] / "node_apps" / "brief.py")


@in_virtual_time
async def test_a_timer_that_is_dropped_is_shown(opened):
    """It has nothing that it is for, and taking that apart failed."""
    async with opened(app=BRIEF.app, clock=VirtualClock()) as node:
        world = await node.world("w")
        await world.send(BRIEF.Poke("p"))
        await world.send(BRIEF.Poke("p", gone=True))
        await asyncio.sleep(40)
        renderer = RecordRenderer(world.follower)
        views = [view async for frame in world.frames() for view in await renderer.frame(frame)]
    armed, dropped = [view.fields for view in views if view.kind == "timer"]
    assert (armed["what"], armed["module"], armed["key"]) == ("ttl", "brief/visit", "p")
    assert dropped == {"due": None, "what": None}


@in_virtual_time
async def test_a_height_beyond_the_journal_is_refused_with_its_end(opened):
    async with opened(app=BRIEF.app) as node:
        world = await node.world("w")
        end = (await world.head()).height
        for height in (0, end + 1):
            with pytest.raises(Rejected, match=f"height {height} is not in the journal of world w"):
                await RecordRenderer(world.follower).at(height)


def test_every_kind_of_record_is_shown():
    """A kind that was left out ended the node of whoever followed its journal."""
    shown = RecordRenderer(None)._render  # type: ignore[arg-type]
    assert set(shown) == {kind for kind in RECORDS.values() if kind is not None}
