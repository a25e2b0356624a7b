"""Nodes for tests: one over any engine, and the checker that every test of a node ends with.

`open_node` wires a node as `cellule.open` does, without a folder. `check_store` is replay-or-die: every world
of a store is checked, verified by running its steps again, and restored from every snapshot it keeps to the
same bytes. What a scenario promised to its clients is its own business; `events_of` gives it the journal.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from cellule.app.built_app import Built
from cellule.effects.adapter import Adapter, Adapters
from cellule.errors import InvariantBroken
from cellule.host.cas_fetch import drive
from cellule.host.journal import Journal
from cellule.host.limits import IDLE_S, SNAPSHOT_TAIL_BYTES, STALL_S, WORLDS_MAX
from cellule.host.node import Node
from cellule.host.outbox.pool import Pool, PoolOptions
from cellule.host.outbox.signatures import NodeKey
from cellule.host.own.directory import Directory, WorldInfo, read_head
from cellule.host.own.lease import Lease
from cellule.host.own.ownership import Alone, Ownership
from cellule.host.read.check import check_world
from cellule.host.read.verify import verify_world
from cellule.host.run.loader import Loader
from cellule.host.run.outgoing import Dispatch
from cellule.host.service import Cellule, Deploy
from cellule.host.storage.policy import StoragePolicy
from cellule.kernel.items import Pace
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import EventRecord, Record
from cellule.kernel.program import Programs
from cellule.kernel.state.module_cells import Budget
from cellule.kernel.world import World
from cellule.sources import Clock, Entropy, SystemClock, uuid7
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Engine
from cellule.store.object_store import ObjectStore
from cellule.testing.entropy import SeededEntropy
from cellule.values.cid import Cid
from tests.support.task_keeper import TaskKeeper


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event of a journal: where it stands, its id, and how many cells it went to."""

    height: int
    id: str | bytes | None
    schema: str
    targets: int


def load_app(path: Path) -> ModuleType:
    """Import an app's file by its path, under the name of the file, as bundles need it."""
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(path.stem)


@asynccontextmanager
async def open_node(
    engine: Engine, built: Built | None, programs: Programs, *, clock: Clock | None = None,
    entropy: Entropy | None = None, deploy: Deploy = "auto", budget: Budget | None = None,
    snapshot_bytes: int = SNAPSHOT_TAIL_BYTES, stall_s: float = STALL_S, idle_s: float = IDLE_S,
    worlds_max: int = WORLDS_MAX, owner: bool = True, adapters: Iterable[Adapter] = (),
    key: NodeKey | None = None, pool: PoolOptions | None = None, ttl_s: float | None = None,
    lease: type[Lease] = Lease, policy: StoragePolicy | None = None, pace: Pace | None = None,
    objects: ObjectStore | None = None,
) -> AsyncIterator[Cellule]:  # fmt: skip
    """A running node over an engine; it performs effects if it has the `key` that vouches for receipts.

    With `ttl_s` it owns the store by a session, by way of `lease`; else it does or does not, as `owner` says.
    """
    policy = replace(policy or StoragePolicy(), snapshot_bytes=snapshot_bytes)
    clock, entropy = clock or SystemClock(), entropy or SeededEntropy(0, "node")
    loader = Loader(
        engine, programs, clock, entropy, budget or Budget(), pace, None, policy, stall_s, key,
        Dispatch(),
    )  # fmt: skip
    ownership: Ownership = Alone(uuid7(clock.now_ns(), entropy.bytes(10)) if owner else None)
    if ttl_s is not None:
        ownership = lease(engine, TaskKeeper(engine), clock, entropy, ttl_s, contends=owner)
    node = Node(engine, loader, clock, entropy, ownership, idle_s, worlds_max, objects=objects)

    @asynccontextmanager
    async def reigning() -> AsyncIterator[None]:
        assert loader.dispatch is not None
        if key is None:
            yield
            return
        node.pool = loader.dispatch.pool = Pool(
            engine, Adapters(adapters), key, node.cas, clock, entropy, arrived=node.receipts_arrived,
            options=pool, may_begin=node.may_act,
        )  # fmt: skip
        async with node.pool.running():
            yield

    node.reigning = reigning
    cellule = Cellule(node, built, deploy)
    async with node.running():
        yield cellule


async def check_store(
    engine: Engine, programs: Programs, objects: ObjectStore | None = None
) -> list[WorldInfo]:
    """Prove every world of a store; raises at the first thing that is wrong."""
    entropy = SeededEntropy(0, "check")
    directory = Directory(engine, SystemClock(), entropy)
    loader = Loader(engine, programs, SystemClock(), entropy, Budget(), None, None, StoragePolicy())
    found: list[WorldInfo] = []
    for universe in await directory.universes():
        cas = Cas(engine, universe.id, objects=objects, entropy=entropy)
        for info in await directory.worlds(universe.id):
            await check_world(loader, info, cas)
            verified = await verify_world(loader, info, cas)
            if verified.difference is not None or verified.not_run:
                raise InvariantBroken(
                    "testing.not_repeatable", "{difference}",
                    difference=verified.difference or dict(verified.not_run),
                )  # fmt: skip
            await _check_snapshots(loader, info, cas)
            found.append(info)
    return found


async def events_of(engine: Engine, info: WorldInfo) -> list[Recorded]:
    """Every event of a world's journal that came from outside, oldest first."""
    head = await read_head(engine, info)
    found: list[Recorded] = []
    journal = Journal(engine, Cas(engine, info.universe), info.lineage)
    async for _, data in journal.frames(1, head.height):
        for height, event in decode_frame(data).of(EventRecord):
            found.append(Recorded(height, event.id, event.schema, len(event.targets)))
    return found


async def records_of(engine: Engine, info: WorldInfo) -> list[tuple[int, Record]]:
    """Every record of a world's journal with its height."""
    head = await read_head(engine, info)
    found: list[tuple[int, Record]] = []
    journal = Journal(engine, Cas(engine, info.universe), info.lineage)
    async for _, data in journal.frames(1, head.height):
        found += decode_frame(data).numbered()
    return found


async def _check_snapshots(loader: Loader, info: WorldInfo, cas: Cas) -> None:
    """Every kept snapshot and the frames above it lead to the same bytes."""
    head = await read_head(loader.engine, info)
    page = await loader.engine.scan(*keys.snapshot_range(info.universe, info.id), limit=1_000)
    roots: dict[Cid, int] = {}
    for key, value in page.items:
        world = await _restored(
            loader, info, cas, keys.snapshot_height(key), Cid.of_bytes(value), head.height
        )
        roots[await _root_of(world, cas)] = keys.snapshot_height(key)
    if len(roots) != 1:
        raise InvariantBroken(
            "testing.replay_differs", "world {world} restores to different bytes: {roots}",
            world=info.name, roots={str(cid): height for cid, height in roots.items()},
        )  # fmt: skip


async def _restored(
    loader: Loader, info: WorldInfo, cas: Cas, height: int, snapshot: Cid, last: int
) -> World:
    restoring = World.restore(snapshot, info.id, loader.programs)
    opened = await drive(restoring.open(), restoring.nodes, cas)
    async for _, frame in Journal(loader.engine, cas, info.lineage).frames(height + 1, last):
        await drive(opened.apply(frame), restoring.nodes, cas)
    return await drive(opened.world(), restoring.nodes, cas)


async def _root_of(world: World, cas: Cas) -> Cid:
    job: Any = world.snapshot()
    root: Cid = await drive(job.run(), world.ledger.nodes, cas)
    return root
