"""Stores by address: the node's own tests through the public API, on every kind of store."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

import cellule
from cellule.effects.adapter import AdapterLimits, FunctionAdapter
from cellule.errors import Parked, Rejected, StepFailed
from cellule.host.outbox.rows import marker_range, place_range, rows_range
from cellule.kernel.journal.records import IntentRecord, ReceiptRecord
from cellule.kernel.state.module_cells import Budget
from tests.support.changed_apps import FIRST
from tests.support.nodes import load_app, records_of
from tests.support.places import FOLDER_AND_OBJECTS, POSTGRES_AND_S3

APPS = Path(__file__).parents[1] / "node_apps"
TALLY = load_app(APPS / "tally.py")
ERRANDS = load_app(APPS / "errands.py")
LARGE = "x" * 30_000
LIMITS = AdapterLimits(timeout_s=5, attempts=4, concurrency=4, backoff_s=0.01, backoff_max_s=0.1)
ORDERS = 20
with_objects = pytest.mark.parametrize("place", [FOLDER_AND_OBJECTS, POSTGRES_AND_S3], indirect=True)


async def test_a_state_over_16_kb_is_kept_and_found_again(place):
    """Broke on an object store: the frame's batch refused its block, and the world ended."""
    async with place.open(TALLY.app) as node:
        world = await node.world("w")
        first = await world.send(TALLY.Keep("a", LARGE))
        await world.send(TALLY.Keep("a", "y" * 17_000))
        await world.send(TALLY.Keep("b", "small"))
    async with place.open(TALLY.app) as node:
        world = await node.world("w")
        assert (await world.cell(TALLY.shelf, "a").state()).text == "y" * 17_000
        assert (await world.cell(TALLY.shelf, "a").state(at=first.height + 1)).text == LARGE


async def test_memory_is_a_store_for_as_long_as_it_is_open():
    async with cellule.open("memory:", TALLY.app) as node:
        world = await node.world("w")
        await world.send(TALLY.Keep("a", LARGE))
        assert (await world.cell(TALLY.shelf, "a").state()).text == LARGE
    async with cellule.open("memory:", TALLY.app) as node:
        assert await node.worlds() == []


async def test_sends_are_durable_applied_or_answered_and_their_failures_told(place):
    async with place.open(TALLY.app) as node:
        world = await node.world("w")
        await world.send(TALLY.Add("a", 5), id="one", wait="durable")
        assert (await world.send(TALLY.Add("a", 2), wait="reply")).reply == 7
        assert len((await world.send(TALLY.Both("a"))).steps) == 2
        await world.send_many([TALLY.Add(f"k{number:03}", 1) for number in range(300)])
        with pytest.raises(StepFailed):
            await world.send(TALLY.Fail("a"), id="bad")
        with pytest.raises(Parked):
            await world.send(TALLY.Add("a", 1), id="behind it")
        with pytest.raises(Rejected):
            await world.send(TALLY.Unheard("nobody"))
        assert (await world.send(TALLY.Add("a", 5), id="one", wait="durable")).duplicate
    async with place.open(TALLY.app) as node:
        world = await node.world("w")
        assert await world.cell(TALLY.account, "a").state() == TALLY.Account(7, 3)
        assert await world.cell(TALLY.account, "k299").state() == TALLY.Account(1, 1)
        assert len(await world.cell(TALLY.account, "a").history()) == 4


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


@with_objects
async def test_open_effects_and_timers_outlive_their_process_and_are_settled_once(place):
    outside = Outside()
    async with place.open(ERRANDS.app, adapters=[outside.adapter()]) as node:
        world = await node.world("town")
        for number in range(3):
            await world.send(ERRANDS.Asked(f"e{number}", 1), id=f"e{number}", wait="durable")
        while len(outside.visits) < 3:  # noqa: ASYNC110 - visits have nothing to wait on
            await asyncio.sleep(0.01)
    outside.gate.set()
    async with place.open(ERRANDS.app, adapters=[outside.adapter()]) as node:
        world = await node.world("town")
        for number in range(3, ORDERS):
            await world.send(ERRANDS.Asked(f"e{number}", 1), id=f"e{number}", wait="durable")
        async with asyncio.timeout(60):
            while not await all_done(world):  # noqa: ASYNC110 - cells have nothing to wait on
                await asyncio.sleep(0.05)
        engine = node.node.engine
        records = await records_of(engine, world.info)
        for begin, end in (rows_range(), place_range(), marker_range()):
            assert (await engine.scan(begin, end, limit=10)).items == []
    intents = [height for height, record in records if isinstance(record, IntentRecord)]
    assert len(intents) == 2 * ORDERS
    assert sorted(record.cause for _, record in records if isinstance(record, ReceiptRecord)) == intents
    assert [len(keys) for keys in outside.visits.values()] == [1] * ORDERS


