"""Hostile items among normal ones, by seed: rows that are no items, and two planted defects of the kernel.

The owner crashes and comes back over a failing store; clients send normal events until they are acknowledged,
others write rubbish into the inbox, events that admission falls over, and events for a cell whose steps fall
over. Whatever happens, the world goes on: every normal event is applied once, no row is left, and each
hostile item is refused under its id, kept aside, or waits at the one halted cell.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cellule.errors import CelluleError, InvariantBroken, Parked, Unavailable
from cellule.host.inbox.inbox import enqueue
from cellule.host.run import world_runner
from cellule.kernel.decide.admission import Admission
from cellule.kernel.decide.steps import Stepper
from cellule.kernel.journal.records import EventRecord, RefusedRecord
from cellule.kernel.need import Nodes, drive
from cellule.modules.python import PythonPrograms
from cellule.store import keys
from cellule.store.engines.memory import MemoryEngine
from cellule.testing import Faults, Simulation, simulate
from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from cellule.values.envelope import seal
from cellule.values.link import Link
from tests.support.mutants import assert_caught, happened
from tests.support.nodes import check_store, load_app, open_node, records_of

pytestmark = pytest.mark.simulation

TALLY = load_app(Path(__file__).parents[1] / "node_apps" / "tally.py")
BUILT = TALLY.app.build()
PLANTED = [True]  # empty while a store is proven, which runs steps again
FAULTS = Faults(unavailable=0.02, unknown_applied=0.03, unknown_lost=0.03, delay=0.3)
ADD = {"kind": "event", "schema": "tally/Add@1", "value": seal(encode({"account": "k0", "amount": 1}))}
ODD_ROWS = (
    {**ADD, "expected": "3"},
    {**ADD, "correlation": 5},
    {**ADD, "value": Link(cid_of(b"\x01"))},
    {**ADD, "schema": "tally/Nothing@1"},
    {"kind": "control", "verb": "pause", "who": 5, "why": "", "arguments": {}},
    {"kind": "control", "verb": "dance", "who": "me", "why": "", "arguments": {}},
    {"kind": "control", "verb": "cell.resume", "who": "me", "why": "", "arguments": {"until": -1}},
    {"kind": "control", "verb": "deploy", "who": "me", "why": "",
     "arguments": {"manifest": Link(cid_of(b"\x01"))}},
    {"kind": "request", "what": "tea", "who": "me", "why": ""},
    {**ADD, "value": seal(encode({"account": "k1", "amount": 1, "note": "poison"}))},
)  # fmt: skip


@pytest.fixture(scope="module")
def programs():
    loaded, nodes = PythonPrograms(limit_s=None), Nodes(0)
    for module in BUILT.manifest.modules.values():
        drive(
            loaded.program(BUILT.manifest, module, nodes),
            nodes,
            lambda cids: {c: BUILT.blocks[c] for c in cids},
        )
    yield loaded
    loaded.close()


@pytest.fixture(autouse=True)
def defects(monkeypatch):
    """Admission falls over some events, and steps over one cell."""
    targets, compute = Admission._targets, Stepper.compute

    def fall_over_events(self, item):
        return targets(self, item) if b"poison" not in item.value or not PLANTED else 1 // 0

    def fall_over_a_cell(self, slot, height, entropy):
        return compute(self, slot, height, entropy) if slot.key != b"cursed" or not PLANTED else 1 // 0

    monkeypatch.setattr(Admission, "_targets", fall_over_events)
    monkeypatch.setattr(Stepper, "compute", fall_over_a_cell)


async def until_told(send):
    """Send the same again until the answer is final."""
    while True:
        try:
            return await send()
        except Parked as error:
            return error
        except Unavailable:
            await asyncio.sleep(0.05)
        except CelluleError as error:
            return error


class Hostility:
    """One run: a world, its owner, and those who write to it."""

    def __init__(self, simulation: Simulation, programs) -> None:
        self.simulation, self.programs = simulation, programs
        self.chance = simulation.entropy.child("hostile")
        self.normal = [f"n{number}" for number in range(12)]
        self.odd = [f"odd{number}" for number in range(8)]
        self.info = None
        self.served = asyncio.Event()

    async def serve(self, engine) -> None:
        """The owner's process; where the store fails while it opens, it is started again."""
        while True:
            try:
                await self._serve(engine)
            except Unavailable:
                await asyncio.sleep(0.1)

    async def _serve(self, engine) -> None:
        clock = self.simulation.clock_for("owner")
        entropy = self.simulation.entropy.child(f"node{self.chance.below(1 << 30)}")
        options = {"clock": clock, "entropy": entropy, "snapshot_bytes": 3_000}
        async with open_node(engine, BUILT, self.programs, **options) as node:
            world = await node.world("w")
            self.info = world.info
            while self.normal or self.odd:
                await self._round(node, world)
            self.served.set()
            await asyncio.sleep(10_000)

    async def _round(self, node, world) -> None:
        """Some of everything at once, in one beat or a few."""
        some = self.normal[: 1 + self.chance.below(3)]
        odd = self.odd[: self.chance.below(3)]
        await self._write_odd(node, odd)
        sends = [
            until_told(lambda given=given: world.send(TALLY.Add(f"k{given[1:]}", 1), id=given))
            for given in some
        ]
        sends.append(until_told(lambda: world.send(TALLY.Add("k0", 1, "poison"), id="poison")))
        sends.append(until_told(lambda: world.send(TALLY.Add("cursed", 1), id="cursed")))
        *told, poison, cursed = await asyncio.gather(*sends)
        assert isinstance(poison, InvariantBroken)
        assert isinstance(cursed, Parked) or cursed.steps  # the short way does not meet the defect
        assert not [each for each in told if isinstance(each, Exception)], "a normal event was not served"
        self.normal = self.normal[len(some) :]
        self.odd = self.odd[len(odd) :]

    async def _write_odd(self, node, names) -> None:
        """Rows as an enqueuer puts them; what is hostile is what they hold."""
        info = self.info
        rows = [{**ODD_ROWS[self.chance.below(len(ODD_ROWS))], "id": name} for name in names]
        if rows:
            told = await until_told(
                lambda: enqueue(node.node.engine, info.universe, info.id, rows, self.chance.bytes(16))
            )
            assert isinstance(told, list), told


