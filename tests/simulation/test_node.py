"""A node and its clients by seed: crashes, unknown outcomes, conflicts, late stamps, clocks that jump.

One owner at a time hosts two worlds over a failing store; clients beside it send through it, clients
elsewhere through the inbox; each sends an event again, with the same id, until it is acknowledged. The owner
crashes, or freezes while another takes its place; worlds leave memory, are paused and resumed, snapshots are
taken. The checker knows the store only: every acknowledged event is in the journal exactly once, none is
invented, the chain is whole, every snapshot leads to the same bytes, and steps run again say the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from cellule.errors import Fenced, Parked, Rejected, Unavailable
from cellule.host.inbox.inbox import Inbox
from cellule.host.run import loader as loading
from cellule.host.run.commits import Committer
from cellule.host.run.world_runner import WorldRunner
from cellule.kernel.need import Nodes, drive
from cellule.modules.python import PythonPrograms
from cellule.store.engine import Batch
from cellule.store.engines.memory import MemoryEngine
from cellule.testing import Faults, Simulation, simulate
from tests.support.mutants import assert_caught, happened
from tests.support.nodes import check_store, events_of, load_app, open_node
from tests.support.seeds import need_not_reach_all

pytestmark = pytest.mark.simulation

TALLY = load_app(Path(__file__).parents[1] / "node_apps" / "tally.py")
BUILT = TALLY.app.build()
WORLDS = ("north", "south")
CAUGHT_WITHIN = 120
ROUGH_NODE = Faults(
    unavailable=0.03, unknown_applied=0.05, unknown_lost=0.05, unknown_late=0.05, early_stamp=0.3,
    for_nothing=0.05, delay=0.4,
)  # fmt: skip


@pytest.fixture(scope="module")
def programs():
    loaded = PythonPrograms(limit_s=None)
    nodes = Nodes(0)
    for (
        module
    ) in BUILT.manifest.modules.values():  # else the first seed alone would read the code from the CAS
        drive(
            loaded.program(BUILT.manifest, module, nodes),
            nodes,
            lambda cids: {c: BUILT.blocks[c] for c in cids},
        )
    yield loaded
    loaded.close()


class Town:
    """The processes of one run, and what their clients were told."""

    def __init__(self, simulation: Simulation, programs, events: int) -> None:
        self.simulation = simulation
        self.programs = programs
        self.chance = simulation.entropy
        self.clock = simulation.clock_for("owner")
        self.acknowledged: dict[str, set[str]] = {name: set() for name in WORLDS}
        self.sent: dict[str, set[str]] = {name: set() for name in WORLDS}
        self.reached: Counter[str] = Counter()
        self.left = {
            client: [f"{client}/{number}" for number in range(events)]
            for client in ("near 0", "near 1", "near 2", "far 0", "far 1")
        }
        self.starts = 0
        self.served = asyncio.Event()

    def options(self):
        return {"clock": self.clock, "snapshot_bytes": 1_500, "idle_s": 1.0, "stall_s": 3.0}

    async def serve(self, engine) -> None:
        """One life of the owner: it hosts, and its own clients send."""
        self.starts += 1
        entropy = self.chance.child(f"owner {self.starts}")
        while True:
            try:
                async with open_node(engine, BUILT, self.programs, entropy=entropy, **self.options()) as node:
                    async with asyncio.TaskGroup() as tasks:
                        for client in self.left:
                            if client.startswith("near"):
                                tasks.create_task(self.client(client, node))
                    await asyncio.sleep(3_600)
            except Unavailable:
                await asyncio.sleep(0.05)

    async def elsewhere(self, client: str) -> None:
        """Another process: it does not own the store."""
        engine = self.simulation.engine_for(client)
        entropy = self.chance.child(client)
        while self.left[client]:
            try:
                async with open_node(
                    engine, BUILT, self.programs, entropy=entropy, owner=False, **self.options()
                ) as node:
                    await self.client(client, node)
            except Unavailable:
                await asyncio.sleep(0.05)

    async def client(self, client: str, node) -> None:
        mine, chance = self.left[client], self.chance.child(f"client {client} {self.starts}")
        while mine:
            given = mine[0]
            name = WORLDS[hash_of(given) % 2]
            try:
                await self.act(node, name, given, chance)
            except Unavailable as error:
                self.reached[error.code] += 1
                await asyncio.sleep(0.02)
                continue
            except Rejected as error:
                if error.code not in ("host.no_universe", "host.no_world"):
                    raise
                await asyncio.sleep(0.1)  # the owner has not made it yet
                continue
            except Fenced:
                self.reached["fenced"] += 1
                await asyncio.sleep(0.02)
                continue
            except Parked:
                self.reached["parked"] += 1
            self.acknowledged[name].add(given)
            if mine and mine[0] == given:  # a client that outlived its owner may be here too
                mine.pop(0)
            if not any(self.left.values()):
                self.served.set()
            await asyncio.sleep(chance.below(30) / 1_000)

    async def act(self, node, name: str, given: str, chance) -> None:
        world = await node.world(name, create=None)
        if chance.chance(0.1):
            await world.control("pause" if chance.chance(0.3) else "resume", who=given, why="chance")
            self.reached["control"] += 1
        self.sent[name].add(given)
        wait = chance.choice(["durable", "applied", "applied"])
        async with asyncio.timeout(60):
            outcome = await world.send(event_of(given), id=given, wait=wait)
        self.reached["duplicate" if outcome.duplicate else "first"] += 1


def hash_of(text: str) -> int:
    return sum(text.encode())


def event_of(given: str):
    """What is sent under an id follows from the id alone."""
    key = f"k{hash_of(given) % 4}"
    made = [
        TALLY.Add(key, 1, given), TALLY.Both(key), TALLY.Pass(key, "k9", 3), TALLY.Poke(key),
        TALLY.Keep(key, given * 500),
    ]  # fmt: skip
    return made[hash_of(given) // 2 % len(made)]


def scenario_of(programs, events=6, crashes=3):
    async def scenario(simulation: Simulation):
        town = Town(simulation, programs, events)
        chance = simulation.entropy.child("trouble")

        def start():
            return simulation.start("owner", town.serve)

        owner = start()
        async with asyncio.timeout(3_600), asyncio.TaskGroup() as far:
            for client in town.left:
                if client.startswith("far"):
                    far.create_task(town.elsewhere(client))
            for _ in range(crashes):
                await asyncio.sleep(chance.below(1_500) / 1_000)
                town.clock.jump((chance.below(40) - 10) * 1_000_000_000)
                former = owner
                if chance.chance(0.4):
                    former.engine.freeze()  # it does not know that it is no longer the owner
                    owner = start()
                    await asyncio.sleep(chance.below(6_000) / 1_000)
                    former.engine.heal()
                    await asyncio.sleep(chance.below(500) / 1_000)
                    await former.crash()
                else:
                    await former.crash()
                    owner = start()
            await town.served.wait()
        await asyncio.sleep(30)  # virtual: time for everything that was enqueued
        await owner.crash()
        await simulation.wire.settle()
        await check(simulation, programs, town)
        simulation.note(repr(sorted(town.reached.items())))
        return town.reached

    return scenario


async def check(simulation: Simulation, programs, town: Town) -> None:
    engine = MemoryEngine(simulation.disk)
    infos = {info.name: info for info in await check_store(engine, programs)}
    for name in WORLDS:
        ids = [each.id for each in await events_of(engine, infos[name]) if each.id is not None]
        assert len(ids) == len(set(ids)), "an event is there twice"
        assert set(ids) <= town.sent[name], "an event was invented"
        assert town.acknowledged[name] <= set(ids), "an acknowledged event was lost"
    rows = simulation.disk.dump()
    assert not [key for key in rows if b"inbox" in key], "an item was left in an inbox"


def test_a_node_and_its_clients_keep_every_promise(programs, seeds):
    runs = simulate(scenario_of(programs), seeds=seeds, faults=ROUGH_NODE)
    reached = sum((run.result for run in runs), Counter())
    every = {"first", "duplicate", "control", "parked", "host.outcome_unknown", "testing.outcome_unknown"}
    assert need_not_reach_all(seeds) or every <= set(reached)


# Controls: what a careless host would do is caught


class Credulous(Committer):
    """Broken: it takes an unknown outcome for success."""

    async def _is_applied(self, head, patience):
        if not await super()._is_applied(head, patience):
            happened(Credulous)
        return True


class Hasty(WorldRunner):
    """Broken: it acknowledges a beat before it is durable."""

    def _account(self, beat, sents, rows, ready):
        super()._account(beat, sents, rows, ready)
        if self._finished:
            happened(Hasty)
            self._made_durable(self._finished[-1])


class Forgetful(Inbox):
    """Broken: it forgets taken rows before they are cleared, and clears them without a frame."""

    async def take(self, limit):
        taken = await super().take(limit)
        for row in taken.rows:
            happened(Forgetful)
            await self._engine.commit(Batch(clear=[row.key]))
        return taken


@pytest.mark.parametrize(
    ("name", "broken", "said"),
    [
        ("Committer", Credulous, "knows no event with id|an acknowledged event was lost"),
        ("WorldRunner", Hasty, "an acknowledged event was lost"),
        ("Inbox", Forgetful, "knows no event with id|an acknowledged event was lost"),
    ],
)
def test_a_careless_host_is_caught(programs, monkeypatch, name, broken, said):
    monkeypatch.setattr(loading, name, broken)

    def simulated():
        simulate(scenario_of(programs, crashes=6), seeds=range(CAUGHT_WITHIN), faults=ROUGH_NODE)

    assert_caught(simulated, broken, said)
