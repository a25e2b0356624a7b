"""Nodes that contend for one store, by seed: partitions, crashes, clocks of different rates, late news.

Three processes may own the store by a session; each has a client that sends and one that reads, through its
node, whether that owns the store or not. Processes crash and come back, are cut off from the store and
healed, and hear late that they lost it, as a process does that was stopped. The checkers know the promises
only: at no moment two nodes may act, no acknowledged event is lost or there twice, and no read misses what
was acknowledged or read before it began.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from cellule.errors import InvariantBroken, Parked, Rejected, Unavailable
from cellule.host.own import lease as leasing
from cellule.host.own import session as session_module
from cellule.host.own.lease import Lease, StoreClaim
from cellule.host.own.session import Seen, Sessions, fields_of
from cellule.kernel.need import Nodes, drive
from cellule.modules.python import PythonPrograms
from cellule.store.engines.memory import MemoryEngine
from cellule.testing import Faults, Simulation, VirtualClock, simulate
from tests.support.nodes import check_store, events_of, load_app, open_node
from tests.support.seeds import need_not_reach_all
from tests.support.task_keeper import TaskKeeper

pytestmark = pytest.mark.simulation

TALLY = load_app(Path(__file__).parents[1] / "node_apps" / "tally.py")
BUILT = TALLY.app.build()
NODES = ("one", "two", "three")
SEEDS = 12  # of those with worlds, which are long
KEYS = ("k0", "k1")
TTL_S = 3.0
LATE_MS = 3_000
CAUGHT_WITHIN = 300
ROUGH_SESSIONS = Faults(
    unavailable=0.02, unknown_applied=0.06, unknown_lost=0.03, unknown_late=0.04, for_nothing=0.02, delay=0.3
)


@pytest.fixture(scope="module")
def programs():
    loaded = PythonPrograms(limit_s=None)
    nodes = Nodes(0)
    for module in BUILT.manifest.modules.values():
        drive(
            loaded.program(BUILT.manifest, module, nodes), nodes,
            lambda cids: {cid: BUILT.blocks[cid] for cid in cids},
        )  # fmt: skip
    yield loaded
    loaded.close()


class DriftingClock(VirtualClock):
    """A machine's clock: its wall time is its own, and its monotonic clock runs a little fast or slow."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self._rate = rate

    def monotonic_ns(self) -> int:
        return int(super().monotonic_ns() * self._rate)


class LateNews(Lease):
    """A node whose loop hears late that something changed: it was stopped, or busy."""

    late_ms = staticmethod(lambda: 0)

    def contending(self, changed):
        def later():
            asyncio.get_running_loop().call_later(self.late_ms() / 1_000, changed)

        return super().contending(later)