async def all_done(world):
    states = [await world.cell(ERRANDS.job, f"e{number}").state() for number in range(ORDERS)]
    return all(state is not None and (state.receipts, state.timers) == (1, 1) for state in states)


async def test_a_world_is_there_again_after_a_restart(place):
    async with place.open(TALLY.app) as node:
        await (await node.world("w")).send(TALLY.Add("a", 1), id="one")
    async with place.open(TALLY.app) as node:
        world = await node.world("w")
        assert await world.cell(TALLY.account, "a").state() == TALLY.Account(1, 1)
        assert (await world.send(TALLY.Add("a", 1), id="one")).duplicate


async def test_the_stored_code_runs_without_the_app(place):
    async with place.open(TALLY.app) as node:
        await (await node.world("w")).send(TALLY.Add("a", 1))
    async with place.open() as node:
        world = await node.world("w")
        await world.send(("Add", {"account": "a", "amount": 2}))
        assert await world.cell("tally/account", "a").state() == {"count": 2, "total": 3}
        with pytest.raises(Rejected) as caught:
            await world.send(("Adds", {}))
        assert (caught.value.code, "Add" in str(caught.value)) == ("host.no_event", True)
        with pytest.raises(Rejected) as caught:
            await node.create_world("v")
        assert caught.value.code == "host.no_app"


async def test_two_hundred_tasks_share_a_node_while_worlds_leave_and_return(place):
    async with place.open(TALLY.app, snapshot_bytes=100_000) as node:
        worlds = [await node.world(f"w{number}") for number in range(3)]

        async def send(task):
            world = worlds[task % 3]
            for number in range(10):
                await world.send(TALLY.Add(f"k{task % 11}", 1), id=f"{task}/{number}")

        async def let_go():
            while True:
                for world in worlds:
                    await node.node.release(world.info)
                    await asyncio.sleep(0)

        releasing = asyncio.create_task(let_go())
        await asyncio.gather(*(send(task) for task in range(200)))
        releasing.cancel()
        with suppress(asyncio.CancelledError):
            await releasing
        total = 0
        for world in worlds:
            for number in range(11):
                state = await world.cell(TALLY.account, f"k{number}").state()
                total += 0 if state is None else state.count
        assert total == 2_000


async def test_a_world_larger_than_its_memory_spills_and_is_the_same(place, tmp_path):
    (tmp_path / "scratch").mkdir()
    budget = Budget(hot_cells_max=50, dirty_bytes_max=20_000, nodes_bytes_max=20_000)
    async with place.open(TALLY.app, budget=budget, scratch=tmp_path / "scratch") as node:
        world = await node.world("w")
        for _ in range(3):
            await world.send_many([TALLY.Add(f"k{number}", 1) for number in range(1_500)])
        ledger = (await node.node.hosted(world.info)).world.ledger
        assert ledger.spill is not None
        assert ledger.modules["tally/account"].live.dirty_bytes <= 20_000
        assert (await world.cell(TALLY.account, "k7").state()).count == 3
    assert list((tmp_path / "scratch").iterdir()) == []


async def test_a_compatible_change_is_deployed_and_journaled(place, versions):
    first = versions("first", FIRST)
    second = versions("second", FIRST.replace("+ event.weight", "+ 10 * event.weight"))
    async with place.open(first.app) as node:
        await (await node.world("w")).send(first.Ping("a"))
    async with place.open(second.app, deploy="require") as node:
        with pytest.raises(Rejected) as caught:
            await node.world("w")
        assert caught.value.code == "host.deploy_required"
    async with place.open(second.app, deploy="never") as node:
        world = await node.world("w")
        await world.send(second.Ping("a"))
        assert (await world.cell(second.count, "a").state()).total == 2
    async with place.open(second.app) as node:
        world, same = await asyncio.gather(node.world("w"), node.world("w"))
        await world.send(second.Ping("a"))
        assert (await same.cell(second.count, "a").state()).total == 12
        eras = (await node.node.hosted(world.info)).world.ledger.eras
        assert len(eras) == 2


async def test_an_incompatible_change_is_refused_with_the_difference_and_changes_nothing(place, versions):
    first = versions("first", FIRST)
    other = versions("other", FIRST.replace("total: int = 0", "total: str = ''").replace(
        "(state or Count()).total + event.weight", "(state or Count()).total + str(event.weight)"
    ))  # fmt: skip
    async with place.open(first.app) as node:
        world = await node.world("w")
        await world.send(first.Ping("a"))
        before = await world.head()
    async with place.open(other.app) as node:
        with pytest.raises(Rejected) as caught:
            await node.world("w")
        assert "total" in str(caught.value)
    async with place.open() as node:
        world = await node.world("w")
        assert await world.head() == before
        await world.send(("Ping", {"name": "a"}))
        assert await world.cell("count", "a").state() == {"total": 2}
