"""How a node ends: whatever its store, its pool or its adapters do, it ends, and what it accepted is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cellule.effects.adapter import AdapterLimits, FunctionAdapter
from cellule.errors import Unavailable
from cellule.host.outbox.signatures import NodeKey
from cellule.store.engines.memory import MemoryEngine
from cellule.testing import Fault, FaultyEngine
from cellule.testing.faults import CALM
from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

ERRANDS = load_app(Path(__file__).parents[2] / "node_apps" / "errands.py")
KEY = NodeKey(b"k" * 32)


class Errands(FunctionAdapter):
    """An adapter that cannot be closed if it has an `error`."""

    error = None

    async def close(self):
        if self.error is not None:
            raise self.error


def errands(meanwhile):
    """An adapter that calls `meanwhile` in every attempt."""

    async def run(params: ERRANDS.Errand, attempt) -> ERRANDS.Ran:
        meanwhile()
        return ERRANDS.Ran(params.name)

    run.__annotations__ = {"params": ERRANDS.Errand, "return": ERRANDS.Ran}
    return Errands("errands.run", run, AdapterLimits())


@in_virtual_time
async def test_a_cancelled_node_ends_though_the_store_never_answers_its_pool(opened):
    """A pool that was not told of the cancellation waited for its receipt for ever."""
    engine = FaultyEngine(MemoryEngine(opened.disk), CALM)
    frozen = asyncio.Event()

    def cut():
        engine.freeze()
        frozen.set()

    async def serve():
        options = {"key": KEY, "adapters": [errands(cut)], "stall_s": 3.0}
        async with opened(engine, ERRANDS.app, **options) as node:
            await (await node.world("w")).send(ERRANDS.Asked("e0", 1), wait="durable")
            await asyncio.sleep(3_600)

    serving = asyncio.create_task(serve())
    await frozen.wait()
    await asyncio.sleep(1)
    serving.cancel()
    await asyncio.wait([serving], timeout=600)
    assert serving.cancelled()


@pytest.mark.parametrize("error", [Unavailable("test.away", "away"), RuntimeError("a defect")])
@in_virtual_time
async def test_an_adapter_that_fails_to_close_is_told_and_the_worlds_still_finish(opened, error, caplog):
    """`Unavailable` was taken for a store that failed at the start, and the worlds were never closed."""
    adapter = errands(lambda: None)
    adapter.error = error
    slow = Slow()
    engine = FaultyEngine(MemoryEngine(opened.disk), slow)

    async def serve():
        async with opened(engine, ERRANDS.app, key=KEY, adapters=[adapter]) as node:
            world = await node.world("w")
            slow.on = Fault(before_ns=500_000_000)
            return await world.send_nowait(ERRANDS.Asked("e0", 1))

    serving = asyncio.create_task(serve())
    await asyncio.wait([serving], timeout=600)
    assert serving.done()
    assert serving.exception() is None
    assert "closing the adapter" in caplog.text
    slow.on = Fault()
    async with opened(engine, ERRANDS.app) as node:
        job = await (await node.world("w")).cell(ERRANDS.job, "e0").state()
        assert job.asked == 1


class Slow:
    """Commits that take a while, once `on` says so."""

    def __init__(self):
        self.on = Fault()

    def fault(self, operation, number, entropy):
        return self.on if operation == "commit" else Fault()

    def late_ns(self, entropy):
        return 0
