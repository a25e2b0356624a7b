"""A map of several frames becomes cells: on a node, by a guest, in `testing.World`, while events arrive."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import cellule
from cellule.assembly import Options
from cellule.errors import Parked
from cellule.host.read.reader import Reader
from cellule.kernel.decide import spills
from cellule.modules.python import PythonPrograms
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.store import DATABASE
from cellule.testing import World
from tests.support.nodes import check_store, load_app

APPS = Path(__file__).parents[1] / "node_apps"
STOCK_MAP, STOCK = load_app(APPS / "stock_map.py"), load_app(APPS / "stock_cells.py")
WHOLE, CELLS = load_app(APPS / "till_map.py"), load_app(APPS / "till_cells.py")
GUEST = Options(own=False, tune_process=False)
COUNT = 2_500


def test_a_map_of_three_frames_becomes_cells_in_a_test_world():
    world = World(STOCK_MAP.app)
    world.send(STOCK_MAP.Filled("i", COUNT))
    world.deploy(STOCK.app, migrate_cells=True)
    steps = [len(frame) for frame in world.host.frames]
    assert len(steps) >= 4
    world.send(STOCK.Counted("i7", 100))
    assert world.state(STOCK.item, "i7") == STOCK.Item(107)
    assert world.state(STOCK.item, "i2499") == STOCK.Item(2_499)
    assert len(world.cells(STOCK.item)) == COUNT
    world.assert_replays()


async def counted(node: Any, names: list[str]) -> None:
    world = await node.world("main")
    for _ in range(3):
        for name in names:
            await world.send(STOCK.Counted(name, 1_000))


@pytest.mark.parametrize("mover", ["owner", "guest"])
async def test_a_long_map_moves_while_events_for_its_keys_arrive(tmp_path, mover):
    names = ["i0", "i1700", "i2499", "new"]
    async with cellule.open(tmp_path, app=STOCK_MAP.app) as node:
        await (await node.world("main")).send(STOCK_MAP.Filled("i", COUNT))
    told: list[tuple[int, int]] = []
    async with (
        cellule.open(tmp_path, app=STOCK.app, deploy="never") as owner,
        cellule.open(tmp_path, app=STOCK.app, deploy="never", options=GUEST) as guest,
    ):
        node = owner if mover == "owner" else guest
        shown = await node.migrate_cells("main", dry_run=True)
        assert shown.modules["stock/item"].cells == COUNT
        async with asyncio.TaskGroup() as group:
            moving = group.create_task(
                node.migrate_cells("main", who="ada", why="it grew", progress=lambda *at: told.append(at))
            )
            await until_begun(owner)
            group.create_task(counted(owner, names))
        report = moving.result()
        assert report.modules["stock/item"].cells == COUNT
        assert told[-1] == (COUNT, COUNT)
        world = await owner.world("main")
        found = {name: (await world.cell(STOCK.item, name).state()).total for name in names}
        assert found == {"i0": 3_000, "i1700": 4_700, "i2499": 5_499, "new": 3_000}
        assert not (await node.migrate_cells("main")).modules
    programs = PythonPrograms()
    async with await SqliteEngine.open(tmp_path / DATABASE) as engine:
        await check_store(engine, programs)
    programs.close()


async def until_begun(node: Any) -> None:
    """Wait until the move has begun."""
    world = await node.world("main")
    reader, head = Reader(node.node, world.info), await world.head()
    async with asyncio.timeout(30):
        while len(await reader.eras()) == 1:
            head = await reader.next_head(head)


@pytest.fixture
def one_a_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spills, "SPILL_CELLS_PER_BEAT", 1)
    monkeypatch.setattr(spills, "SPILL_MESSAGES_PER_BEAT", 1)


async def test_a_node_that_was_closed_in_the_middle_goes_on_by_itself(tmp_path, one_a_beat):
    names = [f"n{number}" for number in range(8)]
    async with cellule.open(tmp_path, app=WHOLE.app) as node:
        world = await node.world("main")
        for number, name in enumerate(names):
            await world.send(WHOLE.Paid(name, number))
    async with cellule.open(tmp_path, app=CELLS.app, deploy="never") as node:
        moving = asyncio.ensure_future(node.migrate_cells("main"))
        await until_begun(node)
        moving.cancel()
        await asyncio.gather(moving, return_exceptions=True)
    async with cellule.open(tmp_path, app=CELLS.app, deploy="never") as node:
        world = await node.world("main")
        await world.send(CELLS.Paid("n3", 100))
        assert {cell.key: cell.state.total for cell in (await world.cells("till")).cells} == {
            name: number + (100 if name == "n3" else 0) for number, name in enumerate(names)
        }
        assert not (await node.migrate_cells("main")).modules


async def test_a_guest_hears_of_an_event_that_waited_for_the_map_from_its_new_cell(tmp_path, one_a_beat):
    async with cellule.open(tmp_path, app=WHOLE.app) as node:
        world = await node.world("main")
        await world.send(WHOLE.Paid("a", 1))
        await world.control("pause", who="ada", why="to see")
        with pytest.raises(Parked):
            await world.send(WHOLE.Paid("a", 10), id="kept")
    async with (
        cellule.open(tmp_path, app=CELLS.app, deploy="never") as owner,
        cellule.open(tmp_path, app=CELLS.app, deploy="never", options=GUEST) as guest,
    ):
        assert (await guest.migrate_cells("main")).modules["till/till"].messages == 1
        await (await owner.world("main")).control("resume", who="ada", why="seen")
        found = await (await guest.world("main")).wait_applied("kept", timeout=30)
        assert found.height
        assert await (await guest.world("main")).cell("till", "a").state() == CELLS.Sum(11)
