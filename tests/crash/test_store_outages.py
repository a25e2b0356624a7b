"""The servers of a store die under a working node: nothing acknowledged is lost, nothing is there twice."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest

from cellule.errors import OutcomeUnknown, Unavailable
from cellule.store.store import open_store
from tests.support.nodes import events_of, load_app
from tests.support.places import BRIEF_TTL_S, postgres_place
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.s3 import S3Server

pytestmark = pytest.mark.crash

TALLY = load_app(Path(__file__).parents[1] / "node_apps" / "tally.py")
CLIENTS = 12
PATIENCE_S = 120


@pytest.fixture(scope="module")
def postgres(postgres_server):
    """A server to be killed; requested after the shared one, which knows when to skip."""
    with PostgresServer.create() as server:
        yield server


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


class Clients:
    """Clients that send one event after the other, again with the same id until each is acknowledged."""

    def __init__(self, world):
        self.world = world
        self.acknowledged = defaultdict(int)
        self.errors = []
        self.is_over = asyncio.Event()

    async def send(self, task):
        while not self.is_over.is_set():
            number = self.acknowledged[task]
            event = TALLY.Keep(f"k{task}", f"{number} " * 9_000) if number % 3 else TALLY.Add(f"k{task}", 1)
            try:
                await self.world.send(event, id=f"{task}/{number}", wait=("applied", "durable")[number % 2])
            except (Unavailable, OutcomeUnknown) as error:
                self.errors.append(error)
                await asyncio.sleep(0.02)
                continue
            self.acknowledged[task] += 1

    async def more(self, count):
        """Wait until every client got so many further answers."""
        wanted = {task: self.acknowledged[task] + count for task in range(CLIENTS)}
        async with asyncio.timeout(PATIENCE_S):
            while any(self.acknowledged[task] < least for task, least in wanted.items()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("victim", ["postgres", "s3"])
async def test_no_event_is_lost_or_doubled_when_a_server_is_killed_under_load(postgres, s3, victim):
    place = postgres_place(postgres, s3)
    server = {"postgres": postgres, "s3": s3}[victim]
    async with place.open(TALLY.app, snapshot_bytes=50_000, stall_s=0.3, session_ttl_s=BRIEF_TTL_S) as node:
        clients = Clients(await node.world("w"))
        async with asyncio.TaskGroup() as group:
            for task in range(CLIENTS):
                group.create_task(clients.send(task))
            for _ in range(2):
                await clients.more(2)
                await asyncio.to_thread(server.kill)
                while not clients.errors:  # noqa: ASYNC110 - the outage is told once somebody was refused
                    await asyncio.sleep(0.02)
                await asyncio.to_thread(server.start)
                clients.errors, told = [], clients.errors
                assert all(error.code for error in told)
            await clients.more(2)
            clients.is_over.set()
    [info] = await place.prove()
    async with open_store(place.parsed, place.options, create=False) as store:
        ids = [each.id for each in await events_of(store.engine, info) if each.id is not None]
    assert len(ids) == len(set(ids)), "an event is there twice"
    for task, count in clients.acknowledged.items():
        numbers = [int(each.split("/")[1]) for each in ids if each.startswith(f"{task}/")]
        assert numbers == list(range(len(numbers))), "out of order, or lost"
        assert count <= len(numbers) <= count + 1
