"""What a store must hold, and nothing else: every object that a root leads to, hashed again.

`reached` walks from the roots of a universe with a cache of its own, so that each object comes from the store
and is held against its CID. `check_bounded` holds the store against that after a collection: nothing else is
in the rows, and the object store has just the bodies that those rows name. `contents` is all of a store, as
bytes.
"""

from __future__ import annotations

from uuid import UUID

from cellule.host.own.directory import Directory
from cellule.host.storage.roots import universe_roots, world_roots
from cellule.kernel.journal.links import links_of_block
from cellule.sources import Clock
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.cas.rows import Stored, decode_row, object_folder, object_name
from cellule.store.engine import Engine
from cellule.store.keys import Range
from cellule.store.object_store import ObjectStore
from cellule.testing.entropy import SeededEntropy
from cellule.values.cid import Cid


async def reached(engine: Engine, objects: ObjectStore | None, universe: UUID, clock: Clock) -> set[Cid]:
    """Every object that is kept, each read and proven; what only users' values link may be absent."""
    cas = Cas(engine, universe, objects=objects, entropy=SeededEntropy(0, "reached"))
    directory = Directory(engine, clock, SeededEntropy(0, "reached"))
    roots = [root async for root in universe_roots(engine, universe, clock.now_ns())]
    for info in await directory.worlds(universe):
        roots += [root async for root in world_roots(engine, universe, info)]
    ours = {cid for root in roots for cid in root.links.ours}
    waiting = ours | {cid for root in roots for cid in root.links.users}
    found: set[Cid] = set()
    while waiting:
        cid = waiting.pop()
        if cid in found or (cid not in ours and not await cas.has(cid)):
            continue
        data = await cas.get(cid)
        found.add(cid)
        if cid.codec == "dag-cbor":
            links = links_of_block(data)
            ours |= links.ours
            waiting |= {*links.ours, *links.users} - found
    return found


async def check_bounded(engine: Engine, objects: ObjectStore | None, universe: UUID, clock: Clock) -> None:
    """Right after a collection without grace: what is stored is what is kept."""
    kept = await reached(engine, objects, universe, clock)
    stored: set[Cid] = set()
    bodies: set[str] = set()
    for key, value in await _rows(engine, keys.cas_range(universe)):
        named = keys.cas_of(key)
        assert named is not None
        cid = Cid.of_bytes(named[1])
        stored.add(cid)
        place = decode_row(cid, value).place
        if isinstance(place, Stored):
            bodies.add(object_name(universe, cid, place.body))
    assert stored == kept, f"{len(stored - kept)} objects too many, {len(kept - stored)} too few"
    cas = Cas(engine, universe, objects=objects, entropy=SeededEntropy(0, "bounded"))
    assert not (await cas.orphans(limit=500)).items, "bodies that no row names"
    for place_of_marks in (keys.cas_mark_range(universe), keys.cas_unread_range(universe)):
        assert not await _rows(engine, place_of_marks), "marks of a collection that is over"
    if objects is not None:
        assert await _names(objects, object_folder(universe)) == bodies


async def _rows(engine: Engine, place: Range) -> list[tuple[bytes, bytes]]:
    begin, end = place
    found: list[tuple[bytes, bytes]] = []
    while True:
        page = await engine.scan(begin, end, limit=1_000)
        found += page.items
        if not page.more:
            return found
        begin = page.items[-1][0] + b"\0"


async def contents(engine: Engine, objects: ObjectStore | None) -> bytes:
    """All that a store holds: rows with their keys, and objects."""
    found = [key + value async for page in engine.rows() for key, value in page]
    if objects is not None:
        found += [await objects.get(name) for name in sorted(await _names(objects, ""))]
    return b"\n".join(found)


async def _names(objects: ObjectStore, folder: str) -> set[str]:
    found: set[str] = set()
    after = ""
    while True:
        page = await objects.list(folder, limit=500, start_after=after)
        found |= {item.name for item in page.items}
        if not page.more:
            return found
        after = page.items[-1].name
