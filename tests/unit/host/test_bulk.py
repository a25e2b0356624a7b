"""Verbs on many cells: what one frame has no room for goes on in the next beats, and ends."""

from __future__ import annotations

import pytest

from cellule.errors import CelluleError
from cellule.kernel.journal.records import ControlRecord
from tests.support.virtual_tests import in_virtual_time


@pytest.fixture
def few(monkeypatch):
    """A frame has room for two cells of a control."""
    monkeypatch.setattr("cellule.kernel.decide.controls.RESUME_PER_CONTROL_MAX", 2)


async def stop(world, tally, names):
    for name in names:
        with pytest.raises(CelluleError):
            await world.send(tally.Fail(name))


async def resumed(world):
    return [
        [key for _, key in record.arguments["cells"]]
        async for frame in world.frames()
        for _, record in frame.of(ControlRecord)
    ]


@pytest.mark.parametrize("away", [False, True])
@in_virtual_time
async def test_a_bulk_resume_goes_on_until_all_are_resumed_once(opened, tally, few, away):
    """Cells that stop again meanwhile are not resumed again, so that it ends."""
    async with opened() as node, opened(owner=False) as other:
        world = await node.world("w")
        await stop(world, tally, "abcde")
        handle = await other.world("w") if away else world
        done = await handle.control("cell.resume", who="me", why="a fix", id="once")
        assert await resumed(world) == [[b"a", b"b"], [b"c", b"d"], [b"e"]]
        assert done.height > 0
        assert (await handle.control("cell.resume", who="me", why="a fix", id="once")).duplicate
