"""Bodies: the bytes of objects too large for their row, in chunks in the engine or in the object store.

A body is written completely before a row names it, under an id that is never used twice; so a reader that
has the row finds the body, unless the object was removed meanwhile. What a crash leaves behind has no row
and is found by its age. Rows, CIDs and verification do not live here.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import assert_never
from uuid import UUID

from cellule.errors import Rejected, Unavailable
from cellule.sources import Entropy
from cellule.store import keys
from cellule.store.cas.contract import (
    CHUNK_BYTES,
    CHUNKS_AT_ONCE,
    GROUP_BYTES_MAX,
    INLINE_BYTES_ENGINE,
    INLINE_BYTES_OBJECTS,
    damaged,
)
from cellule.store.cas.rows import Chunked, Inline, Place, Stored, body_generation, new_body, object_name
from cellule.store.engine import Batch, Engine
from cellule.store.object_store import ObjectStore, Source
from cellule.values.cid import Cid


class BodyMissingError(Exception):
    """A row's body is not there: it was removed together with its row, or the store is damaged."""


@dataclass(frozen=True, slots=True)
class Made:
    """A body that no row names yet; `beside` must be set in the batch that writes its row.

    `elsewhere` tells that some of it is stored already, and is left behind if no row comes to name it.
    """

    place: Place
    beside: Mapping[bytes, bytes] = field(default_factory=dict)
    elsewhere: bool = False

    @property
    def generation(self) -> int | None:
        """The generation in which it was begun; None if it is in its row and cannot be left behind."""
        return None if isinstance(self.place, Inline) else body_generation(self.place.body)


class Bodies:
    """Writes, reads and removes the bodies of one universe."""

    def __init__(
        self,
        engine: Engine,
        universe: UUID,
        objects: ObjectStore | None,
        entropy: Entropy,
        inline_max: int | None = None,
    ) -> None:
        self._engine = engine
        self._universe = universe
        self._objects = objects
        self._entropy = entropy
        most = INLINE_BYTES_ENGINE if objects is None else INLINE_BYTES_OBJECTS
        self.inline_max = most if inline_max is None else min(inline_max, most)

    @property
    def objects(self) -> ObjectStore | None:
        """The object store of large bodies, if there is one."""
        return self._objects

    async def make(self, cid: Cid, data: bytes, generation: int) -> Made:
        """Put `data` where its row can name it."""
        if len(data) <= self.inline_max:
            return Made(Inline(data))
        if self._objects is not None:
            return await self.upload(cid, data, len(data), generation)
        if len(data) <= GROUP_BYTES_MAX:
            return self.beside(cid, data, generation)
        draft = self.draft(generation)
        try:
            await draft.write(data)
            return await draft.finish(cid)
        except Unavailable:
            await self.discard(draft.place)
            raise

    def beside(self, cid: Cid, data: bytes, generation: int) -> Made:
        """Return chunks that fit the batch of their row, so that nothing can be left behind."""
        body = new_body(generation, self._entropy)
        starts = range(0, len(data), CHUNK_BYTES)
        rows = {
            keys.cas_chunk(self._universe, body, number): data[start : start + CHUNK_BYTES]
            for number, start in enumerate(starts, 1)
        }
        owner = {keys.cas_chunk(self._universe, body, 0): bytes(cid)}
        return Made(Chunked(body, len(starts), len(data)), owner | rows)

    def draft(self, generation: int) -> ChunkDraft:
        """Begin a body of unknown size and CID in the engine."""
        return ChunkDraft(self._engine, self._universe, new_body(generation, self._entropy))

    async def upload(self, cid: Cid, data: Source, size: int, generation: int) -> Made:
        """Put a body into the object store."""
        body = new_body(generation, self._entropy)
        await self._store().put(object_name(self._universe, cid, body), data)
        return Made(Stored(body, size), elsewhere=True)

    async def whole(self, cid: Cid, place: Place) -> bytes:
        """Return a body, unverified."""
        match place:
            case Inline(data):
                return data
            case Chunked():
                return b"".join([piece async for piece in self._chunks(place)])
            case Stored(body, size):
                return await self._whole_object(cid, body, size)
            case _:
                assert_never(place)

    async def pieces(self, cid: Cid, place: Place) -> AsyncGenerator[bytes, None]:
        """Yield a body in pieces, unverified."""
        match place:
            case Inline(data):
                yield data
            case Chunked():
                async for piece in self._chunks(place):
                    yield piece
            case Stored(body):
                async with contextlib.aclosing(
                    self._store().stream(object_name(self._universe, cid, body))
                ) as stream:
                    try:
                        async for piece in stream:
                            yield piece
                    except Rejected as error:
                        raise _missing(cid, error) from error
            case _:
                assert_never(place)

    async def remove(self, place: Place, cid: Cid | None = None) -> None:
        """Remove a body that no row names any more; one in the object store needs its CID."""
        match place:
            case Inline():
                return
            case Chunked(body):
                await self._engine.commit(Batch(clear_range=[keys.cas_chunk_range(self._universe, body)]))
            case Stored(body):
                assert cid is not None
                await self._store().delete(object_name(self._universe, cid, body))
            case _:
                assert_never(place)

    async def discard(self, place: Place, cid: Cid | None = None) -> None:
        """Remove a body that lost its race; if that fails it is an orphan, which is what orphans are for."""
        with contextlib.suppress(Unavailable):
            await self.remove(place, cid)

    async def _chunks(self, place: Chunked) -> AsyncIterator[bytes]:
        for first in range(1, place.chunks + 1, CHUNKS_AT_ONCE):
            numbers = range(first, min(first + CHUNKS_AT_ONCE, place.chunks + 1))
            found = await self._engine.read([keys.cas_chunk(self._universe, place.body, n) for n in numbers])
            for chunk in found:
                if chunk is None:
                    raise BodyMissingError
                yield chunk

    async def _whole_object(self, cid: Cid, body: bytes, size: int) -> bytes:
        try:
            return await self._store().get(object_name(self._universe, cid, body), bytes_max=size)
        except Rejected as error:
            raise _missing(cid, error) from error

    def _store(self) -> ObjectStore:
        if self._objects is None:
            raise Unavailable(
                "cas.no_objects", "an object lies in an object store, and this CAS was opened without one",
                hint="Open the universe with the object store it was written with.",
            )  # fmt: skip
        return self._objects


