"""A node is killed at random while workflows charge, wait, ask and clean up: each ends as if it had lived."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random

import pytest

from cellule.effects.adapter import AdapterLimits
from cellule.effects.http.adapter import HttpAdapter, HttpOptions
from cellule.host.outbox.rows import rows_range
from cellule.kernel.journal.records import IntentRecord, ReceiptRecord
from tests.support.kills import run_and_kill
from tests.support.nodes import load_app, records_of
from tests.support.places import FOLDER, POSTGRES_AND_S3, folder_place
from tests.support.servers.bank import Bank

pytestmark = pytest.mark.crash

FULL = os.environ.get("CELLULE_CRASH") == "full"
KILLS = 30 if FULL else 2
RUNS = 4 if FULL else 1
CHILD = Path(__file__).with_name("workflow_child.py")
JOURNEYS = load_app(Path(__file__).parents[1] / "node_apps" / "journeys.py")
LIMITS = AdapterLimits(timeout_s=5, backoff_s=0.005, backoff_max_s=0.05, needs_grant=True)
PAID = [f"{turn}/{what}" for turn in range(JOURNEYS.TURNS) for what in ("seat", "bed", "hold", "release")]


async def finish(place, trips, url):
    """A last life: the trips begin, those that are under way come to their end; how each ended."""
    async with place.open(JOURNEYS.app, adapters=[HttpAdapter(HttpOptions(limits=LIMITS))]) as node:
        await node.wait_owner()
        world = await node.world("trips")
        for trip in trips:
            await world.send(JOURNEYS.Booked(trip, url), id=trip)
            await world.send(JOURNEYS.Go(trip), id=f"go {trip}")
        ended = {}
        async with asyncio.timeout(120):
            for trip in trips:
                ended[trip] = await world.cell(JOURNEYS.journey, trip).wait_until(
                    lambda run: run is not None and run.status != "running", timeout=100
                )
        return ended


async def check_journal(place):
    """Every intent has exactly one receipt, the outbox is empty, and all of it restores and verifies."""
    [info] = await place.prove()
    async with place.store() as store:
        records = await records_of(store.engine, info)
        intents = [height for height, record in records if isinstance(record, IntentRecord)]
        settled = [record.cause for _, record in records if isinstance(record, ReceiptRecord)]
        assert sorted(settled) == intents
        page = await store.engine.scan(*rows_range(), limit=10)
        assert page.items == []


RUNS_OF = [*((FOLDER, seed) for seed in range(RUNS)), (POSTGRES_AND_S3, RUNS)]


@pytest.mark.parametrize(("place", "seed"), RUNS_OF, indirect=["place"])
async def test_workflows_of_a_killed_node_end_as_those_of_one_that_lived(place, seed, tmp_path):
    moments = Random(seed)
    with Bank(seed=seed, trouble=0.1) as bank:
        lived = await finish(folder_place(tmp_path / "lived"), ["unkilled"], bank.url)
        wanted = lived["unkilled"].result
        assert wanted[-1] == "gone"
        trips = []
        for life in range(KILLS):
            lines = moments.choice((0, 2, 5, moments.randrange(20)))
            words = await asyncio.to_thread(
                run_and_kill, CHILD, place.words(), str(life), bank.url, lines_before=lines
            )
            trips += [each[1] for each in words if each[0] == "ack"]
        ended = await finish(place, trips, bank.url)
        assert {trip: run.result for trip, run in ended.items()} == dict.fromkeys(trips, wanted)
        for trip in trips:
            keys = [set(bank.calls[f"/{trip}/{paid}"]) for paid in PAID]
            assert [len(each) for each in keys] == [1] * len(PAID), "every attempt of a request has one key"
    await check_journal(place)
