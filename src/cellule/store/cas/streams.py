"""Streams into the CAS: raw blobs of any size, hashed while they pass, in constant memory.

Into the engine, chunks are written as they come under a fresh body id, and the row last. For the object
store, whose names hold the CID, the stream is spooled to a temporary file first and uploaded from it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256

from cellule.store.cas.bodies import Bodies, Made
from cellule.store.cas.contract import overtaken
from cellule.store.cas.rows import body_generation
from cellule.store.cas.spool import Spool
from cellule.values.cid import PREFIXES, Cid, cid_of

Finish = Callable[[Cid, Callable[[int], Awaitable[Made]]], Awaitable[None]]
"""Checks the CID of a stream and writes its row, given what makes its body."""


async def put_stream(bodies: Bodies, source: AsyncIterator[bytes], generation: int, finish: Finish) -> Cid:
    """Store a stream; on any failure nothing is visible."""
    head = bytearray()
    async for piece in source:
        head += piece
        if len(head) > bodies.inline_max:
            break
    else:
        return await _finish_whole(bodies, bytes(head), finish)
    stream = _Hashed(bytes(head), source)
    if bodies.objects is None:
        return await _through_engine(bodies, stream, generation, finish)
    return await _through_objects(bodies, stream, finish)


async def _finish_whole(bodies: Bodies, data: bytes, finish: Finish) -> Cid:
    cid = cid_of(data, codec="raw")
    await finish(cid, lambda now: bodies.make(cid, data, now))
    return cid


async def _through_engine(bodies: Bodies, stream: _Hashed, generation: int, finish: Finish) -> Cid:
    draft = bodies.draft(generation)

    async def make(now: int) -> Made:
        if now > body_generation(draft.place.body) + 1 or stream.used:
            raise overtaken(stream.size)
        stream.used = True
        return await draft.finish(cid)

    try:
        async for piece in stream.pieces():
            await draft.write(piece)
        cid = stream.cid()
        await finish(cid, make)
    except BaseException:
        if not stream.used:
            await bodies.discard(draft.place)
        raise
    if not stream.used:
        await bodies.discard(draft.place)
    return cid


async def _through_objects(bodies: Bodies, stream: _Hashed, finish: Finish) -> Cid:
    with Spool() as spool:
        async for piece in stream.pieces():
            await spool.write(piece)
        cid = stream.cid()
        await finish(cid, lambda now: bodies.upload(cid, spool.pieces(), stream.size, now))
    return cid


class _Hashed:
    """A source being hashed and counted; `used` tells that its body was given to a row."""

    def __init__(self, head: bytes, rest: AsyncIterator[bytes]) -> None:
        self._head = head
        self._rest = rest
        self._digest = sha256()
        self.size = 0
        self.used = False

    async def pieces(self) -> AsyncIterator[bytes]:
        self._count(self._head)
        yield self._head
        async for piece in self._rest:
            self._count(piece)
            yield piece

    def cid(self) -> Cid:
        return Cid(PREFIXES["raw"] + self._digest.digest())

    def _count(self, piece: bytes) -> None:
        self._digest.update(piece)
        self.size += len(piece)
