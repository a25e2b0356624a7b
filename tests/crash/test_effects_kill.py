"""A node with effects is killed at random between intent and receipt: one key, one receipt, nothing lost."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from cellule.assembly import Options
from cellule.assembly import open as open_node
from cellule.effects.adapter import AdapterLimits
from cellule.effects.http.adapter import HttpAdapter, HttpOptions
from cellule.host.outbox.rows import rows_range
from cellule.kernel.journal.records import IntentRecord, ReceiptRecord
from cellule.modules.python import PythonPrograms
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.store import DATABASE
from tests.support.nodes import check_store, load_app, records_of
from tests.support.servers.bank import Bank

pytestmark = pytest.mark.crash

FULL = os.environ.get("CELLULE_CRASH") == "full"
KILLS = 30 if FULL else 4
RUNS = 4 if FULL else 2
CHILD = Path(__file__).with_name("effects_child.py")
PAYMENTS = load_app(Path(__file__).parents[1] / "node_apps" / "payments.py")
LIMITS = AdapterLimits(timeout_s=5, backoff_s=0.005, backoff_max_s=0.05, needs_grant=True)


def run_and_kill(folder, life, url, moments):
    """Let a child place orders until it acknowledged so many, kill it, return those it acknowledged."""
    command = [sys.executable, str(CHILD), str(folder), str(life), url]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wanted = moments.choice((0, 1, 2, 5, moments.randrange(60)))
    lines = []
    try:
        for line in child.stdout:
            lines.append(line)
            if len(lines) > wanted:
                break
    finally:
        child.kill()
        lines += child.stdout.readlines()
        complaint = child.stderr.read()
        child.stdout.close()
        child.stderr.close()
        child.wait()
    assert child.returncode == -9, complaint.decode()
    words = [line.split() for line in lines if line.endswith(b"\n")]
    return [word[1].decode() for word in words if word[0] == b"ack"]


async def finish(folder, orders):
    """A last life, which lets everything come to its end."""
    options = Options(adapters=[HttpAdapter(HttpOptions(limits=LIMITS))])
    async with open_node(folder, app=PAYMENTS.app, options=options) as node:
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


async def check_journal(folder):
    """Every intent has exactly one receipt, the outbox is empty, and all of it restores and verifies."""
    programs = PythonPrograms()
    try:
        async with await SqliteEngine.open(folder / DATABASE) as engine:
            assert (await engine.check()).ok
            [info] = await check_store(engine, programs)
            records = await records_of(engine, info)
            intents = [height for height, record in records if isinstance(record, IntentRecord)]
            settled = [record.cause for _, record in records if isinstance(record, ReceiptRecord)]
            assert sorted(settled) == intents
            page = await engine.scan(*rows_range(), limit=10)
            assert page.items == []
    finally:
        programs.close()


@pytest.mark.parametrize("seed", range(RUNS))
async def test_a_killed_node_charges_with_one_key_and_applies_one_receipt(tmp_path, seed):
    moments = Random(seed)
    folder = tmp_path / "data"
    with Bank(seed=seed, trouble=0.2) as bank:
        acknowledged = []
        for life in range(KILLS):
            acknowledged += await asyncio.to_thread(run_and_kill, folder, life, bank.url, moments)
        states = await finish(folder, acknowledged)
        for name, state in states.items():
            calls = bank.calls[f"/charge/{name}"]
            assert len(set(calls)) == 1, "every attempt of an intent has the same key"
            assert state == PAYMENTS.Order("done", bank.charge_of(f"/charge/{name}"), 1, 1)
    await check_journal(folder)
