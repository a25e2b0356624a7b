"""A node brings a changed app into a world only as far as the world's cells can follow."""

from __future__ import annotations

import msgspec
import pytest

from cellule.app import App, Step
from cellule.errors import Rejected
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing.app_programs import AppPrograms
from tests.support.nodes import open_node


class Added(msgspec.Struct, frozen=True):
    name: str


class Count(msgspec.Struct, frozen=True):
    count: int = 0


def total(state: Count | None, event: Added) -> Step[Count]:
    return Step(Count((state or Count()).count + 1))


def audit(state: Count | None, event: Added) -> Step[Count]:
    return Step(Count((state or Count()).count + 1))


def built(*reducers):
    app = App("town")
    app.event(key="name")(Added)
    for each in reducers:
        app.reducer(each)
    return app.build(live=True)


async def opened(disk, made, events):
    programs = AppPrograms(guard=False, limit_s=None)
    programs.add(built(total, audit))
    programs.add(made)
    try:
        async with open_node(MemoryEngine(disk), made, programs) as node:
            world = await node.world("w")
            for event in events:
                await world.send(event)
            hosted = await node.node.hosted(world.info)
            return list(hosted.world.eras.current.manifest.modules)
    finally:
        programs.close()


async def test_a_reducer_that_has_cells_cannot_be_left_out():
    disk = MemoryDisk()
    await opened(disk, built(total, audit), [Added("a")])
    with pytest.raises(Rejected, match="town/audit"):
        await opened(disk, built(total), [])


async def test_a_reducer_without_cells_can_be_left_out():
    disk = MemoryDisk()
    await opened(disk, built(total, audit), [])
    assert await opened(disk, built(total), [Added("a")]) == ["town/total"]
