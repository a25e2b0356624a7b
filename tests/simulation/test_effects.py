"""A node that performs effects, by seed: crashes, unknown outcomes, slow and failing adapters, approvals,
cancels.

One owner at a time hosts a world whose cells run errands outside. The outside counts who came with which
key. The checker knows the store and the outside only: every intent has exactly one receipt in the journal,
each applied to its cell once, every errand that was run came with one key, nothing is left in outbox or
inbox, and all restores.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

import pytest

from cellule.effects.adapter import AdapterLimits, Failed, FunctionAdapter, Retry
from cellule.errors import Fenced, Parked, Rejected, Unavailable
from cellule.host.outbox.signatures import NodeKey
from cellule.kernel.index.keys import pair_of
from cellule.kernel.journal.records import IntentRecord, ReceiptRecord
from cellule.kernel.need import Nodes, drive
from cellule.modules.python import PythonPrograms
from cellule.store.engines.memory import MemoryEngine
from cellule.testing import Faults, Simulation, simulate
from tests.support.nodes import check_store, load_app, open_node, records_of

pytestmark = pytest.mark.simulation

ERRANDS = load_app(Path(__file__).parents[1] / "node_apps" / "errands.py")
BUILT = ERRANDS.app.build()
KEY = NodeKey(b"k" * 32)
LIMITS = AdapterLimits(timeout_s=2, attempts=4, concurrency=3, backoff_s=0.2, backoff_max_s=2)
ROUGH = Faults(
    unavailable=0.03, unknown_applied=0.04, unknown_lost=0.04, unknown_late=0.04, early_stamp=0.3,
    for_nothing=0.05, delay=0.3,
)  # fmt: skip


@pytest.fixture(scope="module")
def programs():
    loaded = PythonPrograms(limit_s=None)
    nodes = Nodes(0)
    for module in BUILT.manifest.modules.values():
        load = loaded.program(BUILT.manifest, module, nodes)
        drive(load, nodes, lambda cids: {cid: BUILT.blocks[cid] for cid in cids})
    yield loaded
    loaded.close()


class Outside:
    """What is beyond the node and outlives it: it notes every visit."""

    def __init__(self, chance) -> None:
        self.chance = chance
        self.visits: dict[str, list[str]] = defaultdict(list)

    def adapter(self):
        async def run(params: ERRANDS.Errand, attempt) -> ERRANDS.Ran:
            self.visits[attempt.intent].append(attempt.key)
            await asyncio.sleep(self.chance.below(3_000) / 1_000)
            match self.chance.below(8):
                case 0:
                    raise Retry("come again")
                case 1:
                    raise Failed("errands.closed", "closed for good")
                case 2:
                    raise RuntimeError("a defect")
            return ERRANDS.Ran(params.name)

        run.__annotations__ = {"params": ERRANDS.Errand, "return": ERRANDS.Ran}
        return FunctionAdapter("errands.run", run, LIMITS)


class Town:
    """The owner, its clients, and the outside."""

    def __init__(self, simulation: Simulation, programs, orders: int) -> None:
        self.programs = programs
        self.chance = simulation.entropy
        self.clock = simulation.clock_for("owner")
        self.outside = Outside(simulation.entropy.child("outside"))
        self.left = [f"e{number}" for number in range(orders)]
        self.starts = 0
        self.reached: Counter[str] = Counter()

    async def serve(self, engine) -> None:
        self.starts += 1
        entropy = self.chance.child(f"owner {self.starts}")
        while True:
            try:
                async with open_node(
                    engine, BUILT, self.programs, entropy=entropy, clock=self.clock, snapshot_bytes=2_000,
                    idle_s=1.0, stall_s=3.0, key=KEY, adapters=[self.outside.adapter()],
                ) as node:  # fmt: skip
                    await self.live(node, entropy.child("client"))
            except Unavailable:
                await asyncio.sleep(0.05)

    async def live(self, node, chance) -> None:
        """Ask for errands, and decide about what waits for a person; for ever."""
        while True:
            try:
                world = await node.world("town")
                await self.act(node, world, chance)
            except (Unavailable, Fenced) as error:
                self.reached[error.code] += 1
            except Parked:
                self.reached["parked"] += 1
            await asyncio.sleep(chance.below(400) / 1_000)

    async def act(self, node, world, chance) -> None:
        if self.left and chance.chance(0.6):
            name = self.left[0]
            async with asyncio.timeout(60):
                await world.send(ERRANDS.Asked(name, 1 + 5 * int(name[1:]) % 13), id=name, wait="durable")
            self.reached["asked"] += 1
            self.left = [each for each in self.left if each != name]
            return
        await self.decide(await node.node.hosted(world.info), world, chance)

    async def decide(self, hosted, world, chance) -> None:
        """Approve, deny or cancel something that waits."""
        for key, row in await hosted.ask(lambda: hosted.world.ledger.book.open.scan(b"", None, 100)):
            height, status = pair_of(key)[0], row.status
            if status == "parked":
                verb = "effect.approve" if chance.chance(0.7) else "effect.deny"
            elif status == "open" and chance.chance(0.05):
                verb = "effect.cancel"
            else:
                continue
            with suppress(Rejected):  # it was settled meanwhile
                await world.control(verb, who="town", why="chance", intent=height)
            self.reached[verb] += 1
            return


def scenario_of(programs, orders=8, crashes=3):
    async def scenario(simulation: Simulation):
        town = Town(simulation, programs, orders)
        chance = simulation.entropy.child("trouble")
        owner = simulation.start("owner", town.serve)
        for _ in range(crashes):
            await asyncio.sleep(chance.below(6_000) / 1_000)
            former = owner
            if chance.chance(0.4):
                former.engine.freeze()  # it does not know that it is no longer the owner
                owner = simulation.start("owner", town.serve)
                await asyncio.sleep(chance.below(5_000) / 1_000)
                former.engine.heal()
                await asyncio.sleep(chance.below(500) / 1_000)
            await former.crash()
            if owner is former:
                owner = simulation.start("owner", town.serve)
        await asyncio.sleep(120)  # virtual: time for every attempt, approval and timer
        assert not town.left
        await owner.crash()
        await simulation.wire.settle()
        await check(simulation, programs, town, orders)
        simulation.note(repr(sorted(town.reached.items())))
        return town.reached

    return scenario


async def check(simulation: Simulation, programs, town: Town, orders: int) -> None:
    engine = MemoryEngine(simulation.disk)
    [info] = await check_store(engine, programs)
    records = await records_of(engine, info)
    intents = [height for height, record in records if isinstance(record, IntentRecord)]
    assert len(intents) == 2 * orders
    assert sorted(record.cause for _, record in records if isinstance(record, ReceiptRecord)) == intents, (
        "not settled once"
    )
    for visits in town.outside.visits.values():
        assert len(set(visits)) == 1, "an errand was run under two keys"
    async with open_node(engine, BUILT, programs, clock=town.clock) as node:
        world = await node.world("town")
        for number in range(orders):
            job = await world.cell(ERRANDS.job, f"e{number}").state()
            assert (job.asked, job.receipts, job.timers) == (1, 1, 1)
    rows = simulation.disk.dump()
    assert not [key for key in rows if b"inbox" in key or b"effects" in key], "something was left behind"


def test_effects_are_settled_once_whatever_happens(programs):
    runs = simulate(scenario_of(programs), faults=ROUGH)
    reached = sum((run.result for run in runs), Counter())
    every = {"asked", "effect.approve", "effect.deny", "effect.cancel"}
    assert len(runs) < 50 or every <= set(reached)