@asynccontextmanager
async def served_within(patience_s):
    try:
        async with asyncio.timeout(patience_s):
            yield
    except TimeoutError:
        raise AssertionError("the world serves nobody any more") from None


def scenario_of(programs, patience_s=3_600):
    async def scenario(simulation: Simulation):
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        run = Hostility(simulation, programs)
        PLANTED[:] = [True]
        owner = simulation.start("owner", run.serve)
        async with served_within(patience_s):
            for _ in range(2):
                await asyncio.sleep(run.chance.below(800) / 1_000)
                await owner.crash()
                owner = simulation.start("owner", run.serve)
            serving = asyncio.ensure_future(owner.wait())  # raises what a client found wrong
            served = asyncio.ensure_future(run.served.wait())
            await asyncio.wait([serving, served], return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                await serving
        await asyncio.sleep(30)
        await owner.crash()
        await simulation.wire.settle()
        await check(simulation, programs, run)

    return scenario


async def check(simulation: Simulation, programs, run: Hostility) -> None:
    engine = MemoryEngine(simulation.disk)
    PLANTED.clear()
    await check_store(engine, programs)
    records = [record for _, record in await records_of(engine, run.info)]
    events = [record.id for record in records if isinstance(record, EventRecord) and record.id is not None]
    assert len(events) == len(set(events)), "an event is there twice"
    assert {f"n{number}" for number in range(12)} <= set(events), "a normal event was lost"
    assert "poison" not in events
    refused = {record.id for record in records if isinstance(record, RefusedRecord)}
    assert {f"odd{number}" for number in range(8)} <= refused, "a hostile row left no trace"
    page = await engine.scan(*keys.inbox_range(run.info.universe, run.info.id), limit=10)
    assert page.items == [], "an item was left in the inbox"


def test_hostile_items_stop_nobody(programs, seeds):
    simulate(scenario_of(programs), seeds=seeds, faults=FAULTS)


def contains_nothing(_error: Exception) -> bool:
    """Broken: whatever a beat raises ends its world."""
    happened(contains_nothing)
    return False


def test_a_host_that_contains_nothing_is_caught(programs, monkeypatch):
    monkeypatch.setattr(world_runner, "is_contained", contains_nothing)
    assert_caught(
        lambda: simulate(scenario_of(programs, patience_s=30), seeds=range(1), faults=FAULTS),
        contains_nothing,
        "the world serves nobody any more",
    )
