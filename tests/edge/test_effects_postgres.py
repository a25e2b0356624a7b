"""Effects on PostgreSQL: the same node, app and pool; what one process leaves open the next one finishes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import asyncpg

from cellule.effects.adapter import AdapterLimits, FunctionAdapter
from cellule.host.outbox.pool import PoolOptions
from cellule.host.outbox.rows import marker_range, place_range, rows_range
from cellule.host.outbox.signatures import NodeKey
from cellule.kernel.journal.records import IntentRecord, ReceiptRecord
from cellule.modules.python import PythonPrograms
from cellule.store.engines.postgres import PostgresEngine
from tests.support.nodes import check_store, load_app, open_node, records_of

ERRANDS = load_app(Path(__file__).parents[1] / "node_apps" / "errands.py")
BUILT = ERRANDS.app.build()
KEY = NodeKey(b"k" * 32)
LIMITS = AdapterLimits(timeout_s=5, attempts=4, concurrency=4, backoff_s=0.01, backoff_max_s=0.1)
ORDERS = 20


class Outside:
    """Runs errands, but not before the gate is open, and each only at the second attempt."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.visits: dict[str, set[str]] = {}

    def adapter(self):
        async def run(params: ERRANDS.Errand, attempt) -> ERRANDS.Ran:
            self.visits.setdefault(attempt.intent, set()).add(attempt.key)
            await self.gate.wait()
            if attempt.number == 1:
                raise RuntimeError("come again")
            return ERRANDS.Ran(params.name)

        run.__annotations__ = {"params": ERRANDS.Errand, "return": ERRANDS.Ran}
        return FunctionAdapter("errands.run", run, LIMITS)


async def test_open_effects_outlive_their_process_and_are_settled_once(postgres_server):
    outside = Outside()
    programs = PythonPrograms()
    options = {"key": KEY, "adapters": [outside.adapter()], "pool": PoolOptions(grace_s=0.05)}
    async with await PostgresEngine.open(await own_database(postgres_server.dsn)) as engine:
        async with open_node(engine, BUILT, programs, **options) as node:
            world = await node.world("town")
            for number in range(3):
                await world.send(ERRANDS.EffectRequest(f"e{number}", 1), id=f"e{number}", wait="durable")
            while len(outside.visits) < 3:  # noqa: ASYNC110 - visits have nothing to wait on
                await asyncio.sleep(0.01)
        outside.gate.set()
        async with open_node(engine, BUILT, programs, **options) as node:
            world = await node.world("town")
            for number in range(3, ORDERS):
                await world.send(ERRANDS.EffectRequest(f"e{number}", 1), id=f"e{number}", wait="durable")
            async with asyncio.timeout(30):
                while not await all_done(world):  # noqa: ASYNC110 - cells have nothing to wait on
                    await asyncio.sleep(0.05)
        [info] = await check_store(engine, programs)
        records = await records_of(engine, info)
        for begin, end in (rows_range(), place_range(), marker_range()):
            assert (await engine.scan(begin, end, limit=10)).items == []
    programs.close()
    intents = [height for height, record in records if isinstance(record, IntentRecord)]
    assert len(intents) == 2 * ORDERS
    assert sorted(record.cause for _, record in records if isinstance(record, ReceiptRecord)) == intents
    assert [len(keys) for keys in outside.visits.values()] == [1] * ORDERS


async def own_database(dsn):
    """A database that no other test writes to."""
    name = f"effects_{os.getpid()}"
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return dsn.rpartition("/")[0] + "/" + name


async def all_done(world):
    states = [await world.cell(ERRANDS.job, f"e{number}").state() for number in range(ORDERS)]
    return all(state is not None and (state.receipts, state.timers) == (1, 1) for state in states)
