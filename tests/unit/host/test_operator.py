"""A person at work on a node: events dropped, cells deleted, dead letters redriven and dismissed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellule import Parked, Rejected, StepFailed
from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

FRAIL = load_app(Path(__file__).parents[2] / "node_apps" / "frail.py")


async def halted(world, *names):
    for name in names:
        with pytest.raises(StepFailed):
            await world.send(FRAIL.Work(name, good=False), id=f"bad {name}")


@in_virtual_time
async def test_a_bricked_key_works_again_after_a_drop(opened):
    async with opened(app=FRAIL.app) as node:
        world = await node.world("w")
        await halted(world, "a")
        with pytest.raises(Parked):
            await world.send(FRAIL.Work("a", good=True), id="behind")
        done = await world.operator("ada").drop(FRAIL.strict, "a", why="sent by mistake")
        assert done.height
        await world.wait_applied("behind")
        assert await world.cell(FRAIL.strict, "a").state() == FRAIL.Count(1)
        with pytest.raises(StepFailed, match="dropped by ada") as caught:
            await world.wait_applied("bad a")
        assert caught.value.code == "kernel.dropped"
        with pytest.raises(StepFailed, match="dropped by ada"):
            await world.send(FRAIL.Work("a", good=False), id="bad a")


@in_virtual_time
async def test_a_verb_about_a_cell_that_is_not_there_names_its_key_as_people_write_it(opened):
    async with opened(app=FRAIL.app) as node:
        ada = (await node.world("w")).operator("ada")
        for verb in (ada.drop, ada.resume, ada.delete):
            with pytest.raises(Rejected, match=r"cell frail/strict/b 7\b"):
                await verb(FRAIL.strict, "b 7", why="a slip")
        with pytest.raises(Rejected, match=r"no dead letter at height 77\. `cellule letter list`"):
            await ada.redrive(77, why="a slip")


@in_virtual_time
async def test_cells_are_dropped_and_deleted_in_bulk_and_every_one_is_journaled(opened):
    async with opened(app=FRAIL.app) as node:
        world = await node.world("w")
        names = [f"n{number}" for number in range(5)]
        await world.send_many([FRAIL.Work(name, good=True) for name in names])
        await halted(world, *names)
        ada = world.operator("ada")
        await ada.drop(FRAIL.strict, why="all of them")
        assert {each.status for each in (await world.cells(FRAIL.strict)).cells} == {"waiting"}
        done = await ada.delete(FRAIL.strict, *names, why="a test account")
        assert len({each.height for each in done}) == 5
        assert (await world.cells(FRAIL.strict)).cells == []
        with pytest.raises(Rejected, match="there is no cell"):
            await ada.delete(FRAIL.strict, "n1", why="again")


@in_virtual_time
async def test_dead_letters_of_events_are_redriven_and_dismissed(opened):
    async with opened(app=FRAIL.app) as node:
        world = await node.world("w")
        for name in ("a", "b", "c"):
            with pytest.raises(StepFailed):
                await world.send(FRAIL.Try(name))
        first, second, third = await world.dead_letters()
        ada = world.operator("ada")
        await ada.redrive(first.height, why="fixed")
        await world.send(FRAIL.Work("x", good=True))
        again = (await world.dead_letters())[-1]
        assert (again.schema, again.key) == (first.schema, first.key)
        with pytest.raises(Rejected, match="there is no dead letter") as refused:
            await ada.dismiss(first.height, second.height, why="not needed")
        assert refused.value.__notes__ == ["1 of 2 were refused; the others are done"]
        assert [each.height for each in await world.dead_letters()] == [third.height, again.height]


@in_virtual_time
async def test_nobody_does_nothing(opened):
    async with opened(app=FRAIL.app) as node:
        world = await node.world("w")
        with pytest.raises(Rejected) as caught:
            world.operator("")
        assert caught.value.code == "host.no_who"
