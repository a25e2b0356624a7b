"""A node that performs effects, by seed: crashes, unknown outcomes, slow and failing adapters, approvals,
cancels by people and by the cells themselves, and completion from outside.

One owner at a time hosts a world whose cells run errands outside. The outside counts who came with which
key, and completes some errands later, by their tokens, now and then a second time. The checker knows the
store and the outside only: every intent has exactly one receipt in the journal, each applied to its cell
once, every errand that was run came with one key, a completion that was acknowledged is that receipt, what
a cell took back ends no later, nothing is left in outbox or inbox, and all restores.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

import pytest

from cellule.app.standard_effects import timer
from cellule.effects.adapter import AdapterLimits, Failed, FunctionAdapter, Later, Retry
from cellule.errors import Fenced, Parked, Rejected, Unavailable
from cellule.host.ingress.inject import inject
from cellule.host.ingress.world_effects import WorldEffects
from cellule.host.outbox.signatures import NodeKey
from cellule.host.own.directory import read_head
from cellule.kernel.index.keys import pair_of
from cellule.kernel.journal.codes import Settled
from cellule.kernel.journal.records import EventRecord, IntentRecord, ReceiptRecord, StepRecord
from cellule.kernel.need import Nodes, drive
from cellule.kernel.state.intent_id import parse_token
from cellule.modules.python import PythonPrograms
from cellule.store.engines.memory import MemoryEngine
from cellule.testing import Faults, Simulation, simulate
from tests.support.mutants import assert_caught, happened
from tests.support.nodes import check_store, load_app, open_node, records_of
from tests.support.seeds import need_not_reach_all

pytestmark = pytest.mark.simulation

ERRANDS = load_app(Path(__file__).parents[1] / "node_apps" / "errands.py")
BUILT = ERRANDS.app.build()
TIMER = timer.kind
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
        self.tokens: dict[str, str] = {}  # of what is to be completed later, by intent
        self.completed: dict[str, list[int]] = defaultdict(list)  # heights of receipts, as acknowledged

    def adapter(self):
        async def run(params: ERRANDS.Errand, attempt) -> ERRANDS.Ran:
            self.visits[attempt.intent].append(attempt.key)
            await asyncio.sleep(self.chance.below(3_000) / 1_000)
            match self.chance.below(11):
                case 0:
                    raise Retry("come again")
                case 1:
                    raise Failed("errands.closed", "closed for good")
                case 2:
                    raise RuntimeError("a defect")
                case 3 | 4 | 5:
                    self.tokens[attempt.intent] = attempt.token
                    raise Later(timeout_s=self.chance.choice((1, 20)))
            return ERRANDS.Ran(params.name)

        run.__annotations__ = {"params": ERRANDS.Errand, "return": ERRANDS.Ran}
        return FunctionAdapter("errands.run", run, LIMITS)

    async def complete(self, world, reached) -> None:
        """Complete some errand, perhaps one that was completed before; what is refused has ended."""
        intent = self.chance.choice(sorted(self.tokens))
        token = self.tokens[intent]
        try:
            async with asyncio.timeout(60):
                if self.chance.chance(0.8):
                    told = await world.complete(token, ERRANDS.Ran("outside"))
                else:
                    told = await world.fail(token, "errands.lost", "lost on the way")
        except Rejected as error:
            reached[error.code] += 1
        else:
            reached["completed"] += 1
            self.completed[intent].append(told.height)


class Town:
    """The owner, its clients, and the outside."""

    def __init__(self, simulation: Simulation, programs, orders: int) -> None:
        self.programs = programs
        self.chance = simulation.entropy
        self.clock = simulation.clock_for("owner")
        self.outside = Outside(simulation.entropy.child("outside"))
        self.left = [f"e{number}" for number in range(orders)]
        self.drops = self.left[::3]
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
        if self.drops and self.drops[0] not in self.left and chance.chance(0.2):
            name = self.drops[0]
            async with asyncio.timeout(60):
                await world.send(ERRANDS.Dropped(name), id=f"drop {name}", wait="durable")
            self.reached["dropped"] += 1
            self.drops = [each for each in self.drops if each != name]
            return
        if self.outside.tokens and chance.chance(0.4):
            await self.outside.complete(world, self.reached)
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
        assert not town.drops
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
    check_outside(town.outside, records)
    fired = check_dropped(records)
    async with open_node(engine, BUILT, programs, clock=town.clock) as node:
        world = await node.world("town")
        for number in range(orders):
            name = f"e{number}"
            job = await world.cell(ERRANDS.job, name).state()
            assert (job.asked, job.receipts, job.timers) == (1, 1, fired[name.encode()])
    rows = simulation.disk.dump()
    assert not [key for key in rows if b"inbox" in key or b"effects" in key], "something was left behind"


def check_outside(outside: Outside, records) -> None:
    """Who was told that an errand is completed finds that in its one receipt."""
    receipts = {each.cause: (height, each) for height, each in records if isinstance(each, ReceiptRecord)}
    for intent, heights in outside.completed.items():
        height, receipt = receipts[parse_token(outside.tokens[intent]).height]
        assert set(heights) == {height}, "a completion was acknowledged and is not the receipt"
        assert receipt.extras["who"] == "outside"


def check_dropped(records) -> Counter[bytes]:
    """What a cell took back has ended by then; how many timers fired, by cell."""
    steps = {each.cause: height for height, each in records if isinstance(each, StepRecord)}
    drops = {each.targets[0][1]: steps[height] for height, each in records
             if isinstance(each, EventRecord) and each.schema == "errands/Dropped@1"}  # fmt: skip
    assert drops
    timers = {height for height, each in records if isinstance(each, IntentRecord) and each.kind == TIMER}
    fired: Counter[bytes] = Counter()
    for height, each in records:
        if isinstance(each, ReceiptRecord):
            fired[each.key] += each.cause in timers and each.status == Settled.OK
            at = drops.get(each.key, height)
            assert height <= at or each.extras.get("step") == at, "a cell took it back, and it went on"
    return fired


def test_effects_are_settled_once_whatever_happens(programs, seeds):
    runs = simulate(scenario_of(programs), seeds=seeds, faults=ROUGH)
    reached = sum((run.result for run in runs), Counter())
    of_people = {"effect.approve", "effect.deny", "effect.cancel"}
    every = {"asked", "dropped", "completed", "kernel.receipt_late", *of_people}
    assert need_not_reach_all(seeds) or every <= set(reached)


async def hand_in_and_hope(self, receipt, _who, _why):
    """Broken: a completion is acknowledged before the world has decided about it."""
    happened(hand_in_and_hope)
    cas, node = self._node.cas(self._info.universe), self._node
    await inject(node.engine, await self._signing(), cas, self._info.id, receipt, node.entropy)
    return (await read_head(node.engine, self._info)).height


def test_a_completion_that_is_acknowledged_too_early_is_caught(programs, monkeypatch):
    monkeypatch.setattr(WorldEffects, "_hand_in", hand_in_and_hope)
    assert_caught(
        lambda: simulate(scenario_of(programs), seeds=range(20), faults=ROUGH),
        hand_in_and_hope,
        "a completion was acknowledged and is not the receipt",
    )
