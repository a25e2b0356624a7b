"""Deleting worlds and universes: in steps that may be repeated, the name last, so nothing is left nameless.

A world is gone for everybody once its `gone` row is there; then its rows go, then its refs and its row in
the list, together. Whoever stops in between leaves a name behind, by which the deletion is done again:
deleting once more, or making a world of that name, ends it. The `gone` row stays: handles that outlive the
world say so.

Rejected: everything in one batch. A journal has more rows than a batch may clear on a shared store.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from cellule.errors import Conflict, Rejected, Unavailable
from cellule.host.erasure_keys import key_range
from cellule.host.journal import Head
from cellule.host.limits import ATTEMPTS_MAX
from cellule.host.own.directory import Directory, UniverseInfo, WorldInfo
from cellule.store import keys
from cellule.store.cas.rows import object_folder
from cellule.store.engine import SCAN_LIMIT_MAX, Batch, Engine
from cellule.store.families import universe_ranges, world_ranges
from cellule.store.object_store import ObjectStore
from cellule.store.tuples import INT_MAX
from cellule.values.cbor import encode

CLEAR_MAX = 1_000  # refs cleared at once
OBJECTS_PAGE = 500  # objects listed at once


async def delete_rows(engine: Engine, directory: Directory, world: WorldInfo, now_ns: int) -> None:
    """Remove a world and its journal; its names stay, and what it had in the CAS is left to collection.

    Its erasure keys stay while there are worlds that were forked from it, and read cells by them.
    """
    shard = keys.shard_of(world.id)
    gone = keys.world_gone(world.universe, world.id)
    stored, head = await engine.read([gone, keys.world_head(world.universe, world.id)])
    clear = [keys.ready(shard, world.universe, world.id)]
    wake_ns = None if head is None else Head.of_row(head).wake_ns
    if wake_ns is not None:
        clear.append(keys.wake(shard, wake_ns, world.universe, world.id))
    row = stored or encode({"deleted_ns": now_ns, "name": world.name})
    await engine.commit(Batch(set={gone: row}, clear=clear))
    counts = [keys.row_count(rows, world.universe, world.id) for rows in ("holds", "retention")]
    for begin, end in world_ranges(world.universe, world.id):
        await engine.commit(Batch(clear_range=[(begin, end)], clear=counts))
    others = await directory.worlds(world.universe)
    if not any(world.id == each.world for other in others for each in other.lineage.ancestors):
        await engine.commit(Batch(clear_range=[key_range(world.universe, world.id)]))


async def delete_names(engine: Engine, world: WorldInfo) -> None:
    """Remove the names of a world whose rows are gone, the last ones together with its row in the list."""
    listing = keys.universe_world(world.universe, world.id)
    for _ in range(ATTEMPTS_MAX):
        names = await _names(engine, world)
        names.sort(key=lambda name: name == world.name)  # its own name stays longest
        [stored] = await engine.read([listing])
        try:
            while len(names) > CLEAR_MAX:
                await engine.commit(_without_names(world, names[:CLEAR_MAX]))
                del names[:CLEAR_MAX]
            last = _without_names(world, names)
            if stored is not None:
                last = replace(
                    last, expect={**last.expect, listing: stored}, clear=[*last.clear, listing],
                    add={keys.row_count("worlds", world.universe): -1},
                )  # fmt: skip
            await engine.commit(last)
        except Conflict:
            continue  # a name was moved meanwhile: it is another world's now
        return
    raise Unavailable("host.deletion_contended", "the names of world {world} keep changing", world=world.name)


async def _names(engine: Engine, world: WorldInfo) -> list[str]:
    """All names of a world."""
    begin, end = keys.ref_range(world.universe)
    found: list[str] = []
    while True:
        page = await engine.scan(begin, end, limit=SCAN_LIMIT_MAX)
        found += [keys.ref_name(key) for key, value in page.items if value == world.id.bytes]
        if not page.more:
            return found
        begin = page.items[-1][0] + b"\0"


def _without_names(world: WorldInfo, names: list[str]) -> Batch:
    refs = [keys.ref(world.universe, name) for name in names]
    second = [keys.ref_named(world.universe, name) for name in names]
    return Batch(expect=dict.fromkeys(refs, world.id.bytes), clear=refs + second)


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
    counts = [keys.row_count(rows, universe.id) for rows in ("pins", "quotas")]
    for begin, end in universe_ranges(universe.id):
        rest = [(begin, meta), (meta + b"\0", end)] if begin <= meta < end else [(begin, end)]
        counted = counts if begin <= keys.universe_quotas(universe.id) < end else []
        await engine.commit(Batch(clear_range=rest, clear=counted))  # its own row stays until its name goes
    key = keys.universe_name(universe.name)
    await engine.commit(
        Batch(
            expect={key: universe.id.bytes},
            clear=[key, keys.universe_named(universe.name), meta, keys.row_count("worlds", universe.id)],
            clear_range=[(keys.universe_events(universe.id, 0), keys.universe_events(universe.id, INT_MAX))],
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
