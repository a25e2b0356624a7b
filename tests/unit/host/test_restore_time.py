"""Snapshots bound how long opening takes after a crash: records and changed cells count, not only bytes."""

from __future__ import annotations

from pathlib import Path

from cellule.host.limits import RESTORE_CELL_S, RESTORE_CHUNK_S, RESTORE_RECORD_S
from cellule.host.own.directory import baseline_of
from cellule.host.run.snapshot_rows import restore_s
from cellule.host.storage.policy import StoragePolicy
from cellule.modules.python import PythonPrograms
from cellule.store import keys
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from tests.support.nodes import check_store, load_app, open_node

TALLY = load_app(Path(__file__).parents[2] / "node_apps" / "tally.py")
BUILT = TALLY.app.build()
LIMIT_S = 0.02
CELLS = 100
ROUNDS = 60


async def baseline(engine, info):
    [row] = await engine.read([keys.world_baseline(info.universe, info.id)])
    return baseline_of(row)[0]


async def test_a_snapshot_is_due_when_opening_would_take_too_long():
    """Small events at random made a tail that was short in bytes, and long to restore."""
    engine, programs = MemoryEngine(MemoryDisk()), PythonPrograms()
    async with open_node(engine, BUILT, programs, policy=StoragePolicy(snapshot_restore_s=LIMIT_S)) as node:
        world = await node.world("w")
        hosted = await node.node.hosted(world.info)
        longest_s = 0.0
        for _ in range(ROUNDS):
            await world.send_many([TALLY.Add(f"k{number}", 1) for number in range(CELLS)])
            height = await baseline(engine, world.info)
            longest_s = max(longest_s, restore_s(hosted.world.ledger, height))
        round_s = 2 * CELLS * RESTORE_RECORD_S + CELLS * RESTORE_CELL_S
        assert await baseline(engine, world.info) > 0
        assert longest_s <= LIMIT_S + 3 * round_s, (
            "a round makes it due, and a few may pass while it is written"
        )
    await check_store(engine, programs)
    programs.close()


async def test_the_estimate_goes_on_after_a_restart():
    engine, programs = MemoryEngine(MemoryDisk()), PythonPrograms()
    async with open_node(engine, BUILT, programs) as node:
        world = await node.world("w")
        await world.send_many([TALLY.Add(f"k{number}", 1) for number in range(CELLS)])
        assert not await baseline(engine, world.info)
    policy = StoragePolicy(snapshot_restore_s=CELLS * RESTORE_RECORD_S)
    async with open_node(engine, BUILT, programs, policy=policy) as node:
        world = await node.world("w")
        await world.send(TALLY.Add("k0", 1))
        await world.wait_idle()
        hosted = await node.node.hosted(world.info)
        assert restore_s(hosted.world.ledger, await baseline(engine, world.info)) < CELLS * RESTORE_RECORD_S
    await check_store(engine, programs)
    programs.close()


async def test_large_beats_do_not_outrun_the_snapshot_under_way(monkeypatch):
    """It got one slice a beat: the larger the beats, the longer the tail it left."""
    monkeypatch.setattr("cellule.kernel.state.snapshot.SLICE_NODES", 1)
    monkeypatch.setattr("cellule.host.run.snapshots.SNAPSHOT_SLICE_RECORDS", 2)
    engine, programs = MemoryEngine(MemoryDisk()), PythonPrograms()
    async with open_node(engine, BUILT, programs) as node:
        world = await node.world("w")
        await world.send_many([TALLY.Add(f"k{number}", 1) for number in range(1_000)])
        hosted = await node.node.hosted(world.info)
        taken = hosted._snapshots.ask()
        beats = 0
        while not taken.done():
            await world.send_many([TALLY.Add(f"k{number}", 1) for number in range(CELLS)])
            beats += 1
        slices = 1_000 // 32  # about as many leaves, and as many slices at the least
        assert beats < slices // 4
    await check_store(engine, programs)
    programs.close()


async def test_cells_that_lie_far_apart_cost_the_chunks_they_are_read_from():
    """Opening a world of a million cells took twice as long as was estimated: each cell had its own chunk."""
    engine, programs = MemoryEngine(MemoryDisk()), PythonPrograms()
    async with open_node(engine, BUILT, programs) as node:
        world = await node.world("w")
        await world.send_many([TALLY.Add(f"k{number:05}", 1) for number in range(3_000)])
        await world.snapshot()
        ledger = (await node.node.hosted(world.info)).world.ledger
        start = ledger.height
        assert restore_s(ledger, start) == 0
        await world.send_many([TALLY.Add(f"k{number:05}", 1) for number in range(0, 3_000, 30)])
        records_s = (ledger.height - start) * RESTORE_RECORD_S
        far_s = restore_s(ledger, start) - records_s - 100 * RESTORE_CELL_S
        assert 70 * RESTORE_CHUNK_S < far_s <= 100 * RESTORE_CHUNK_S
        await world.send_many([TALLY.Add(f"k{number:05}", 1) for number in range(3_000)])
        all_s = restore_s(ledger, start) - (ledger.height - start) * RESTORE_RECORD_S - 3_000 * RESTORE_CELL_S
        assert all_s < 3_000 / 10 * RESTORE_CHUNK_S  # there are no more chunks than that
    await check_store(engine, programs)
    programs.close()
