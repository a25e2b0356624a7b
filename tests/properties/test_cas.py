"""Laws of the CAS: rows come back as they were, and collection never takes what a root names.

The collection protocol runs here as `docs/formats/cas.md` states it, with writers that crash and a store that
fails: roots are rows of worlds, and each world has a witness that the collector raises before it marks.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.errors import Conflict, InvariantBroken, Rejected, Unavailable
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.cas.contract import CHUNK_BYTES, GENERATION_MAX
from cellule.store.cas.rows import (
    Chunked,
    Inline,
    Row,
    Stored,
    body_generation,
    decode_generation,
    decode_row,
    encode_generation,
    encode_row,
    new_body,
)
from cellule.store.engine import Batch
from cellule.store.engines.memory import MemoryEngine
from cellule.testing import SeededEntropy, Simulation, simulate
from cellule.testing.conformance.cas_collection import stored_bodies
from cellule.testing.conformance.object_machine import pieces_of, sample
from cellule.values.cid import Cid, cid_of
from tests.support.memory_objects import MemoryObjects

UNIVERSE = UUID(int=1)
WORLDS = [UUID(int=number) for number in range(2, 5)]
BODIES = [sample(10), sample(100), sample(70_000), sample(150_000)]
CIDS = [cid_of(body, codec="raw") for body in BODIES]
PAUSE_S = 0.02

generations = st.integers(0, GENERATION_MAX)
body_ids = st.binary(min_size=16, max_size=16)
sizes = st.integers(1, 1 << 50)
places = (
    st.builds(Inline, st.binary(max_size=200))
    | st.builds(lambda body, size: Chunked(body, -(-size // CHUNK_BYTES), size), body_ids, sizes)
    | st.builds(Stored, body_ids, sizes)
)


@settings(deadline=None)
@given(generations, places)
def test_a_row_comes_back_as_it_was(generation, place):
    row = Row(generation, place)
    assert decode_row(CIDS[0], encode_row(row)) == row


@settings(deadline=None)
@given(generations)
def test_generations_and_the_age_of_bodies_come_back_as_they_were(generation):
    assert decode_generation(encode_generation(generation)) == generation
    assert body_generation(new_body(generation, SeededEntropy(0))) == generation


@settings(deadline=None)
@given(generations, generations)
def test_bodies_are_ordered_by_age(first, second):
    bodies = [new_body(generation, SeededEntropy(7)) for generation in (first, second)]
    assert (bodies[0] < bodies[1]) == (first < second)


async def persist(call):
    """Do what every caller does: again after `Unavailable`."""
    while True:
        try:
            return await call()
        except Unavailable as error:
            if error.code == "testing.crashed":
                raise
            await asyncio.sleep(PAUSE_S)


def root_key(world):
    return keys.world_baseline(UNIVERSE, world)


def witness_key(world):
    return keys.world_desired(UNIVERSE, world)


class Writer:
    """Puts an object and makes it the root of a world, only while the witness is young enough."""

    slowness_ms = 200

    def __init__(self, engine, objects, world, entropy):
        self.engine = engine
        self.cas = Cas(engine, UNIVERSE, objects=objects, entropy=entropy.child("bodies"))
        self.world = world
        self.entropy = entropy

    async def run(self, rounds):
        for _ in range(rounds):
            await self.root(self.entropy.choice(BODIES))
            await asyncio.sleep(self.entropy.below(100) / 1_000)

    async def root(self, body):
        while True:
            generation = await persist(self.cas.generation)
            cid = await persist(lambda: self.put(body))
            await asyncio.sleep(self.entropy.below(self.slowness_ms) / 1_000)
            witness, old = await persist(
                lambda: self.engine.read([witness_key(self.world), root_key(self.world)])
            )
            if not self.is_covered(generation, decode_generation(witness)):
                continue
            expect = {witness_key(self.world): witness, root_key(self.world): old}
            try:
                await self.engine.commit(Batch(expect=expect, set={root_key(self.world): bytes(cid)}))
            except Conflict:
                continue
            except Unavailable as error:
                if error.code == "testing.crashed":
                    raise
            else:
                return

    def put(self, body):
        if self.entropy.chance(0.5):
            return self.cas.put_stream(pieces_of(body, 30_000))
        return self.cas.put(body, "raw")

    def is_covered(self, generation, witness):
        return witness <= generation + 1


class CarelessWriter(Writer):
    """Broken: it roots what it put at any time before."""

    slowness_ms = 1_000

    def is_covered(self, generation, witness):
        return True


class Collector:
    """Advances, raises every witness and marks behind it, then sweeps; `kept` generations stay."""

    def __init__(self, engine, objects, entropy, reached, kept=2):
        self.engine = engine
        self.cas = Cas(engine, UNIVERSE, objects=objects, entropy=entropy)
        self.reached = reached
        self.kept = kept

    async def run(self, rounds):
        for _ in range(rounds):
            await self.collect()
            await asyncio.sleep(PAUSE_S)

    async def collect(self):
        generation = await persist(self.cas.advance_generation)
        marked = set()
        for world in WORLDS:
            await self.raise_witness(world, generation)
            marked.update(await persist(lambda world=world: self.engine.read([root_key(world)])))
        for entry in await persist(lambda: self.cas.entries(limit=100)):
            if entry.generation <= generation - self.kept and entry.cid not in marked:
                removed = await persist(lambda entry=entry: self.cas.remove_if(entry.cid, entry.generation))
                self.reached["removed"] += removed
        await self.remove_orphans()

    async def raise_witness(self, world, generation):
        while True:
            (stored,) = await persist(lambda: self.engine.read([witness_key(world)]))
            if decode_generation(stored) >= generation:
                return
            try:
                await self.engine.commit(
                    Batch(
                        expect={witness_key(world): stored},
                        set={witness_key(world): encode_generation(generation)},
                    )
                )
            except Conflict:
                continue
            except Unavailable:
                await asyncio.sleep(PAUSE_S)

    async def remove_orphans(self):
        after = ""
        while True:
            page = await persist(lambda after=after: self.cas.orphans(limit=2, after=after))
            for orphan in page.items:
                await persist(lambda orphan=orphan: self.cas.remove_orphan(orphan))
                self.reached["orphans"] += 1
            after = page.after
            if not after:
                return


async def check_roots(simulation, objects):
    """Whatever is a root now can be read now."""
    engine = MemoryEngine(simulation.disk)
    for cid in filter(None, await engine.read([root_key(world) for world in WORLDS])):
        cas = Cas(engine, UNIVERSE, objects=objects)
        try:
            assert await cas.get(Cid(cid)) == BODIES[CIDS.index(cid)]
        except Rejected as error:
            # It may have ceased to be a root since; what still is one was lost.
            if cid in await engine.read([root_key(world) for world in WORLDS]):
                raise InvariantBroken("test.lost", "a root was collected") from error


async def check_bodies(engine, objects):
    """After a quiet collection every body is named by a row."""
    rows = await engine.scan(*keys.cas_range(UNIVERSE), limit=100)
    places = [decode_row(CIDS[0], stored).place for _, stored in rows.items]
    named = sum(not isinstance(place, Inline) for place in places)
    assert await stored_bodies(engine, objects, UNIVERSE) == named


def scenario_of(writer=Writer, kept=2, with_objects=False):
    async def scenario(simulation: Simulation):
        reached = Counter()
        objects = MemoryObjects() if with_objects else None
        setup = MemoryEngine(simulation.disk)
        await setup.commit(Batch(set={witness_key(world): encode_generation(0) for world in WORLDS}))

        def start(name, world):
            entropy = simulation.entropy.child(f"{name} {reached[name]}")
            reached[name] += 1
            return simulation.start(name, lambda engine: writer(engine, objects, world, entropy).run(4))

        running = {str(world): start(str(world), world) for world in WORLDS}
        collector = Collector(
            simulation.engine_for("collector"), objects, simulation.entropy.child("collector"), reached, kept
        )
        collecting = asyncio.create_task(collector.run(12))
        for _ in range(6):
            await asyncio.sleep(simulation.entropy.below(150) / 1_000)
            await check_roots(simulation, objects)
            world = simulation.entropy.choice(WORLDS)
            await running[str(world)].crash()
            running[str(world)] = start(str(world), world)
        for node in running.values():
            await node.wait()
        await collecting
        await simulation.wire.settle()
        calm = Collector(setup, objects, simulation.entropy.child("calm"), reached, kept)
        await calm.run(3)
        await check_roots(simulation, objects)
        await check_bodies(setup, objects)
        return reached

    return scenario


@pytest.mark.simulation
@pytest.mark.parametrize("with_objects", [False, True], ids=["chunks", "objects"])
def test_collection_takes_no_root_and_leaves_no_orphan_for_good(with_objects):
    runs = simulate(scenario_of(with_objects=with_objects))
    total = sum((run.result for run in runs), Counter())
    if len(runs) >= 50:
        assert total["removed"] > 0
        assert total["orphans"] > 0


@pytest.mark.simulation
@pytest.mark.parametrize(
    "broken",
    [scenario_of(kept=0), scenario_of(writer=CarelessWriter)],
    ids=["a sweep of young rows", "a root without a witness"],
)
def test_a_broken_protocol_is_found(broken):
    with pytest.raises(InvariantBroken) as caught:
        simulate(broken, seeds=range(300))
    assert isinstance(caught.value.__cause__, InvariantBroken)
    assert caught.value.__cause__.code == "test.lost"
