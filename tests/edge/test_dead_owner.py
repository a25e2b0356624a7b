"""A process beside an owner that stops or dies: nothing hangs or is lost, and who may own takes over."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import cellule
from cellule.assembly import Options
from cellule.errors import OutcomeUnknown, TimedOut, Unavailable
from cellule.host.read import reader
from cellule.modules.python import PythonPrograms
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.store import DATABASE
from tests.support.nodes import check_store, events_of, load_app

HERE = Path(__file__).parent
TALLY = load_app(HERE.parent / "node_apps" / "tally.py")
READER = Options(own=False, tune_process=False)
NODE = Options(tune_process=False)


@pytest.fixture
async def folder(tmp_path):
    """A data folder that is proven when the test ends; every event stands in its journal once."""
    path = tmp_path / "data"
    yield path
    programs = PythonPrograms()
    try:
        async with await SqliteEngine.open(path / DATABASE) as engine:
            [info] = await check_store(engine, programs)
            ids = [each.id for each in await events_of(engine, info)]
            assert len(ids) == len(set(ids))
    finally:
        programs.close()


def owner_of(folder):
    return subprocess.Popen(
        [sys.executable, str(HERE / "node_client.py"), str(folder), "own"], stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
async def stopped(folder):
    """An owner in a process of its own, stopped: it holds the folder and does nothing."""
    process = owner_of(folder)
    assert (await asyncio.to_thread(process.stdout.readline)).strip() == "owner"
    os.kill(process.pid, signal.SIGSTOP)
    yield process
    process.kill()
    await asyncio.to_thread(process.wait)
    process.stdout.close()


async def test_a_send_to_an_owner_that_does_nothing_ends_in_time(folder, stopped):
    async with cellule.open(folder, TALLY.app, options=READER) as node:
        world = await node.world("w")
        with pytest.raises(OutcomeUnknown) as error:
            await world.send(TALLY.Add("a", 1), timeout=0.3)
        assert error.value.code == "host.send_timeout"
        with pytest.raises(TimedOut):
            await world.cell(TALLY.account, "a").wait_until("state.total == 1", timeout=0.3)
        with pytest.raises(TimedOut, match="inbox"):
            await world.wait_idle(timeout=0.3)
        os.kill(stopped.pid, signal.SIGCONT)
        again = await world.send(TALLY.Add("a", 1), id=error.value.fields["id"], timeout=30)
        assert again.steps[0].version == 1
        assert (await world.cell(TALLY.account, "a").wait_until("state.total == 1", timeout=30)).count == 1
        await world.wait_idle(timeout=30)


async def test_a_reader_is_told_when_the_owner_dies_and_nobody_takes_over(folder, stopped, monkeypatch):
    """Once it waited for ever."""
    monkeypatch.setattr(reader, "OWNERLESS_S", 1.0)
    async with cellule.open(folder, TALLY.app, options=READER) as node:
        world = await node.world("w")
        waits = [
            asyncio.create_task(world.send(TALLY.Add("a", 1), id="sent")),
            asyncio.create_task(world.cell(TALLY.account, "a").wait_until("state.total == 1")),
        ]
        await asyncio.sleep(0)
        stopped.kill()
        await asyncio.to_thread(stopped.wait)
        for wait, kind in zip(waits, (OutcomeUnknown, Unavailable), strict=True):  # a read has no outcome
            with pytest.raises(kind) as error:
                await asyncio.wait_for(wait, 60)
            assert error.type is kind
            assert error.value.code == "host.no_owner"
            assert "world w" in str(error.value)
    async with cellule.open(folder, TALLY.app, options=NODE) as node:
        world = await node.world("w")
        assert (await world.wait_applied("sent", timeout=30)).height
        assert (await world.cell(TALLY.account, "a").state()).total == 1


async def test_a_guest_takes_the_folder_of_a_dead_owner_and_finishes_what_it_waits_for(folder, stopped):
    async with cellule.open(folder, TALLY.app, options=NODE) as node:
        world = await node.world("w")
        assert not node.is_owner
        waits = [
            asyncio.create_task(world.send(TALLY.Add("a", 1), id="sent")),
            asyncio.create_task(world.cell(TALLY.account, "a").wait_until("state.total == 1")),
            asyncio.create_task(world.send(TALLY.Ask("a"), reply=int)),
        ]
        await asyncio.sleep(0)
        stopped.kill()
        await asyncio.to_thread(stopped.wait)
        applied, state, asked = [await asyncio.wait_for(wait, 60) for wait in waits]
        assert (applied.id, state.total, asked.reply in (0, 1)) == ("sent", 1, True)
        await node.wait_owner()
        await world.wait_idle(timeout=30)
