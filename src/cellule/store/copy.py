"""A whole store copied to another address while nodes work on it: what backup and restore are.

All rows come from one snapshot of the engine, so everything acknowledged before the copy began is in it, and
every journal ends at a whole frame. A body in an object store is older than the row that names it: it is
there when the row is copied, it is copied first, and its CID is proven on the way. What belongs to running
nodes (sessions, the owner) and to the place (its object store) is left out. Waiting items get new stamps in
their old order, because stamps belong to the engine that gave them.

While it runs, the target carries the row `copy`; a store with it is refused by everybody. Rejected: copying
page by page without a snapshot. A journal and its head would be of two moments.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from uuid import UUID

from cellule.errors import Conflict, Corrupted, Rejected
from cellule.store import keys
from cellule.store.cas.bodies import ChunkDraft
from cellule.store.cas.contract import damaged
from cellule.store.cas.rows import Row, Stored, decode_row, encode_row, object_name
from cellule.store.cas.transfers import all_of
from cellule.store.engine import Batch, Engine, counter_value, is_counter
from cellule.store.store import Store
from cellule.values.cid import Cid

BATCH_BYTES = 2_000_000
BATCH_ROWS = 5_000

Progress = Callable[["Copied"], None]


@dataclass(slots=True)
class Copied:
    """What a copy holds so far."""

    rows: int = 0
    bytes: int = 0
    objects: int = 0
    object_bytes: int = 0


async def copy_store(
    source: Store,
    target: Store,
    progress: Progress | None = None,
    beside: Callable[[], Awaitable[None]] | None = None,
) -> Copied:
    """Copy everything from `source` to `target`, which must be empty; whole when it returns.

    `beside` copies what is not in rows, before the target becomes whole. What fails underway leaves a target
    that nobody opens: remove it, and copy again.
    """
    copied = Copied()
    await _begin(target.engine)
    async with aclosing(source.engine.rows()) as pages:
        async for page in pages:
            writer = _Writer(source, target, copied)
            for key, value in page:
                await writer.add(key, value)
            await writer.flush()
            if progress is not None:
                progress(copied)
    if beside is not None:
        await beside()
    await target.engine.commit(Batch(clear=[keys.copy_underway()]))
    return copied


async def _begin(engine: Engine) -> None:
    """Mark an empty store as half copied."""
    begin, end = keys.universe_name_range()
    used = (await engine.scan(begin, end, limit=1)).items
    marker = keys.copy_underway()
    try:
        if not used:
            await engine.commit(Batch(expect={marker: None}, set={marker: b""}))
            return
    except Conflict:
        pass
    raise Rejected(
        "store.not_empty", "the target of a copy must be empty, and this store holds something",
        hint="Name a new folder, schema or database.",
    )  # fmt: skip


class _Writer:
    """Gathers rows into batches of the target; bodies go before the rows that name them."""

    def __init__(self, source: Store, target: Store, copied: Copied) -> None:
        self._source = source
        self._target = target
        self._copied = copied
        self._set: dict[bytes, bytes] = {}
        self._add: dict[bytes, int] = {}
        self._ordered: list[tuple[bytes, bytes]] = []
        self._bodies: list[_Body] = []
        self._bytes = 0

    async def add(self, key: bytes, value: bytes) -> None:
        """Take one row of the source."""
        if _is_local(key):
            return
        self._copied.rows += 1
        self._copied.bytes += len(key) + len(value)
        inbox, named = keys.inbox_prefix_of(key), keys.cas_of(key)
        if inbox is not None:
            self._ordered.append((inbox, value))
        elif is_counter(key):
            self._add[key] = counter_value(value)
        else:
            self._set[key] = value
            if named is not None:
                self._see(key, named[0], Cid.of_bytes(named[1]), value)
        self._bytes += len(key) + len(value)
        if self._bytes >= BATCH_BYTES or len(self._set) + len(self._ordered) >= BATCH_ROWS:
            await self.flush()

    async def flush(self) -> None:
        """Make what was gathered durable."""
        await all_of([partial(self._copy_body, body) for body in self._bodies])
        if self._set or self._add or self._ordered:
            await self._target.engine.commit(Batch(set=self._set, add=self._add, ordered=self._ordered))
        self._set, self._add, self._ordered, self._bodies, self._bytes = {}, {}, [], [], 0

    def _see(self, key: bytes, universe: UUID, cid: Cid, stored: bytes) -> None:
        row = decode_row(cid, stored)
        if isinstance(row.place, Stored):
            self._bodies.append(_Body(key, universe, cid, row, row.place))

    async def _copy_body(self, body: _Body) -> None:
        assert self._source.objects is not None
        name = object_name(body.universe, body.cid, body.place.body)
        pieces = _proven(self._source.objects.stream(name), body)
        if self._target.objects is not None:
            await self._target.objects.put(name, pieces)
        else:
            draft = ChunkDraft(self._target.engine, body.universe, body.place.body)
            async for piece in pieces:
                await draft.write(piece)
            made = await draft.finish(body.cid)
            self._set[body.key] = encode_row(Row(body.row.generation, made.place))
            self._set.update(made.beside)
        self._copied.objects += 1
        self._copied.object_bytes += body.place.size


@dataclass(frozen=True, slots=True)
class _Body:
    """An object whose bytes are in the object store of the source."""

    key: bytes
    universe: UUID
    cid: Cid
    row: Row
    place: Stored


async def _proven(pieces: AsyncIterator[bytes], body: _Body) -> AsyncIterator[bytes]:
    """The pieces as they come; an error at the end, before a row names them, if they are not the object."""
    digest, size = sha256(), 0
    try:
        async for piece in pieces:
            digest.update(piece)
            size += len(piece)
            yield piece
    except Rejected as error:
        raise Corrupted(
            "store.copy_body_missing", "the body of {cid} is not in the object store of the source",
            cid=str(body.cid),
            hint="Run `cellule check` on it; if objects were collected just now, copy again.",
        ) from error  # fmt: skip
    if size != body.place.size or digest.digest() != body.cid.digest:
        raise damaged(body.cid, f"{size} bytes of another content")


def _is_local(key: bytes) -> bool:
    """Tell whether a row belongs to running nodes or to the place, and not to what is copied."""
    return key in _LOCAL or key.startswith(_LOCAL_PREFIXES)


_LOCAL_PREFIXES = (keys.session_range()[0], keys.probe_prefix())
_LOCAL = {keys.store_objects(), keys.copy_underway(), keys.node_key(), keys.store_owner()}
