"""Verbs, signals and refusals by seed: each with an id, sent again until it is acknowledged, over crashes.

The owner crashes, or freezes while another takes its place, and its clock jumps; clients beside it and
elsewhere start operations, trigger a schedule, send signals, and events that a cell takes, refuses, or that
end its step by leaving the process. Strangers write rows that look like verbs. The checker knows the store
only: what was acknowledged is there once, a refusal stays one and changed nothing, the same id is the same
operation, a failed step stopped its cell alone, no row is left, and all restores to the same bytes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from cellule.errors import CelluleError, Fenced, Parked, Refused, Rejected, StepFailed, Unavailable
from cellule.host.inbox.inbox import enqueue
from cellule.kernel.journal import fields
from cellule.kernel.journal.codes import OK, REFUSED
from cellule.kernel.journal.heartbeat_records import SignalRecord
from cellule.kernel.journal.records import ControlRecord, EventRecord, RefusedRecord, StepRecord
from cellule.modules.kinds import CodeKinds
from cellule.store.engines.memory import MemoryEngine
from cellule.testing import Faults, Simulation, simulate
from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from cellule.values.envelope import seal
from cellule.values.link import Link
from tests.support.mutants import assert_caught, happened
from tests.support.nodes import check_store, load_app, open_node, records_of
from tests.support.seeds import need_not_reach_all

pytestmark = pytest.mark.simulation

VERBS = load_app(Path(__file__).parents[1] / "node_apps" / "verbs.py")
BUILT = VERBS.app.build()
FAULTS = Faults(
    unavailable=0.02, unknown_applied=0.04, unknown_lost=0.04, unknown_late=0.03, early_stamp=0.2, delay=0.3
)
GONE = Link(cid_of(b"\x01"))
START = {"verb": "v", "target": "/t", "mode": "opm:states"}
ODD = (
    ("op.start", {**START, "payload": GONE}), ("op.start", {**START, "payload": b"\xff"}),
    ("op.start", {**START, "operation": "1-1"}), ("snapshot", {"height": True, "snapshot": GONE}),
    ("cell.merge", {"module": "verbs/counter", "key": b"new", "version": 0, "born": 0, "state": GONE}),
    ("schedule.backfill", {"name": "hourly", "from_ns": 1, "to_ns": 2, "sent": 5}),
    ("heartbeat.window", {"window": True}), ("enzyme.register", {"entry": {"name": GONE}}),
)  # fmt: skip
ACTS = ("op", "schedule", "signal", "take", "refuse", "leave")


@pytest.fixture(scope="module")
def programs():
    loaded = CodeKinds(limit_s=None)
    yield loaded
    loaded.close()


class Town:
    """One run: what is left to do, and what was acknowledged."""

    def __init__(self, simulation: Simulation, programs, rounds: int) -> None:
        self.simulation, self.programs = simulation, programs
        self.clock = simulation.clock_for("owner")
        names = [f"{act} {number}" for act in ACTS for number in range(rounds)]
        self.left = {client: names[at::2] for at, client in enumerate(("near", "far"))}
        self.odd = list(range(4))
        self.done: dict[str, object] = {}
        self.info = None
        self.starts = 0
        self.reached: Counter[str] = Counter()

    async def serve(self, engine, *, owner=True) -> None:
        """A process; where the store fails while it opens, it is started again."""
        self.starts += 1
        entropy = self.simulation.entropy.child(f"process {self.starts}")
        while owner or self.left["far"]:
            try:
                async with open_node(
                    engine,
                    BUILT,
                    self.programs,
                    entropy=entropy,
                    clock=self.clock,
                    snapshot_bytes=1_500,
                    owner=owner,
                ) as node:
                    await self.client("near" if owner else "far", node, entropy.child("client"))
                    await asyncio.sleep(10_000 if owner else 0)
            except Unavailable:
                await asyncio.sleep(0.1)

    async def client(self, client: str, node, chance) -> None:
        mine = self.left[client]
        while mine:
            name = chance.choice(mine)
            try:
                world = await node.world("w", create=None if client == "near" else False)
                self.info = world.info
                async with asyncio.timeout(60):
                    told = await self.act(node, world, name)
            except (Unavailable, Fenced) as error:
                self.reached[error.code] += 1
                await asyncio.sleep(0.05)
                continue
            except Rejected as error:
                if error.code not in ("host.no_universe", "host.no_world"):
                    raise
                await asyncio.sleep(0.1)  # the owner has not made it yet
                continue
            assert self.done.setdefault(name, told) == told, f"{name} was answered in two ways"
            if name in mine:  # a client that outlived its owner may be here too
                mine.remove(name)
            await asyncio.sleep(chance.below(200) / 1_000)

    async def act(self, node, world, name: str) -> object:
        """Do one thing under its name; what it was answered, which never changes."""
        match name.split(maxsplit=1)[0]:
            case "op":
                return await world.op.start("v", "/t", payload=name, id=name)
            case "schedule":
                return (await world.operator("town").trigger_schedule("hourly", why="chance", id=name)).height
            case "signal":
                return (await world.heartbeat.signal("/mark", payload=name, id=name)).height
        await self.odd_row(node, name)
        what, number = name.split()
        key = f"left {number}" if what == "leave" else f"k{int(number) % 2}"
        event = VERBS.Told(key, refuse=what == "refuse", leave=what == "leave")
        try:
            return (await world.send(event, id=name)).height
        except (Refused, StepFailed, Parked) as error:
            self.reached[type(error).__name__] += 1
            return type(error).__name__ if what == "refuse" else "stopped"

    async def odd_row(self, node, name: str) -> None:
        """What strangers write."""
        if self.odd:
            number = self.odd.pop()
            verb, arguments = ODD[sum(name.encode()) % len(ODD)]
            row = {
                "kind": "control",
                "verb": verb,
                "who": "x",
                "why": "",
                "arguments": arguments,
                "id": f"o{number}",
            }
            payload = {"kind": "signal", "signal": "/mark", "payload": seal(b"\x81"), "id": f"p{number}"}
            try:
                engine, info = node.node.engine, self.info
                await enqueue(engine, info.universe, info.id, [row, payload], encode(name)[-16:].rjust(16))
            except CelluleError:
                self.odd.append(number)


def scenario_of(programs, rounds=4, crashes=3):
    async def scenario(simulation: Simulation):
        town = Town(simulation, programs, rounds)
        chance = simulation.entropy.child("trouble")
        owner = simulation.start("owner", town.serve)
        far = asyncio.ensure_future(town.serve(simulation.engine_for("far"), owner=False))
        for _ in range(crashes):
            await asyncio.sleep(chance.below(1_500) / 1_000)
            town.clock.jump((chance.below(40) - 10) * 1_000_000_000)
            former = owner
            if chance.chance(0.3):
                former.engine.freeze()  # it does not know that it is no longer the owner
                owner = simulation.start("owner", town.serve)
                await asyncio.sleep(chance.below(4_000) / 1_000)
                former.engine.heal()
            await former.crash()
            if owner is former:
                owner = simulation.start("owner", town.serve)
        async with asyncio.timeout(3_600):
            while any(town.left.values()):
                if owner.is_done():
                    await owner.wait()  # raises what a client found wrong
                if far.done():
                    far.result()
                await asyncio.sleep(1)
        await far
        await asyncio.sleep(30)
        await owner.crash()
        await simulation.wire.settle()
        await check(simulation, programs, town)
        simulation.note(repr(sorted(town.reached.items())))
        return town.reached

    return scenario


async def check(simulation: Simulation, programs, town: Town) -> None:
    engine = MemoryEngine(simulation.disk)
    await check_store(engine, programs)
    records = await records_of(engine, town.info)
    of_ids = (EventRecord, SignalRecord, ControlRecord)
    known = Counter(
        record.extras.get("id") if isinstance(record, SignalRecord) else record.id
        for _, record in records if isinstance(record, of_ids)
    )  # fmt: skip
    assert all(known[name] == 1 for name in town.done), "what was acknowledged is not there once"
    started = [told for name, told in town.done.items() if name.startswith("op ")]
    assert len(set(started)) == len(started), "two ids are one operation"
    steps = {record.cause: record.status for _, record in records if isinstance(record, StepRecord)}
    heights = {record.id: height for height, record in records if isinstance(record, EventRecord)}
    for name, told in town.done.items():
        if name.startswith("take"):
            assert steps[heights[name]] == OK, "an event was not taken"
        if name.startswith("refuse"):
            assert (told, steps[heights[name]]) == ("Refused", REFUSED), "a refusal is none"
    aside = [record for _, record in records if isinstance(record, RefusedRecord) and "aside" in record.code]
    assert not aside, "a row was too much for the kernel"
    assert not [key for key in simulation.disk.dump() if b"inbox" in key], "an item was left in an inbox"
    async with open_node(engine, BUILT, programs, clock=town.clock) as node:
        world = await node.world("w")
        taken = [await world.cell(VERBS.counter, key).state() for key in ("k0", "k1")]
        assert sum(each.count for each in taken) == sum(name.startswith("take") for name in town.done)
        for name in town.done:
            if name.startswith("signal"):
                assert await world.heartbeat.read(f"/marks/{name}") == 1, "a signal ran twice, or never"


def test_verbs_signals_and_refusals_keep_their_promises(programs, seeds):
    runs = simulate(scenario_of(programs), seeds=seeds, faults=FAULTS)
    reached = sum((run.result for run in runs), Counter())
    assert need_not_reach_all(seeds) or {"Refused", "StepFailed", "testing.unavailable"} <= set(reached)


def counts_everything(_verb, _name):
    """Broken: what the kernel adds to the arguments of a verb counts among those that were given."""
    happened(counts_everything)
    return False


def test_a_kernel_that_forgets_what_it_added_is_caught(programs, monkeypatch):
    monkeypatch.setattr(fields, "is_written", counts_everything)
    assert_caught(
        lambda: simulate(scenario_of(programs), seeds=range(20), faults=FAULTS), counts_everything,
        "was used at height|its baseline|restores to different bytes",
    )  # fmt: skip