class Town:
    """The processes of one run, and what their clients were told."""

    def __init__(self, simulation: Simulation, programs, events: int) -> None:
        self.simulation = simulation
        self.programs = programs
        self.chance = simulation.entropy
        rates = simulation.entropy.child("rates")
        self.clocks = {name: DriftingClock(0.96 + rates.below(81) / 1_000) for name in NODES}
        self.running: dict[str, object] = {}
        self.starts: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()
        self.left = {name: [f"{name}/{number}" for number in range(events)] for name in NODES}
        self.sent: set[str] = set()
        self.acknowledged: set[str] = set()
        self.floor: Counter[str] = Counter()  # versions that somebody knows of
        self.served = asyncio.Event()

    async def serve(self, name: str, engine) -> None:
        self.starts[name] += 1
        chance = self.chance.child(f"{name} {self.starts[name]}")
        late = chance.child("late")
        lease = type("Late", (LateNews,), {"late_ms": staticmethod(lambda: late.below(LATE_MS))})
        while True:
            try:
                async with open_node(
                    engine, BUILT, self.programs, entropy=chance.child("node"), clock=self.clocks[name],
                    ttl_s=TTL_S, lease=lease, stall_s=2.0, snapshot_bytes=3_000,
                ) as node:  # fmt: skip
                    self.running[name] = node.node
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(self.client(name, node, chance.child("client")))
                        tasks.create_task(self.reader(node, chance.child("reader")))
            except Unavailable:
                await asyncio.sleep(0.05)
            finally:
                self.running.pop(name, None)

    def check_one_owner(self) -> None:
        acting = [name for name, node in self.running.items() if node.claim and node.claim.is_valid()]
        assert len(acting) <= 1, f"{acting} may act at once"
        self.reached[f"owner {acting[0]}" if acting else "nobody"] += 1

    async def client(self, name: str, node, chance) -> None:
        mine = self.left[name]
        while mine:
            given = mine[0]
            key = KEYS[sum(given.encode()) % len(KEYS)]
            try:
                world = await node.world("w")
                self.sent.add(given)
                async with asyncio.timeout(120):
                    outcome = await world.send(TALLY.Add(key, 1), id=given)
                self.floor[key] = max(self.floor[key], outcome.steps[0].version)
            except (Unavailable, TimeoutError) as error:
                self.reached[getattr(error, "code", "timeout")] += 1
                await asyncio.sleep(0.05)
                continue
            except Rejected as error:
                if error.code not in ("host.no_universe", "host.no_world"):
                    raise
                await asyncio.sleep(0.1)
                continue
            except Parked:
                self.reached["parked"] += 1
            self.acknowledged.add(given)
            self.reached["owner" if node.is_owner else "guest"] += 1
            if mine and mine[0] == given:  # an earlier life of this client may have been here too
                mine.pop(0)
            if not any(self.left.values()):
                self.served.set()
            self.check_one_owner()
            await asyncio.sleep(chance.below(400) / 1_000)

    async def reader(self, node, chance) -> None:
        while True:
            await asyncio.sleep(chance.below(300) / 1_000)
            self.check_one_owner()
            key = chance.choice(KEYS)
            known = self.floor[key]
            try:
                world = await node.world("w")
                async with asyncio.timeout(60):
                    view = await world.cell(TALLY.account, key).view()
            except (Unavailable, Rejected, TimeoutError):
                continue
            version = 0 if view is None else view.version
            assert version >= known, f"a read missed versions {version + 1} to {known} of {key}"
            self.floor[key] = max(self.floor[key], version)
            self.reached["read"] += 1


def scenario_of(programs, events=6, troubles=6):
    async def scenario(simulation: Simulation):
        town = Town(simulation, programs, events)
        chance = simulation.entropy.child("trouble")

        def start(name):
            return simulation.start(name, lambda engine: town.serve(name, engine))

        running = {name: start(name) for name in NODES}
        async with asyncio.timeout(3_600):
            for _ in range(troubles):
                await asyncio.sleep(chance.below(3_000) / 1_000)
                name = chance.choice(NODES)
                town.clocks[name].jump((chance.below(40) - 20) * 1_000_000_000)
                if chance.chance(0.3):
                    await running[name].crash()
                    running[name] = start(name)
                else:
                    running[name].engine.freeze()
                    await asyncio.sleep(chance.below(12_000) / 1_000)
                    running[name].engine.heal()
            await town.served.wait()
        await asyncio.sleep(20)
        for node in running.values():
            await node.crash()
        await simulation.wire.settle()
        await check(simulation, programs, town)
        simulation.note(repr(sorted(town.reached.items())))
        return town.reached

    return scenario


async def check(simulation: Simulation, programs, town: Town) -> None:
    engine = MemoryEngine(simulation.disk)
    [info] = await check_store(engine, programs)
    ids = [each.id for each in await events_of(engine, info) if each.id is not None]
    assert len(ids) == len(set(ids)), "an event is there twice"
    assert set(ids) <= town.sent, "an event was invented"
    assert town.acknowledged <= set(ids), "an acknowledged event was lost"


@pytest.mark.seeds(SEEDS)
def test_nodes_that_contend_for_a_store_keep_every_promise(programs, seeds):
    runs = simulate(scenario_of(programs), seeds=seeds, faults=ROUGH_SESSIONS)
    reached = sum((run.result for run in runs), Counter())
    every = {"owner", "guest", "read", "nobody", *(f"owner {name}" for name in NODES)}
    assert need_not_reach_all(seeds, SEEDS) or every <= set(reached)


