"""Merging: disjoint changes of cells as journaled steps; overlapping ones are refused and told."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cellule.errors import Rejected
from cellule.kernel.journal.records import StepRecord
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing import VirtualClock, run
from tests.support.nodes import check_store, load_app, open_node, records_of
from tests.support.virtual_tests import in_virtual_time

TALLY = load_app(Path(__file__).parents[3] / "node_apps" / "tally.py")


@pytest.fixture
def on_node(programs):
    def play(main, seed=0, **more):
        async def whole():
            disk = MemoryDisk()

            @asynccontextmanager
            async def opened(**options):
                async with open_node(
                    MemoryEngine(disk), TALLY.app.build(), programs, clock=VirtualClock(), **options
                ) as node:
                    yield node

            await main(opened)
            await check_store(MemoryEngine(disk), programs)

        run(whole, seed=seed, **more)

    return play


async def total(world, account):
    state = await world.cell(TALLY.account, account).state()
    return None if state is None else state.total


def names(cells):
    return {each.key.decode() for each in cells}


@in_virtual_time
async def test_what_only_the_fork_changed_comes_back_as_steps(node):
    world = await node.world("w")
    for account in ("same", "changes", "goes", "ours"):
        await world.send(TALLY.Add(account, 1))
    fork = await world.fork("try")
    await fork.send(TALLY.Add("changes", 10))
    await fork.send(TALLY.Add("new", 5))
    await fork.send(TALLY.Keep("long", "x" * 20_000))
    await fork.control("cell.delete", who="ann", why="no more", module="tally/account", key=b"goes")
    await world.send(TALLY.Add("ours", 100))
    before = (await world.head()).height
    found = await node.merge_worlds("try", "w", dry_run=True)
    assert (await world.head()).height == before
    assert names(found.merged) == {"changes", "new", "goes", "long"}
    done = await node.merge_worlds("try", "w", who="ann", why="it holds")
    assert (names(done.merged), done.overlaps, done.left) == (names(found.merged), (), ())
    assert [await total(world, account) for account in ("same", "changes", "goes", "ours", "new")] == [
        1, 11, None, 101, 5,
    ]  # fmt: skip
    steps = {
        record.key.decode()
        for height, record in await records_of(node.node.engine, world.info)
        if height > before and isinstance(record, StepRecord) and "control" in record.extras
    }
    assert steps == {"changes", "new", "goes", "long"}
    await world.send(TALLY.Add("changes", 1))
    assert await total(world, "changes") == 12
    [newest, merged, *_] = await world.cell(TALLY.account, "changes").history()
    assert (newest.state.total, merged.state.total) == (12, 11)
    again = await node.merge_worlds("try", "w", dry_run=True)
    assert names(again.overlaps) == {"changes"}  # both have it, and it went on


@in_virtual_time
async def test_what_both_changed_is_refused_whole_and_listed(node):
    world = await node.world("w")
    for account in ("a", "b"):
        await world.send(TALLY.Add(account, 1))
    fork = await world.fork("try")
    for account in ("a", "b"):
        await fork.send(TALLY.Add(account, 10))
    await world.send(TALLY.Add("a", 100))
    with pytest.raises(Rejected, match="1 cells were changed in both worlds: tally/account/a"):
        await node.merge_worlds("try", "w")
    assert await total(world, "b") == 1
    found = await node.merge_worlds("try", "w", dry_run=True)
    assert (names(found.overlaps), names(found.merged)) == ({"a"}, {"b"})


@in_virtual_time
async def test_a_cell_that_moved_on_meanwhile_or_is_stopped_is_left_out(node):
    world = await node.world("w")
    for account in ("a", "b"):
        await world.send(TALLY.Add(account, 1))
    fork = await world.fork("try")
    for account in ("a", "b"):
        await fork.send(TALLY.Add(account, 10))
    await world.control("cell.halt", who="ann", why="wait", module="tally/account", key=b"a")
    found = await node.merge_worlds("try", "w")
    assert [(each.key, each.outcome) for each in found.left] == [(b"a", "it is stopped")]
    assert names(found.merged) == {"b"}
    state = (await fork.cell(TALLY.account, "b").view()).version
    with pytest.raises(Rejected, match="is not what was looked at"):
        await world.control(
            "cell.merge", who="ann", why="", module="tally/account", key=b"b", version=state + 9, born=1
        )
    with pytest.raises(Rejected, match="cells of tally/none cannot be merged"):
        await world.control("cell.merge", who="ann", why="", module="tally/none", key=b"b", version=0, born=0)
    with pytest.raises(Rejected, match="does not fit"):
        await world.control(
            "cell.merge",
            who="ann",
            why="",
            module="tally/account",
            key=b"z",
            version=0,
            born=0,
            state=[b"\x01"],
        )


@in_virtual_time
async def test_forks_beside_each_other_merge_and_strangers_do_not(node):
    world = await node.world("w")
    await world.send(TALLY.Add("a", 1))
    one, other = await world.fork("one"), await world.fork("other")
    await one.send(TALLY.Add("of one", 1))
    await other.send(TALLY.Add("of other", 1))
    found = await node.merge_worlds("one", "other")
    assert names(found.merged) == {"of one"}
    assert await total(other, "of one") == 1
    await node.create_world("stranger")
    with pytest.raises(Rejected, match="share no history"):
        await node.merge_worlds("stranger", "w")


@in_virtual_time
async def test_a_cell_that_takes_a_state_over_ends_when_it_would_have_ended(node):
    """Its retention counts from its birth, whoever gave it the state it has."""
    world = await node.world("w")
    await world.send(TALLY.Poke("soon"))
    fork = await world.fork("try")
    await asyncio.sleep(20)
    await fork.send(TALLY.Poke("soon"))
    done = await node.merge_worlds("try", "w", who="ann", why="tried")
    assert names(done.merged) == {"soon"}
    assert (await world.cell(TALLY.brief, "soon").state()).count == 2
    await asyncio.sleep(15)
    assert await world.cell(TALLY.brief, "soon").state() is None
