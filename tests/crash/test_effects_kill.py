"""A node with effects is killed at random between intent and receipt: one key, one receipt, nothing lost."""

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
from tests.support.places import FOLDER, POSTGRES_AND_S3
from tests.support.servers.bank import Bank

pytestmark = pytest.mark.crash

FULL = os.environ.get("CELLULE_CRASH") == "full"
KILLS = 30 if FULL else 4
RUNS = 4 if FULL else 2
CHILD = Path(__file__).with_name("effects_child.py")
PAYMENTS = load_app(Path(__file__).parents[1] / "node_apps" / "payments.py")
LIMITS = AdapterLimits(timeout_s=5, backoff_s=0.005, backoff_max_s=0.05, needs_grant=True)


def acknowledged_before_kill(place, life, url, moments):
    """Let a child place orders until it acknowledged so many, kill it, return those it acknowledged."""
    wanted = moments.choice((0, 1, 2, 5, moments.randrange(60)))
    words = run_and_kill(CHILD, place.words(), str(life), url, lines_before=wanted)
    return [word[1] for word in words if word[0] == "ack"]


async def finish(place, orders):
    """A last life, which lets everything come to its end."""
    async with place.open(PAYMENTS.app, adapters=[HttpAdapter(HttpOptions(limits=LIMITS))]) as node:
        await node.wait_owner()
        world = await node.world("shop")
        states = {}
        async with asyncio.timeout(60):
            while len(states) < len(orders):
                for name in orders:
                    state = await world.cell(PAYMENTS.order, name).state()
                    if state is not None and state.status not in ("placed", "charged"):
                        states[name] = state
                await asyncio.sleep(0.01)
        return states


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
async def test_a_killed_node_charges_with_one_key_and_applies_one_receipt(place, seed):
    moments = Random(seed)
    with Bank(seed=seed, trouble=0.2) as bank:
        acknowledged = []
        for life in range(KILLS):
            acknowledged += await asyncio.to_thread(acknowledged_before_kill, place, life, bank.url, moments)
        states = await finish(place, acknowledged)
        for name, state in states.items():
            calls = bank.calls[f"/charge/{name}"]
            assert len(set(calls)) == 1, "every attempt of an intent has the same key"
            assert state == PAYMENTS.Order("done", bank.charge_of(f"/charge/{name}"), 1, 1)
    await check_journal(place)
