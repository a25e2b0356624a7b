"""A reducer with as many open intents as it may: its events wait, their senders are told, receipts go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cellule.effects.adapter import AdapterLimits, FunctionAdapter
from cellule.errors import Parked
from cellule.host.outbox.signatures import NodeKey
from cellule.modules.python import PythonPrograms
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from tests.support.nodes import check_store, load_app, open_node

ERRANDS = load_app(Path(__file__).parents[2] / "node_apps" / "errands.py")
BUILT = ERRANDS.app.build()
OPEN_MAX = 3


async def test_events_over_budget_are_kept_and_applied_once_receipts_make_room():
    gate = asyncio.Event()

    async def run(params: ERRANDS.Errand) -> ERRANDS.Ran:
        await gate.wait()
        return ERRANDS.Ran(params.name)

    run.__annotations__ = {"params": ERRANDS.Errand, "return": ERRANDS.Ran}
    adapter = FunctionAdapter("errands.run", run, AdapterLimits())
    programs = PythonPrograms()
    engine = MemoryEngine(MemoryDisk())
    async with open_node(engine, BUILT, programs, key=NodeKey(b"k" * 32), adapters=[adapter]) as node:
        world = await node.world("town")
        for number in range(OPEN_MAX):
            await world.send(ERRANDS.Asked(f"e{number}", 1))
        with pytest.raises(Parked, match="over budget"):
            await world.send(ERRANDS.Asked("late", 1), id="late-1")
        assert await world.cell(ERRANDS.job, "late").state() is None
        gate.set()
        applied = await world.wait_applied("late-1")
        assert len(applied.steps) == 1
        async with asyncio.timeout(10):
            while (await world.cell(ERRANDS.job, "late").state()).receipts == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    await check_store(engine, programs)
    programs.close()
