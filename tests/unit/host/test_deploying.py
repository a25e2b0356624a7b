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


async def test_a_reducer_without_cells_can_be_left_out_and_that_is_said_aloud(caplog):
    disk = MemoryDisk()
    await opened(disk, built(total, audit), [])
    assert await opened(disk, built(total), [Added("a")]) == ["town/total"]
    [told] = [each for each in caplog.records if "deployed the app to world w" in each.message]
    assert (told.levelname, "town/audit" in told.message) == ("WARNING", True)


async def test_a_reducer_without_cells_may_get_another_key():
    disk = MemoryDisk()
    await opened(disk, keyed_by("name"), [])
    assert await opened(disk, keyed_by("other"), [Named("a", "b")]) == ["town/total"]
    with pytest.raises(Rejected, match="comes from elsewhere: this requires migration"):
        await opened(disk, keyed_by("name", Tick, Named), [])


async def test_a_key_that_comes_back_with_another_field_is_refused_while_cells_live():
    """Dropping the subscription in one deploy and adding it again in the next passed the rule."""
    disk = MemoryDisk()
    await opened(disk, keyed_by("name"), [Named("a", "b")])
    await opened(disk, keyed_by("name", Tick), [])
    with pytest.raises(Rejected, match="came from elsewhere before: this requires migration"):
        await opened(disk, keyed_by("other", Tick, Named), [])
    assert await opened(disk, keyed_by("name", Tick, Named), [Named("a", "b")]) == ["town/total"]


async def test_an_app_that_the_world_ran_before_never_comes_back_by_itself(caplog):
    disk = MemoryDisk()
    await opened(disk, built(total), [Added("a")])
    await opened(disk, built(total, audit), [Added("a")])
    modules = await opened(disk, built(total), [Added("a")])
    assert sorted(modules) == ["town/audit", "town/total"]
    assert "has moved on from this app" in caplog.text


class Named(msgspec.Struct, frozen=True):
    name: str
    other: str


class Tick(msgspec.Struct, frozen=True):
    name: str


def keyed_by(field, *events):
    """A town whose one reducer takes events by a field."""
    app = App("town")
    app.event(Named)
    app.event(key="name")(Tick)

    def of(state: Count | None, event: Named) -> Count:
        return Count((state or Count()).count + 1)

    def of_ticks(state: Count | None, event: Tick) -> Count:
        return Count((state or Count()).count + 1)

    def of_both(state: Count | None, event: Tick | Named) -> Count:
        return Count((state or Count()).count + 1)

    chosen = {(): of, (Tick,): of_ticks}.get(events, of_both)
    keys = {} if chosen is of_ticks else {"key": {Named: field}}
    app.reducer(name="total", **keys)(chosen)
    return app.build(live=True)
