"""Deleting worlds and universes: in steps that may be repeated, the name last, so nothing is left nameless.

A world is gone for everybody once its `gone` row is there; then its rows go, then its refs and its row in the
list. Whoever stops in between leaves a name behind, by which the deletion is done again: deleting once more,
or making a world of that name, ends it. The `gone` row stays: handles that outlive the world say so.

Rejected: everything in one batch. A journal has more rows than a batch may clear on a shared store.
"""

from __future__ import annotations

from uuid import UUID

from cellule.errors import Rejected
from cellule.host.journal import Head
from cellule.host.own.directory import Directory, UniverseInfo, WorldInfo
from cellule.store import keys
from cellule.store.cas.rows import object_folder
from cellule.store.engine import SCAN_LIMIT_MAX, Batch, Engine
from cellule.store.families import universe_ranges, world_ranges
from cellule.store.object_store import ObjectStore
from cellule.values.cbor import encode

CLEAR_MAX = 1_000  # refs cleared at once
OBJECTS_PAGE = 500  # objects listed at once


async def delete_world(engine: Engine, world: WorldInfo, now_ns: int) -> None:
    """Remove a world, its journal and its names; what it had in the CAS is left to collection."""
    shard = keys.shard_of(world.id)
    gone = keys.world_gone(world.universe, world.id)
    stored, head = await engine.read([gone, keys.world_head(world.universe, world.id)])
    clear = [keys.ready(shard, world.universe, world.id)]
    wake_ns = None if head is None else Head.of_row(head).wake_ns
    if wake_ns is not None:
        clear.append(keys.wake(shard, wake_ns, world.universe, world.id))
    row = stored or encode({"deleted_ns": now_ns, "name": world.name})
    await engine.commit(Batch(set={gone: row}, clear=clear))
    for begin, end in world_ranges(world.universe, world.id):
        await engine.commit(Batch(clear_range=[(begin, end)]))
    await _clear_refs(engine, world)
    listing = keys.universe_world(world.universe, world.id)
    [stored] = await engine.read([listing])
    if stored is not None:
        await engine.commit(
            Batch(expect={listing: stored}, clear=[listing], add={keys.world_count(world.universe): -1})
        )


async def _clear_refs(engine: Engine, world: WorldInfo) -> None:
    """Clear all names of a world, page by page."""
    begin, end = keys.ref_range(world.universe)
    while True:
        page = await engine.scan(begin, end, limit=SCAN_LIMIT_MAX)
        names = [keys.ref_name(key) for key, value in page.items if value == world.id.bytes]
        for start in range(0, len(names), CLEAR_MAX):
            clear: list[bytes] = []
            for name in names[start : start + CLEAR_MAX]:
                clear += [keys.ref(world.universe, name), keys.ref_named(world.universe, name)]
            await engine.commit(Batch(clear=clear))
        if not page.more:
            return
        begin = page.items[-1][0] + b"\0"


async def delete_universe(
    engine: Engine, directory: Directory, objects: ObjectStore | None, universe: UniverseInfo
) -> None:
    """Remove an empty universe with everything it has in the CAS and in the object store."""
    worlds = await directory.worlds(universe.id)
    if worlds:
        raise Rejected(
            "host.universe_not_empty", "universe {name} still has {count} worlds",
            name=universe.name, count=len(worlds), hint="Delete its worlds first.",
        )  # fmt: skip
    meta = keys.universe_meta(universe.id)
    row = encode({"created_ns": universe.created_ns, "deleting": True, "name": universe.name})
    await engine.commit(Batch(set={meta: row}))
    if objects is not None:
        await _delete_objects(objects, universe.id)
    for begin, end in universe_ranges(universe.id):
        rest = [(begin, meta), (meta + b"\0", end)] if begin <= meta < end else [(begin, end)]
        await engine.commit(Batch(clear_range=rest))  # its own row stays until its name goes
    key = keys.universe_name(universe.name)
    await engine.commit(
        Batch(
            expect={key: universe.id.bytes},
            clear=[key, keys.universe_named(universe.name), meta, keys.world_count(universe.id)],
            add={keys.universe_count(): -1},
        )
    )


async def _delete_objects(objects: ObjectStore, universe: UUID) -> None:
    folder = object_folder(universe)
    while True:
        page = await objects.list(folder, limit=OBJECTS_PAGE)
        for item in page.items:
            await objects.delete(item.name)
        if not page.more:
            return
