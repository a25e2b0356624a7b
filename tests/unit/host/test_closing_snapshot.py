"""A clean close leaves a short tail, also when a snapshot was under way while events went on."""

from __future__ import annotations

from pathlib import Path

from cellule.host.journal import Journal
from cellule.host.own.directory import baseline_of, read_head
from cellule.modules.python import PythonPrograms
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from tests.support.nodes import check_store, load_app, open_node

TALLY = load_app(Path(__file__).parents[2] / "node_apps" / "tally.py")
BUILT = TALLY.app.build()
CLOSE_BYTES = 20_000


async def test_what_came_while_a_snapshot_was_written_is_in_another_one(monkeypatch):
    monkeypatch.setattr("cellule.host.run.snapshots.SNAPSHOT_CLOSE_BYTES", CLOSE_BYTES)
    monkeypatch.setattr("cellule.kernel.state.snapshot.SLICE_NODES", 1)
    engine, programs = MemoryEngine(MemoryDisk()), PythonPrograms()
    async with open_node(engine, BUILT, programs, snapshot_bytes=100_000) as node:
        world = await node.world("w")
        await world.send_many([TALLY.Keep(f"k{number}", "x" * 200) for number in range(500)])
        hosted = await node.node.hosted(world.info)
        while not hosted._snapshots.has_work:
            await world.send(TALLY.Keep("more", "x" * 200))
        await world.send_many([TALLY.Keep(f"k{number}", "y" * 200) for number in range(200)], wait="durable")
        info = world.info
    [baseline] = await engine.read([keys.world_baseline(info.universe, info.id)])
    height, _ = baseline_of(baseline)
    head = await read_head(engine, info)
    frames = Journal(engine, Cas(engine, info.universe), info.lineage).frames(height + 1, head.height)
    assert sum([len(frame) async for _, frame in frames]) <= CLOSE_BYTES
    await check_store(engine, programs)
    programs.close()
