"""The bare side of the CAS benchmark: the same bytes, made durable and read back without a CAS.

Both classes have the methods of `Cas` that are measured; what they return instead of CIDs are places.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from functools import partial
from itertools import count

from cellule.store.cas.contract import CHUNK_BYTES, CHUNKS_AT_ONCE, GROUP_BYTES_MAX, GROUP_KEYS_MAX
from cellule.store.cas.transfers import all_of
from cellule.store.engine import Batch, Engine
from cellule.store.object_store import Source
from cellule.store.objects.local import LocalObjects

Keys = tuple[bytes, ...]


class BareEngine:
    """Bytes in an engine, in chunks of 64 kB, under numbered keys."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._numbers = count()

    async def put(self, data: bytes) -> Keys:
        rows = self._rows(data)
        await self._engine.commit(Batch(set=rows))
        return tuple(rows)

    async def put_many(self, blocks: Sequence[bytes]) -> list[Keys]:
        places: list[Keys] = []
        group: dict[bytes, bytes] = {}
        size = 0
        for data in blocks:
            if size + len(data) > GROUP_BYTES_MAX:
                await self._engine.commit(Batch(set=group))
                group, size = {}, 0
            rows = self._rows(data)
            places.append(tuple(rows))
            group |= rows
            size += len(data)
        await self._engine.commit(Batch(set=group))
        return places

    async def put_stream(self, source: AsyncIterator[bytes]) -> Keys:
        rows: dict[bytes, bytes] = {}
        keys: list[bytes] = []
        async for piece in source:
            rows |= self._rows(piece)
            if len(rows) >= CHUNKS_AT_ONCE:
                await self._engine.commit(Batch(set=rows))
                keys += rows
                rows = {}
        await self._engine.commit(Batch(set=rows))
        return (*keys, *rows)

    async def get(self, place: Keys) -> bytes:
        return b"".join([part for part in await self._engine.read(place) if part is not None])

    async def get_many(self, places: Sequence[Keys]) -> list[bytes]:
        keys = [key for place in places for key in place]
        found: list[bytes | None] = []
        for start in range(0, len(keys), GROUP_KEYS_MAX):
            found += await self._engine.read(keys[start : start + GROUP_KEYS_MAX])
        parts = iter(found)
        return [b"".join([next(parts) or b"" for _ in place]) for place in places]

    async def stream(self, place: Keys) -> AsyncGenerator[bytes, None]:
        for start in range(0, len(place), CHUNKS_AT_ONCE):
            for part in await self._engine.read(place[start : start + CHUNKS_AT_ONCE]):
                yield part or b""

    def _rows(self, data: bytes) -> dict[bytes, bytes]:
        return {
            b"\x02bare%012d" % next(self._numbers): data[start : start + CHUNK_BYTES]
            for start in range(0, len(data), CHUNK_BYTES)
        }


class BareObjects:
    """Bytes in an object store, each named by a row of the engine."""

    def __init__(self, engine: Engine, objects: LocalObjects) -> None:
        self._engine = engine
        self._objects = objects
        self._numbers = count()

    async def put(self, data: bytes) -> str:
        return await self._put(data)

    async def put_many(self, blocks: Sequence[bytes]) -> list[str]:
        names = [self._name() for _ in blocks]
        await all_of([partial(self._objects.put, *each) for each in zip(names, blocks, strict=True)])
        await self._engine.commit(Batch(set={_row(name): b"stored" for name in names}))
        return names

    async def put_stream(self, source: AsyncIterator[bytes]) -> str:
        return await self._put(source)

    async def get(self, place: str) -> bytes:
        await self._engine.read([_row(place)])
        return await self._objects.get(place)

    async def get_many(self, places: Sequence[str]) -> list[bytes]:
        await self._engine.read([_row(place) for place in places])
        found: dict[str, bytes] = {}

        async def fetch(place: str) -> None:
            found[place] = await self._objects.get(place)

        await all_of([partial(fetch, place) for place in places])
        return [found[place] for place in places]

    async def stream(self, place: str) -> AsyncGenerator[bytes, None]:
        await self._engine.read([_row(place)])
        async for piece in self._objects.stream(place):
            yield piece

    async def _put(self, data: Source) -> str:
        name = self._name()
        await self._objects.put(name, data)
        await self._engine.commit(Batch(set={_row(name): b"stored"}))
        return name

    def _name(self) -> str:
        return f"bare/{next(self._numbers)}"


def _row(name: str) -> bytes:
    return b"\x02bare" + name.encode()
