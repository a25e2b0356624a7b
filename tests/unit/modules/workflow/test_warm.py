"""The coroutine as a cache: warm and cold alike, by world."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from cellule import Rejected, Workflow
from cellule.kernel.items import EventItem, Pace
from cellule.modules.kinds import CodeKinds
from cellule.modules.workflow.program import WorkflowProgram
from cellule.values import encode
from tests.support.kernel_world import KernelWorld
from tests.support.workflows import Paid, Placed, Shop


def made() -> Any:
    """A workflow of a function, so that it runs as it stands."""

    async def order(ctx: Workflow, new: Placed) -> int:
        return new.cents + (await ctx.event(Paid)).cents

    return order


def program_of(world: KernelWorld) -> WorkflowProgram:
    era = world.world.eras.current
    return era.programs["shop/order"]


def sent(world: KernelWorld, name: str, key: str) -> None:
    world.beat([EventItem(f"shop/{name}@1", encode({"order": key, "cents": 1}))])


def test_the_general_way_writes_the_same_bytes_as_the_short_ones():
    built = Shop(made()).app.build(live=True)
    frames = []
    for fast in (True, False):
        programs = CodeKinds(live=built.descriptions)
        world = KernelWorld(built.manifest.data, programs, pace=Pace(100, 100), fast=fast)
        world.cas.update(built.blocks)
        for key in ("o1", "o2"):
            sent(world, "Placed", key)
        sent(world, "Paid", "o1")
        frames.append(world.frames)
        programs.close()
    assert frames[0] == frames[1]


def test_a_world_that_leaves_memory_takes_its_coroutines_along():
    built = Shop(made()).app.build(live=True)
    programs = CodeKinds(live=built.descriptions)
    worlds = [
        KernelWorld(built.manifest.data, programs, pace=Pace(100, 100), world_id=UUID(int=number))
        for number in (1, 2)
    ]
    for world in worlds:
        world.cas.update(built.blocks)
        sent(world, "Placed", "o1")
    program = program_of(worlds[0])
    assert program is program_of(worlds[1])
    assert len(program._warm) == 2
    worlds[0].world.eras.forget(UUID(int=1).bytes)
    assert [world for world, _ in program._warm] == [UUID(int=2).bytes]
    programs.close()
    assert program._warm == {}


async def order(ctx: Workflow, new: Placed) -> int:
    return (await ctx.event(Paid)).cents


def test_a_workflow_that_is_declared_away_from_its_function_is_refused_at_build():
    with pytest.raises(Rejected) as refused:
        Shop(order)
    assert refused.value.code == "workflow.event_unknown"
    assert "@app.workflow(events=[...])" in str(refused.value)