async def contest(simulation: Simulation):
    """Sessions alone: nodes without worlds, cut off and crashed; at no moment two claims are good."""
    chance = simulation.entropy.child("contest")
    leases: dict[str, Lease] = {}
    seen: Counter[str] = Counter()

    async def contend(name, clock, engine):
        while True:
            lease = Lease(engine, TaskKeeper(engine), clock, simulation.entropy.child(name), TTL_S)
            with suppress(Unavailable):
                async with lease.contending(lambda: None):
                    leases[name] = lease
                    await asyncio.sleep(3_600)
            await asyncio.sleep(0.1)

    async def look():
        while True:
            await asyncio.sleep(0.01)
            good = [name for name, each in leases.items() if each.claim and each.claim.is_valid()]
            assert len(good) <= 1, f"{good} may act at once"
            seen[good[0] if good else "nobody"] += 1

    clocks = {name: DriftingClock(0.96 + chance.below(81) / 1_000) for name in NODES}

    def start(name):
        return simulation.start(name, lambda engine: contend(name, clocks[name], engine))

    running = {name: start(name) for name in NODES}
    looking = asyncio.create_task(look())
    for _ in range(20):
        await asyncio.sleep(chance.below(4_000) / 1_000)
        name = next((each for each in NODES if chance.chance(0.7) and is_good(leases.get(each))), None)
        name = name or chance.choice(NODES)
        if chance.chance(0.2):
            await running[name].crash()
            leases.pop(name, None)
            running[name] = start(name)
        else:
            running[name].engine.freeze()
            await asyncio.sleep(chance.below(8_000) / 1_000)
            running[name].engine.heal()
        if looking.done():
            looking.result()
    looking.cancel()
    for node in running.values():
        await node.crash()
    return seen


def is_good(lease) -> bool:
    return lease is not None and lease.claim is not None and lease.claim.is_valid()


def test_at_no_moment_two_claims_are_good(seeds):
    runs = simulate(contest, seeds=seeds, faults=ROUGH_SESSIONS)
    seen = sum((run.result for run in runs), Counter())
    assert {*NODES, "nobody"} <= set(seen)
    assert seen["nobody"] < sum(seen.values()) / 2  # else nothing would be proven


# Controls: what a careless session would do is caught


class Trusting(Sessions):
    """Broken: it counts a renewal from the try that was answered, which others may have seen long before."""

    async def renew(self, session):
        session.asked_ns = None
        return await super().renew(session)


class Impatient(Sessions):
    """Broken: it counts from when it first saw a node, whatever the node did since."""

    async def look(self):
        before = dict(self._seen)
        return [
            Seen(each.node, each.row, before[each.node].since_ns if each.node in before else each.since_ns,
                 fields_of(each.row))
            for each in await super().look()
        ]  # fmt: skip


class Boastful(StoreClaim):
    """Broken: it holds until it is told otherwise."""

    def is_valid(self):
        return self.session.until_ns > 0


def caught(scenario, **more):
    with pytest.raises(InvariantBroken) as failed:
        simulate(scenario, seeds=range(CAUGHT_WITHIN), faults=ROUGH_SESSIONS, **more)
    assert failed.value.code == "testing.seed_failed"
    assert "fails identically" in str(failed.value)
    return str(failed.value)


@pytest.mark.parametrize(
    ("name", "broken"), [("Sessions", Trusting), ("Sessions", Impatient), ("StoreClaim", Boastful)]
)
def test_a_careless_session_is_caught(monkeypatch, name, broken):
    monkeypatch.setattr(leasing, name, broken)
    assert "may act at once" in caught(contest)


def test_a_session_without_margin_is_caught(monkeypatch):
    monkeypatch.setattr(session_module, "SESSION_MARGIN", 0)
    assert "may act at once" in caught(contest)
