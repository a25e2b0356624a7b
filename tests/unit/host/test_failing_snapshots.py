"""A snapshot that cannot be written never stops its world: it is tried again, and told to whoever looks."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from cellule.errors import Rejected
from cellule.host.own.directory import baseline_of
from cellule.host.trouble import read_trouble
from cellule.kernel.state.snapshot import SnapshotJob
from cellule.store import keys
from cellule.testing import VirtualClock
from tests.support.virtual_tests import in_virtual_time


@pytest.fixture
def broken(monkeypatch):
    """Snapshots fail in their last part; `attempts` has one entry for each."""
    attempts, sound = [], SnapshotJob._ordered

    def fall(self, index, pack=None):
        if self.height and index is self._ledger.book.keys and "mended" not in attempts:
            attempts.append(self.height)
            raise ZeroDivisionError("a defect of snapshots")
        return (yield from sound(self, index, pack))

    monkeypatch.setattr(SnapshotJob, "_ordered", fall)
    return attempts


async def baseline_height(node, world):
    [row] = await node.node.engine.read([keys.world_baseline(world.info.universe, world.id)])
    return baseline_of(row)[0]


def quiet():
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)


@in_virtual_time
async def test_a_world_goes_on_without_a_snapshot_and_gets_one_later(opened, tally, broken):
    """A list that was one block too long for the store ended the world, and every start after it."""
    async with opened(snapshot_bytes=20_000, clock=VirtualClock(), idle_s=1e6) as node:
        quiet()
        world = await node.world("w")
        for round_ in range(5):
            await world.send_many([tally.Keep(f"k{number}", "x" * 200) for number in range(100)])
            await world.send(tally.Add("a", 1), id=f"i{round_}")
        assert await baseline_height(node, world) == 0
        trouble = await read_trouble(node.node.engine, world.info.universe, world.id)
        assert "a defect of snapshots" in trouble.why
        await asyncio.sleep(36)
        trouble = await read_trouble(node.node.engine, world.info.universe, world.id)
        assert trouble.attempts == 4
        broken.append("mended")
        await asyncio.sleep(60)
        assert await baseline_height(node, world)
        assert await read_trouble(node.node.engine, world.info.universe, world.id) is None
        await world.send(tally.Add("a", 1))
        assert (await world.cell(tally.account, "a").state()).total == 6


@in_virtual_time
async def test_pauses_between_attempts_grow(opened, tally, broken):
    async with opened(snapshot_bytes=20_000, clock=VirtualClock(), idle_s=1e6) as node:
        quiet()
        world = await node.world("w")
        await world.send_many([tally.Keep(f"k{number}", "x" * 200) for number in range(200)])
        await world.send(tally.Add("a", 1))
        counts = []
        for _ in range(40):
            counts.append(len(broken))
            await asyncio.sleep(1)
        seconds = [counts.index(count) for count in (1, 2, 3, 4)]
        pauses = [after - before for before, after in pairwise(seconds)]
        assert [round(pause / 5) for pause in pauses] == [1, 2, 4]
        broken.append("mended")


@in_virtual_time
async def test_whoever_asks_for_a_snapshot_is_told_why_there_is_none(opened, tally, broken):
    """The request of another process was never answered."""
    async with opened(clock=VirtualClock()) as node, opened(owner=False) as other:
        quiet()
        world, far = await node.world("w"), await other.world("w")
        await world.send(tally.Add("a", 1))
        hosted = await node.node.hosted(world.info)
        with pytest.raises(ZeroDivisionError):
            await hosted.snapshot_now()
        with pytest.raises(Rejected, match="a defect of snapshots"):
            await far._remote.snapshot("me", "now")
        await world.send(tally.Add("a", 1))
        broken.append("mended")


@in_virtual_time
async def test_a_close_does_not_wait_for_a_snapshot_that_cannot_be_written(opened, tally, broken):
    async with opened(snapshot_bytes=20_000, clock=VirtualClock(), idle_s=1e6) as node:
        quiet()
        world = await node.world("w")
        await world.send_many([tally.Keep(f"k{number}", "x" * 200) for number in range(200)])
    async with opened() as node:
        world = await node.world("w")
        assert (await world.cell(tally.shelf, "k7").state()) is not None
        broken.append("mended")
        height, _ = await (await node.node.hosted(world.info)).snapshot_now()
        assert height > 200
