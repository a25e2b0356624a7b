"""Nodes that take a journal from each other, append to it through a failing store, crash and come back.

The protocol is the one of every world: a frame's batch expects the owner's epoch and the previous head.
After `Unavailable` the same bytes go out again; after `OutcomeUnknown` or `Conflict` the owner reads epoch
and head. At the end the chain is contiguous, every acknowledged item is in it exactly once, and nothing was
invented.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from hashlib import sha256

import pytest

from cellule.errors import Conflict, Fenced, InvariantBroken, OutcomeUnknown, Unavailable
from cellule.store.engine import Batch
from cellule.testing import ROUGH, FaultyEngine, Simulation, simulate
from tests.support.seeds import need_not_reach_all

pytestmark = pytest.mark.simulation

EPOCH, HEAD, JOURNAL = b"\x02epoch", b"\x02head", b"\x02journal/"
BACKOFF_SECONDS = 0.01
CAUGHT_WITHIN = 300


def frame_key(height):
    return JOURNAL + height.to_bytes(8, "big")


def encode(value):
    return json.dumps(value, sort_keys=True).encode()


class Owner:
    """One incarnation of a node; `append` returns once the item is durable, or raises `Fenced`."""

    def __init__(self, engine: FaultyEngine, name: str, reached: Counter[str]) -> None:
        self.engine = engine
        self.reached = reached
        self.name = name
        self.epoch = b""
        self.head = None
        self.height = 0

    async def read(self, *keys):
        while True:
            try:
                return await self.engine.read(keys)
            except Unavailable:
                await asyncio.sleep(BACKOFF_SECONDS)

    async def acquire(self):
        """Become the owner, then read the head: whatever the last owner still has under way is void."""
        while True:
            (held,) = await self.read(EPOCH)
            number = 1 if held is None else json.loads(held)["number"] + 1
            mine = encode({"number": number, "node": self.name})
            if await self.submit(Batch(expect={EPOCH: held}, set={EPOCH: mine}), EPOCH, held, mine):
                break
        self.epoch = mine
        (self.head,) = await self.read(HEAD)
        self.height = 0 if self.head is None else json.loads(self.head)["height"]

    async def submit(self, batch, key, before, after):
        """Commit until it is decided whether `key` went from `before` to `after` by this batch."""
        while True:
            try:
                await self.engine.commit(batch)
            except (OutcomeUnknown, Conflict):
                now, epoch = await self.read(key, EPOCH)
                if now == after:
                    self.reached["it had arrived"] += 1
                    return True
                if now != before or epoch != batch.expect[EPOCH]:
                    self.reached["fenced"] += 1
                    return False
                self.reached["sent again"] += 1
            except Unavailable:
                self.reached["unavailable"] += 1
                await asyncio.sleep(BACKOFF_SECONDS)
            else:
                self.reached["answered"] += 1
                return True

    def frame_of(self, item):
        frame = encode(
            {"height": self.height + 1, "previous": sha256(self.head or b"").hexdigest(), "item": item}
        )
        head = encode({"height": self.height + 1, "frame": sha256(frame).hexdigest()})
        batch = Batch(
            expect={EPOCH: self.epoch, HEAD: self.head}, set={HEAD: head, frame_key(self.height + 1): frame}
        )
        return batch, head

    async def append(self, item):
        batch, head = self.frame_of(item)
        if not await self.submit(batch, HEAD, self.head, head):
            raise Fenced("test.fenced", "another node owns the journal")
        self.head, self.height = head, self.height + 1

    async def has(self, item):
        """Look through the whole journal, as a restore would."""
        for height in range(1, self.height + 1):
            (frame,) = await self.read(frame_key(height))
            if json.loads(frame)["item"] == item:
                return True
        return False


class RecomputingOwner(Owner):
    """Broken: after an unknown outcome it builds the frame anew on whatever head it finds."""

    async def append(self, item):
        while True:
            batch, head = self.frame_of(item)
            try:
                await self.engine.commit(batch)
            except (OutcomeUnknown, Conflict):
                self.head, epoch = await self.read(HEAD, EPOCH)
                self.height = 0 if self.head is None else json.loads(self.head)["height"]
                if epoch != self.epoch:
                    raise Fenced("test.fenced", "another node owns the journal") from None
            except Unavailable:
                await asyncio.sleep(BACKOFF_SECONDS)
            else:
                self.head, self.height = head, self.height + 1
                return


class TrustingOwner(Owner):
    """Broken: it takes an unknown outcome for success."""

    async def append(self, item):
        batch, head = self.frame_of(item)
        try:
            await self.engine.commit(batch)
        except OutcomeUnknown:
            pass
        except (Unavailable, Conflict):
            raise Fenced("test.fenced", "another node owns the journal") from None
        self.head, self.height = head, self.height + 1


class HastyOwner(Owner):
    """Broken: it reads the head without becoming the owner first, and expects only the epoch it found."""

    async def acquire(self):
        self.epoch, self.head = await self.read(EPOCH, HEAD)
        if self.epoch is None:
            await super().acquire()
        self.height = 0 if self.head is None else json.loads(self.head)["height"]

    def frame_of(self, item):
        batch, head = super().frame_of(item)
        return Batch(expect={EPOCH: self.epoch}, set=batch.set), head


class ForgetfulOwner(Owner):
    """Broken: after it was fenced it sends the item again without looking whether it arrived."""

    async def has(self, item):
        return False


def scenario_of(owner, nodes=3, items=4, crashes=3):
    async def scenario(simulation: Simulation):
        acknowledged, reached = [], Counter()
        clients = {
            f"node {number}": [f"{number}/{place}" for place in range(items)] for number in range(nodes)
        }
        starts = iter(range(10_000))

        async def main(engine, name):
            """Serve the client of this node: every item until it is acknowledged, the same id each time."""
            node = owner(engine, f"{name} start {next(starts)}", reached)
            while clients[name]:
                await node.acquire()
                try:
                    while clients[name]:
                        item = clients[name][0]
                        if await node.has(item):
                            reached["found after a restart"] += 1
                        else:
                            await node.append(item)
                        acknowledged.append(clients[name].pop(0))
                        await asyncio.sleep(simulation.entropy.below(20) / 1_000)
                except Fenced:
                    await asyncio.sleep(BACKOFF_SECONDS)

        def start(name):
            return simulation.start(name, lambda engine: main(engine, name))

        running = {name: start(name) for name in clients}
        for _ in range(crashes):
            await asyncio.sleep(simulation.entropy.below(300) / 1_000)
            name = simulation.entropy.choice(sorted(clients))
            if not running[name].is_done():
                await running[name].crash()
                running[name] = start(name)
        async with asyncio.timeout(3_600):
            for node in running.values():
                await node.wait()
        await simulation.wire.settle()
        check(simulation.disk.dump(), acknowledged, {f"{n}/{i}" for n in range(nodes) for i in range(items)})
        simulation.note(repr(acknowledged))
        return reached

    return scenario


def check(rows, acknowledged, submitted):
    """The checker knows rows only: it walks the chain from the head down."""
    frames = {key: json.loads(value) for key, value in rows.items() if key.startswith(JOURNAL)}
    head = json.loads(rows[HEAD])
    assert sorted(frames) == [frame_key(height) for height in range(1, head["height"] + 1)], "heights"
    below = b""
    for height in range(1, head["height"] + 1):
        key = frame_key(height)
        assert frames[key]["height"] == height, "a frame under another height"
        assert frames[key]["previous"] == sha256(below).hexdigest(), "the chain is broken"
        below = encode({"height": height, "frame": sha256(rows[key]).hexdigest()})
    assert below == rows[HEAD], "the head is not the last frame"
    items = [frame["item"] for frame in frames.values()]
    assert len(items) == len(set(items)), "an item is there twice"
    assert set(items) <= submitted, "an item was invented"
    assert set(acknowledged) <= set(items), "an acknowledged item was lost"
    assert len(acknowledged) == len(set(acknowledged)) == len(submitted), "not every item was acknowledged"


scenario = scenario_of(Owner)


def test_nodes_sharing_a_journal_through_faults_and_crashes_keep_it_whole(seeds):
    runs = simulate(scenario, seeds=seeds)
    reached = sum((run.result for run in runs), Counter())
    every = {"answered", "unavailable", "it had arrived", "sent again", "fenced", "found after a restart"}
    assert need_not_reach_all(seeds) or set(reached) == every


def test_one_owner_without_crashes_keeps_it_whole(seeds):
    simulate(scenario_of(Owner, nodes=1, items=12, crashes=0), seeds=seeds)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (RecomputingOwner, "an item is there twice"),
        (TrustingOwner, "an acknowledged item was lost"),
        (HastyOwner, "the chain is broken"),
        (ForgetfulOwner, "an item is there twice"),
    ],
)
def test_a_broken_protocol_is_caught(broken, said):
    with pytest.raises(InvariantBroken) as caught:
        simulate(scenario_of(broken), seeds=range(CAUGHT_WITHIN), faults=ROUGH)
    assert caught.value.code == "testing.seed_failed"
    assert isinstance(caught.value.__cause__, AssertionError)
    assert said in str(caught.value.__cause__)
    assert "fails identically" in str(caught.value)
