"""The CAS of one universe: `put`, `get`, `has`, in bulk and as streams, and what collection needs.

The methods here state the contract and check their arguments; the work is done by the parts beside this
module. A `Cas` belongs to one event loop; many of them, in many processes, may share a universe.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import IO
from uuid import UUID

from cellule.errors import Rejected
from cellule.sources import Entropy, SystemEntropy
from cellule.store import keys
from cellule.store.cache import DiskCache, NodeCache
from cellule.store.cas.bodies import Bodies, Made
from cellule.store.cas.collection import Collection
from cellule.store.cas.contract import (
    GROUP_BYTES_MAX,
    GROUP_KEYS_MAX,
    MISSED_PAUSES_S,
    PARTS_BYTES_MAX,
    RENEWED_TOGETHER_MAX,
    WHOLE_BYTES_MAX,
    Entry,
    Orphan,
    OrphanPage,
    Parts,
    late_root,
    too_large,
)
from cellule.store.cas.reader import Reader
from cellule.store.cas.streams import put_stream
from cellule.store.cas.writer import Writer
from cellule.store.engine import Engine
from cellule.store.object_store import ObjectStore
from cellule.values.cbor import decode
from cellule.values.cid import Cid, Codec, cid_of


class Cas:
    """Content-addressed objects of one universe.

    Without `objects` everything is in the engine: 64 kB in the row, larger in chunks. With it, 16 kB in the
    row and larger in the object store; `inline_max` lowers the limit of the row. `cache` may be shared by all
    universes of a process, and so may `disk`, which is used only if `objects` is remote; so are
    `missed_pauses_s`, the pauses before a missing body is called damage. All methods raise
    `Unavailable` when the surroundings fail; every one of them may then be called again.
    """

    def __init__(
        self,
        engine: Engine,
        universe: UUID,
        *,
        objects: ObjectStore | None = None,
        cache: NodeCache | None = None,
        disk: DiskCache | None = None,
        entropy: Entropy | None = None,
        inline_max: int | None = None,
        missed_pauses_s: Sequence[float] = MISSED_PAUSES_S,
    ) -> None:
        self._engine = engine
        self._universe = universe
        self._cache = NodeCache() if cache is None else cache
        self._bodies = Bodies(engine, universe, objects, entropy or SystemEntropy(), inline_max)
        self._writer = Writer(engine, universe, self._bodies)
        self._reader = Reader(engine, universe, self._bodies, self._cache, disk, missed_pauses_s)
        self._collection = Collection(engine, universe, self._bodies, self._cache, disk)

    @property
    def universe(self) -> UUID:
        """The universe whose objects these are."""
        return self._universe

    @property
    def batch_block_max(self) -> int:
        """How large a block of `batch_parts` may be; larger ones are put before the batch."""
        return PARTS_BYTES_MAX if self._bodies.objects is None else self._bodies.inline_max

    async def put(
        self, data: bytes, codec: Codec = "dag-cbor", *, expected: Cid | None = None, trusted: bool = False
    ) -> Cid:
        """Store an object and return its CID; durable when this returns, all or nothing, idempotent.

        The CID is computed here, and `Rejected` if another one is `expected`. A dag-cbor object must be
        canonical, because collection and export decode it: it is decoded strictly unless `trusted`, which
        is for what our own encoder has just made. An object that is there is renewed for collection.
        """
        cid = self._checked(data, codec, trusted)
        if expected is not None and cid != expected:
            raise _unexpected(cid, expected)
        await self._put({cid: data})
        return cid

    async def put_many(
        self, blocks: Sequence[bytes], codec: Codec = "dag-cbor", *, trusted: bool = False
    ) -> list[Cid]:
        """Store objects as `put` does, with few commits; each is stored all or nothing, not all together."""
        cids = [self._checked(data, codec, trusted) for data in blocks]
        for group in _groups(dict(zip(cids, blocks, strict=True)), self._bodies.inline_max):
            await self._put(group)
        return cids

    async def put_stream(self, source: AsyncIterator[bytes], *, expected: Cid | None = None) -> Cid:
        """Store a raw blob of any size in constant memory; what fails underway leaves nothing visible."""

        async def finish(cid: Cid, make: Callable[[int], Awaitable[Made]]) -> None:
            if expected is not None and cid != expected:
                raise _unexpected(cid, expected)
            await self._writer.write({cid: make})

        return await put_stream(self._bodies, source, await self.generation(), finish)

    async def get(self, cid: Cid) -> bytes:
        """Return the verified bytes of an object; `Rejected` (`cas.not_found`) if this universe has none.

        `Corrupted` if they are not what was put. A removed object may be served from this process's cache.
        """
        cached = self._cache.get(self._universe, cid)
        return cached if cached is not None else (await self._reader.get_many([cid]))[cid]

    async def get_many(self, cids: Iterable[Cid]) -> dict[Cid, bytes]:
        """Return many objects as `get` does: one engine read for the rows, bounded transfers for bodies."""
        return await self._reader.get_many(cids)

    async def has(self, cid: Cid) -> bool:
        """Tell whether this universe holds the object now; never answered by a cache."""
        return (await self._engine.read([keys.cas(self._universe, cid)]))[0] is not None

    async def present(self, cids: Sequence[Cid]) -> tuple[Cid, ...]:
        """Those of these objects that this universe holds now."""
        found: list[Cid] = []
        for at in range(0, len(cids), GROUP_KEYS_MAX):
            part = cids[at : at + GROUP_KEYS_MAX]
            rows = await self._engine.read([keys.cas(self._universe, cid) for cid in part])
            found += (cid for cid, row in zip(part, rows, strict=True) if row is not None)
        return tuple(found)

    def stream(self, cid: Cid) -> AsyncGenerator[bytes, None]:
        """Yield an object in pieces, in constant memory.

        Pieces are unverified until the stream ends without an error; damage raises `Corrupted`, at the
        latest at the end. Use `open_verified` where bytes must be proven before they are used.
        """
        return self._reader.stream(cid)

    def open_verified(self, cid: Cid) -> AbstractAsyncContextManager[IO[bytes]]:
        """Give an object of any size as a file whose bytes are verified before the first is read."""
        return self._reader.open_verified(cid)

    async def batch_parts(self, blocks: Mapping[Cid, bytes], since: int | None = None) -> Parts:
        """Return what stores `blocks` as part of the caller's own batch, at most 2 MB of them.

        They are recomputed, and not decoded. With an object store only inline blocks are taken: put the
        others first, and say what `generation()` was before, as for `witness`. The batch roots all of them.
        If it ends in `Conflict`, ask again: another writer may have put one, or a collection has begun.
        """
        for cid, data in blocks.items():
            computed = cid_of(data, codec=cid.codec)
            if computed != cid:
                raise _unexpected(computed, cid)
        self._check_parts(blocks)
        seen = await self._writer.see(list(blocks))
        if since is not None and seen.generation > since + 1:
            raise late_root(since, seen.generation)
        absent = [cid for cid, stored in seen.rows.items() if stored is None]
        made = {cid: await self._bodies.make(cid, blocks[cid], seen.generation) for cid in absent}
        parts, witness = self._writer.parts(seen, made), self._writer.witness(seen)
        return Parts({**parts.expect, **witness.expect}, {**parts.set, **witness.set})

    async def generation(self) -> int:
        """Return the collection generation; every later put leaves a row of at least this one."""
        return await self._collection.generation()

    async def advance_generation(self) -> int:
        """Begin the next collection generation and return it."""
        return await self._collection.advance()

    async def witness(self, since: int) -> Parts:
        """Return what a batch expects that roots what was put since `generation()` returned `since`.

        `Unavailable` (`cas.overtaken_root`) if two collections began meanwhile: put everything again. On
        `Conflict` ask again.
        """
        seen = await self._writer.see([])
        if seen.generation > since + 1:
            raise late_root(since, seen.generation)
        return self._writer.witness(seen)

    async def roots(self, cids: Iterable[Cid], optional: Iterable[Cid] = ()) -> Parts:
        """Return what a batch expects and sets that begins to link these objects, which were put before.

        `Rejected` (`cas.not_found`) if one is gone; `optional` ones may be. On `Conflict` ask again.
        """
        needed = set(cids)
        wanted = sorted({*needed, *optional})
        if len(wanted) <= RENEWED_TOGETHER_MAX:
            return await self._writer.renewal(wanted, needed)
        since = await self.generation()
        for start in range(0, len(wanted), RENEWED_TOGETHER_MAX):
            await self._writer.renew(wanted[start : start + RENEWED_TOGETHER_MAX], needed)
        return await self.witness(since)

    async def entries(self, *, limit: int, after: Cid | None = None) -> list[Entry]:
        """Return objects with their generations, by CID, from behind `after`; none means the end."""
        return await self._collection.entries(limit=limit, after=after)

    async def entry(self, cid: Cid) -> Entry | None:
        """Return one object as `entries` does; None where it is not stored."""
        return await self._collection.entry(cid)

    async def remove_if(self, cid: Cid, generation: int) -> bool:
        """Remove an object if its row still has `generation`; tell whether it was removed."""
        return await self._collection.remove_if(cid, generation)

    async def remove_many(self, entries: Sequence[Entry]) -> list[Entry]:
        """Remove those of these objects whose rows still have their generation; return what was removed."""
        return await self._collection.remove_many(entries)

    async def orphans(self, *, limit: int, after: str = "") -> OrphanPage:
        """Return bodies that no row names and none ever will; continue from `after` until it is empty."""
        return await self._collection.orphans(limit=limit, after=after)

    async def remove_orphan(self, orphan: Orphan) -> None:
        """Remove a body that `orphans` returned."""
        await self._collection.remove_orphan(orphan)

    async def _put(self, blocks: Mapping[Cid, bytes]) -> None:
        await self._writer.write({cid: partial(self._bodies.make, cid, data) for cid, data in blocks.items()})
        for cid, data in blocks.items():
            self._cache.put(self._universe, cid, data)

    def _checked(self, data: bytes, codec: Codec, trusted: bool) -> Cid:
        if len(data) > WHOLE_BYTES_MAX:
            raise too_large(len(data))
        if codec == "dag-cbor" and not trusted:
            try:
                decode(data)
            except Rejected as error:
                raise Rejected(
                    "cas.not_canonical", "the object is no canonical DAG-CBOR: {reason}", reason=str(error),
                    hint="Encode it with cellule.values, or put it as raw bytes.",
                ) from error  # fmt: skip
        return cid_of(data, codec=codec)

    def _check_parts(self, blocks: Mapping[Cid, bytes]) -> None:
        total = sum(map(len, blocks.values()))
        largest = max(map(len, blocks.values()), default=0)
        if total > PARTS_BYTES_MAX or largest > self.batch_block_max or len(blocks) > GROUP_KEYS_MAX:
            raise Rejected(
                "cas.parts_too_large",
                "{count} blocks of {total} bytes, the largest of {largest}, are too much for a batch",
                count=len(blocks), total=total, largest=largest, hint="Put the large ones before the batch.",
            )  # fmt: skip


def _groups(blocks: Mapping[Cid, bytes], inline_max: int) -> Iterator[dict[Cid, bytes]]:
    """Cut blocks into groups that fit one read and one batch each."""
    group: dict[Cid, bytes] = {}
    size = 0
    for cid, data in blocks.items():
        share = len(data) if len(data) <= GROUP_BYTES_MAX else inline_max
        if group and (size + share > GROUP_BYTES_MAX or len(group) == GROUP_KEYS_MAX):
            yield group
            group, size = {}, 0
        group[cid] = data
        size += share
    if group:
        yield group


def _unexpected(cid: Cid, expected: Cid) -> Rejected:
    return Rejected(
        "cas.unexpected_cid",
        "the bytes have the CID {cid}, not {expected}",
        cid=str(cid),
        expected=str(expected),
    )