class ChunkDraft:
    """A body being written to the engine, chunk by chunk; holds about 1 MB."""

    def __init__(self, engine: Engine, universe: UUID, body: bytes) -> None:
        self._engine = engine
        self._universe = universe
        self._body = body
        self._waiting = bytearray()
        self._chunks = 0
        self._size = 0

    @property
    def place(self) -> Chunked:
        """Where it is being written."""
        return Chunked(self._body, self._chunks, self._size)

    async def write(self, data: bytes) -> None:
        """Append to the body."""
        self._size += len(data)
        rest = memoryview(data)
        room = CHUNKS_AT_ONCE * CHUNK_BYTES
        while rest:
            taken = room - len(self._waiting)
            self._waiting += rest[:taken]
            rest = rest[taken:]
            if len(self._waiting) == room:
                await self._flush()

    async def finish(self, cid: Cid) -> Made:
        """Write what waits; the row may then name the body."""
        await self._flush()
        return Made(self.place, {keys.cas_chunk(self._universe, self._body, 0): bytes(cid)}, elsewhere=True)

    async def _flush(self) -> None:
        waiting = bytes(self._waiting)
        self._waiting.clear()
        rows = {}
        for start in range(0, len(waiting), CHUNK_BYTES):
            self._chunks += 1
            chunk = waiting[start : start + CHUNK_BYTES]
            rows[keys.cas_chunk(self._universe, self._body, self._chunks)] = chunk
        if rows:
            await self._engine.commit(Batch(set=rows))


def _missing(cid: Cid, error: Rejected) -> Exception:
    if error.code == "objects.not_found":
        return BodyMissingError()
    return damaged(cid, error.code)
