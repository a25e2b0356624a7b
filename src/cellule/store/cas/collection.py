"""What collection needs of the CAS: generations, conditional removal, and bodies left behind.

Marking, and the order in which a collector uses these, do not live here; `docs/formats/cas.md` has the
protocol and its proof. Every removal expects what it saw, so a put that comes in between wins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from cellule.errors import Conflict, Corrupted, Rejected, ensure
from cellule.store import keys
from cellule.store.cache import DiskCache, NodeCache
from cellule.store.cas.bodies import Bodies
from cellule.store.cas.contract import (
    ATTEMPTS_MAX,
    GENERATIONS_KEPT,
    GROUP_BYTES_MAX,
    PAGE_LIMIT_MAX,
    Entry,
    Orphan,
    OrphanPage,
    contended,
)
from cellule.store.cas.rows import (
    BODY_BYTES,
    Chunked,
    Inline,
    Place,
    Row,
    Stored,
    body_generation,
    decode_generation,
    decode_row,
    encode_generation,
    object_folder,
)
from cellule.store.engine import Batch, Engine
from cellule.store.families import UNIVERSE_BYTES
from cellule.store.tuples import unpack
from cellule.values.cid import Cid

_CHUNKS_AFTER = re.compile(r"chunks:[0-9a-f]{32}\Z")


class Collection:
    """Generations, removal and orphans of one universe."""

    def __init__(
        self, engine: Engine, universe: UUID, bodies: Bodies, cache: NodeCache, disk: DiskCache | None
    ) -> None:
        self._engine = engine
        self._universe = universe
        self._bodies = bodies
        self._cache = cache
        self._disk = disk

    async def generation(self) -> int:
        """Return the generation now."""
        return decode_generation((await self._engine.read([keys.cas_generation(self._universe)]))[0])

    async def advance(self) -> int:
        """Begin the next generation and return it; of concurrent calls each begins one."""
        key = keys.cas_generation(self._universe)
        for _ in range(ATTEMPTS_MAX):
            stored = (await self._engine.read([key]))[0]
            following = decode_generation(stored) + 1
            try:
                await self._engine.commit(
                    Batch(expect={key: stored}, set={key: encode_generation(following)})
                )
            except Conflict:
                continue
            return following
        raise contended("the generation")

    async def entries(self, *, limit: int, after: Cid | None = None) -> list[Entry]:
        """Return objects with their generations, by CID; fewer than `limit` may not be the end, none is."""
        _check_limit(limit)
        begin, end = keys.cas_range(self._universe)
        if after is not None:
            begin = keys.cas(self._universe, after) + b"\0"
        page = await self._engine.scan(begin, end, limit=limit)
        found = [(_cid_of(key), stored) for key, stored in page.items]
        return [_entry(cid, decode_row(cid, stored)) for cid, stored in found]

    async def entry(self, cid: Cid) -> Entry | None:
        """Return one object; None where it is not stored."""
        [stored] = await self._engine.read([keys.cas(self._universe, cid)])
        return None if stored is None else _entry(cid, decode_row(cid, stored))

    async def remove_if(self, cid: Cid, generation: int) -> bool:
        """Remove an object whose row still has `generation`, then its body; tell whether it was removed.

        If the body cannot be deleted the error says so; the row is gone and the body is an orphan.
        """
        key = keys.cas(self._universe, cid)
        stored = (await self._engine.read([key]))[0]
        if stored is None:
            return False
        row = decode_row(cid, stored)
        if row.generation != generation:
            return False
        ranges = []
        if isinstance(row.place, Chunked):
            ranges.append(keys.cas_chunk_range(self._universe, row.place.body))
        try:
            await self._engine.commit(Batch(expect={key: stored}, clear=[key], clear_range=ranges))
        except Conflict:
            return False
        await self._forget(cid, row.place)
        return True

    async def remove_many(self, entries: Sequence[Entry]) -> list[Entry]:
        """Remove objects as `remove_if` does, many in one commit where nobody interferes."""
        removed: list[Entry] = []
        stored = await self._engine.read([keys.cas(self._universe, each.cid) for each in entries])
        group: list[_Doomed] = []
        size = 0
        for entry, held in zip(entries, stored, strict=True):
            if held is None or (row := decode_row(entry.cid, held)).generation != entry.generation:
                continue
            if group and size + len(held) > GROUP_BYTES_MAX:
                removed += await self._remove_group(group)
                group, size = [], 0
            group.append(_Doomed(entry, held, row.place))
            size += len(held)
        return removed + await self._remove_group(group)

    async def _remove_group(self, group: list[_Doomed]) -> list[Entry]:
        if not group:
            return []
        rows = {keys.cas(self._universe, each.entry.cid): each.stored for each in group}
        bodies = [each.place.body for each in group if isinstance(each.place, Chunked)]
        ranges = [keys.cas_chunk_range(self._universe, body) for body in bodies]
        try:
            await self._engine.commit(Batch(expect=rows, clear=list(rows), clear_range=ranges))
        except Conflict:  # one of them was put again: each by itself
            each_by_itself = [each.entry for each in group]
            return [each for each in each_by_itself if await self.remove_if(each.cid, each.generation)]
        for each in group:
            await self._forget(each.entry.cid, each.place)
        return [each.entry for each in group]

    async def _forget(self, cid: Cid, place: Place) -> None:
        """The row is gone: so are the copies at hand, and the body in the object store."""
        self._cache.drop(self._universe, cid)
        if self._disk is not None:
            await self._disk.drop(self._universe, cid)
        if isinstance(place, Stored):
            await self._bodies.remove(place, cid)

    async def orphans(self, *, limit: int, after: str = "") -> OrphanPage:
        """Examine up to `limit` bodies; return those that are two generations old and named by no row."""
        _check_limit(limit)
        # Read first: whatever is decided below is decided after this generation had begun.
        oldest_kept = await self.generation() - GENERATIONS_KEPT + 1
        kind, _, position = after.partition(":")
        if not after or _CHUNKS_AFTER.match(after):
            return await self._orphan_chunks(limit, bytes.fromhex(position), oldest_kept)
        if kind == "objects":
            return await self._orphan_objects(limit, position, oldest_kept)
        raise Rejected("cas.orphans_after", "{after!r} continues no listing of orphans", after=after)

    async def remove_orphan(self, orphan: Orphan) -> None:
        """Remove a body that `orphans` returned; it can have got no row since."""
        if not orphan.object:
            await self._bodies.remove(Chunked(orphan.body, 0, 0))
            return
        cid, body = _parsed(orphan.object, object_folder(self._universe)) or (None, b"")
        ensure(
            cid is not None and body == orphan.body, "cas.orphan", "{name} is no orphan", name=orphan.object
        )
        await self._bodies.remove(Stored(body, 0), cid)

    async def _orphan_chunks(self, limit: int, last: bytes, oldest_kept: int) -> OrphanPage:
        """Skip from body to body: only the first row of each is read, and that is the small owner row."""
        begin = keys.cas_chunk_range(self._universe, last or bytes(BODY_BYTES))[1 if last else 0]
        end = keys.cas_chunk_range(self._universe, b"\xff" * BODY_BYTES)[1]
        owners: dict[bytes, Cid | None] = {}
        while len(owners) < limit:
            page = await self._engine.scan(begin, end, limit=1)
            if not page.items:
                break
            key, value = page.items[0]
            _, body, number = unpack(key[UNIVERSE_BYTES:])
            assert isinstance(body, bytes)
            if body_generation(body) >= oldest_kept:
                # Bodies are ordered by age: all that follow are as young.
                begin = end
                break
            owners[body] = _owner(body, value) if number == 0 else None
            begin = keys.cas_chunk_range(self._universe, body)[1]
        named = await self._named([cid for cid in owners.values() if cid is not None])
        items = [Orphan(body) for body, cid in owners.items() if cid is None or named.get(cid) != body]
        if len(owners) == limit:
            return OrphanPage(items, f"chunks:{next(reversed(owners)).hex()}")
        return OrphanPage(items, "objects:" if self._bodies.objects is not None else "")

    async def _orphan_objects(self, limit: int, last: str, oldest_kept: int) -> OrphanPage:
        objects = self._bodies.objects
        if objects is None:
            return OrphanPage([], "")
        folder = object_folder(self._universe)
        page = await objects.list(folder, limit=limit, start_after=last)
        found = {}
        for item in page.items:
            parsed = _parsed(item.name, folder)
            if parsed is not None and body_generation(parsed[1]) < oldest_kept:
                found[item.name] = parsed
        named = await self._named([cid for cid, _ in found.values()])
        items = [Orphan(body, name) for name, (cid, body) in found.items() if named.get(cid) != body]
        return OrphanPage(items, f"objects:{page.items[-1].name}" if page.more else "")

    async def _named(self, cids: list[Cid]) -> dict[Cid, bytes]:
        """Return the bodies that the rows of these objects name."""
        wanted = list(dict.fromkeys(cids))
        rows = await self._engine.read([keys.cas(self._universe, cid) for cid in wanted])
        places = {cid: decode_row(cid, row).place for cid, row in zip(wanted, rows, strict=True) if row}
        return {cid: body for cid, place in places.items() if (body := _body_of(place))}


@dataclass(frozen=True, slots=True)
class _Doomed:
    """An object that is to be removed, and its row as it was read."""

    entry: Entry
    stored: bytes
    place: Place


def _entry(cid: Cid, row: Row) -> Entry:
    size = len(row.place.data) if isinstance(row.place, Inline) else row.place.size
    return Entry(cid, row.generation, size)


def _body_of(place: Place) -> bytes:
    return b"" if isinstance(place, Inline) else place.body


def _owner(body: bytes, stored: bytes) -> Cid:
    try:
        return Cid.of_bytes(stored)
    except Rejected as error:
        raise Corrupted(
            "cas.owner_damaged", "the body {body} names {stored} as its object, which is no CID",
            body=body, stored=stored[:40],
            hint="Stop collecting, run a check of the whole database, and restore from a backup.",
        ) from error  # fmt: skip


def _parsed(name: str, folder: str) -> tuple[Cid, bytes] | None:
    """Return the CID and body id in an object's name; None if it is not one of ours."""
    cid_text, _, body_text = name.removeprefix(folder).partition("/")
    try:
        cid, body = Cid.parse(cid_text), bytes.fromhex(body_text)
    except (Rejected, ValueError):
        return None
    return (cid, body) if len(body) == BODY_BYTES else None


def _cid_of(key: bytes) -> Cid:
    named = keys.cas_of(key)
    assert named is not None
    return Cid.of_bytes(named[1])


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= PAGE_LIMIT_MAX:
        raise Rejected(
            "cas.page_limit", "a page takes limit 1 to {most}, not {limit}", limit=limit, most=PAGE_LIMIT_MAX
        )
