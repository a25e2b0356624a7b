"""Who owns a PostgreSQL store: real processes that are killed, stopped, busy, and started at once."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

import cellule
from cellule.assembly import Options
from cellule.errors import Unavailable
from cellule.modules.python import PythonPrograms
from cellule.store.address import parse_address
from cellule.store.store import open_store
from tests.support.nodes import check_store, events_of, load_app

HERE = Path(__file__).parent
TALLY, PAY = (load_app(HERE.parent / "node_apps" / f"{name}.py") for name in ("tally", "pay"))
TTL_S = 2.0
UNDECIDED = {"host.outcome_unknown", "host.not_accepted", "host.not_owner", "host.world_lost"}

numbers = count()


class Process:
    """Another node; see `owner_client.py`."""

    def __init__(self, address, *, perform=True):
        words = [
            sys.executable,
            str(HERE / "owner_client.py"),
            address,
            str(TTL_S),
            "yes" if perform else "no",
        ]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid

    async def said(self):
        return (await asyncio.to_thread(self.process.stdout.readline)).strip()

    def tell(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    async def ask(self, line):
        self.tell(line)
        return await self.said()

    def signal(self, number):
        os.kill(self.pid, number)

    async def close(self):
        """Let it close its node and end."""
        self.process.stdin.close()
        assert await asyncio.to_thread(self.process.wait) == 0

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stdin.close()


@pytest.fixture
async def address(postgres_server):
    """An address with nothing there yet; what was made is proven at the end."""
    found = f"{postgres_server.dsn}?schema=owned_{next(numbers)}"
    yield found
    programs = PythonPrograms()
    try:
        async with open_store(parse_address(found)) as store:
            await check_store(store.engine, programs)
    finally:
        programs.close()


@pytest.fixture
def started(address):
    """`started()` is another process with a node on the address."""
    processes = []

    def start(**options):
        processes.append(Process(address, **options))
        return processes[-1]

    yield start
    for process in processes:
        process.end()


def opened(address, app=TALLY.app):
    return cellule.open(address, app, options=Options(session_ttl_s=TTL_S, tune_process=False))


async def test_a_guest_is_told_who_owns_and_takes_over_from_a_killed_owner(address, started):
    owner = started()
    assert await owner.said() == "owner"
    assert await owner.ask("send first") == "applied"
    async with opened(address) as node:
        assert not node.is_owner
        [session] = [each for each in await node.sessions() if each.owns]
        assert session.pid == owner.pid
        with pytest.raises(Unavailable) as caught:
            await node.create_world("another")
        assert (caught.value.code, str(owner.pid) in str(caught.value)) == ("host.not_owner", True)
        world = await node.world("w")
        assert not (await world.send(TALLY.Add("a", 1), id="through the owner")).duplicate
        owner.signal(signal.SIGKILL)
        sent = await world.send(TALLY.Add("a", 1), id="to whoever owns")
        assert len(sent.steps) == 1
        await node.wait_owner()
        assert (await world.send(TALLY.Add("a", 1), id="first")).duplicate
        assert (await world.cell(TALLY.account, "a").state()).count == 3
        assert [each.pid for each in await node.sessions()] == [os.getpid()]


async def test_a_stopped_owner_answers_nothing_old_and_is_a_guest_when_it_goes_on(address, started):
    owner = started()
    assert await owner.said() == "owner"
    assert await owner.ask("send first") == "applied"
    async with opened(address) as node:
        world = await node.world("w")
        owner.signal(signal.SIGSTOP)
        owner.tell("read")  # it does this first when it goes on, and nobody has told it anything
        await node.wait_owner()
        for number in range(20):
            await world.send(TALLY.Add("a", 1), id=f"meanwhile {number}")
        owner.signal(signal.SIGCONT)
        assert await owner.said() == "21"
        while (told := await owner.ask("send first")) in UNDECIDED:
            pass  # it has not heard yet; a client sends again, with the same id
        assert told == "duplicate"
        assert await owner.ask("send as a guest") == "applied"
        assert await owner.ask("role") == "guest"
        assert node.is_owner
        assert (await world.cell(TALLY.account, "a").state()).count == 22
        ids = [each.id for each in await events_of(node.node.engine, world.info) if each.id]
        assert len(ids) == len(set(ids)) == 22


async def test_a_send_that_was_under_way_when_its_owner_stopped_is_told_once(address, started):
    owner = started()
    assert await owner.said() == "owner"
    await owner.ask("send first")
    async with opened(address) as node:
        world = await node.world("w")
        owner.tell("send under way")
        owner.signal(signal.SIGSTOP)
        await node.wait_owner()
        await world.send(TALLY.Add("a", 1), id="meanwhile")
        owner.signal(signal.SIGCONT)
        told = await owner.said()
        while told in UNDECIDED:
            told = await owner.ask("send under way")
        assert told in ("applied", "duplicate")
        ids = [each.id for each in await events_of(node.node.engine, world.info)]
        assert ids.count("under way") == 1


async def test_an_owner_whose_loop_is_busy_stays_the_owner(address, started):
    owner = started()
    assert await owner.said() == "owner"
    async with opened(address) as node:
        assert await owner.ask(f"block {3 * TTL_S}") == "blocked"
        assert not node.is_owner
        assert await owner.ask("role") == "owner"


async def test_of_nodes_that_start_at_once_one_owns(address, started):
    processes = [started() for _ in range(3)]
    roles = [await each.said() for each in processes]
    assert sorted(roles) == ["guest", "guest", "owner"]
    processes.insert(0, processes.pop(roles.index("owner")))  # who owns makes the world
    for number, each in enumerate(processes):
        assert await each.ask(f"send {number}") == "applied"
    assert {await each.ask("read") for each in processes} == {"3"}


async def test_a_clean_close_hands_over_at_once_even_with_a_long_session(address, started):
    options = Options(session_ttl_s=600, tune_process=False)
    owner = cellule.open(address, TALLY.app, options=options)
    node = await owner.__aenter__()
    await node.world("w")
    guest = started()
    assert await guest.said() == "guest"
    guest.tell("send one")
    await asyncio.wait_for(owner.__aexit__(None, None, None), 60)
    assert await guest.said() == "applied"
    assert await guest.ask("send two") == "applied"
    assert await guest.ask("role") == "owner"
    await guest.close()
    async with opened(address) as node:
        assert node.is_owner


async def test_the_new_owner_performs_what_the_old_one_left(address, started, monkeypatch):
    monkeypatch.setenv("CELLULE_SECRET_BANK", "sk_live_of_the_bank")
    owner = started(perform=False)
    assert await owner.said() == "owner"
    height = int(await owner.ask("place o1"))
    async with opened(address, PAY.app) as node:
        world = await node.world("w")
        [view] = await world.effects(cause=height)
        assert view.status == "open"
        owner.signal(signal.SIGKILL)
        async for _ in world.tail(height):
            state = await world.cell(PAY.order, "o1").state()
            if state.status != "placed":
                break
        assert (state.status, state.charge, node.is_owner) == ("pay.charge ok", "ch-o1-1", True)


async def test_a_node_that_closes_at_once_leaves_no_error_unheard(address):
    """Connections that were cancelled in their handshake complained, long after, on standard error."""
    heard = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context["message"]))
    for _ in range(3):
        async with opened(address) as node:
            assert node.is_owner
    gc.collect()
    assert heard == []
