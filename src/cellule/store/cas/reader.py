"""Objects of the CAS, read: through the caches, from the row, or from the body it names; always verified.

A body may vanish between the reading of its row and its own, because the object was removed, or removed
and put again; then the row is read once more and decides. A row that still names a missing body is damage.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from functools import partial
from hashlib import sha256
from typing import IO
from uuid import UUID

from cellule.store import keys
from cellule.store.cache import DiskCache, NodeCache
from cellule.store.cas.bodies import Bodies, BodyMissingError
from cellule.store.cas.contract import (
    ATTEMPTS_MAX,
    GROUP_KEYS_MAX,
    WHOLE_BYTES_MAX,
    changed,
    contended,
    damaged,
    not_found,
    too_large,
)
from cellule.store.cas.rows import Inline, Place, Stored, decode_row
from cellule.store.cas.spool import Spool
from cellule.store.cas.transfers import all_of
from cellule.store.engine import Engine
from cellule.values.cid import Cid


class Reader:
    """Reads objects of one universe. `disk` is used only for bodies that cross a network."""

    def __init__(
        self,
        engine: Engine,
        universe: UUID,
        bodies: Bodies,
        cache: NodeCache,
        disk: DiskCache | None,
        missed_pauses_s: Sequence[float],
    ) -> None:
        self._engine = engine
        self._universe = universe
        self._bodies = bodies
        self._cache = cache
        self._is_remote = bodies.objects is not None and bodies.objects.remote
        self._disk = disk if self._is_remote else None
        self._pauses_s = missed_pauses_s if self._is_remote else ()

    async def places(self, cids: list[Cid]) -> dict[Cid, Place]:
        """Return where objects are; `Rejected` at the first that is not in this universe."""
        places: dict[Cid, Place] = {}
        for start in range(0, len(cids), GROUP_KEYS_MAX):
            group = cids[start : start + GROUP_KEYS_MAX]
            rows = await self._engine.read([keys.cas(self._universe, cid) for cid in group])
            for cid, stored in zip(group, rows, strict=True):
                if stored is None:
                    raise not_found(cid)
                places[cid] = decode_row(cid, stored).place
        return places

    async def get_many(self, cids: Iterable[Cid]) -> dict[Cid, bytes]:
        """Return verified bytes, with one engine read for all rows and bounded transfers for the rest."""
        wanted = list(dict.fromkeys(cids))
        found = {cid: self._cache.get(self._universe, cid) for cid in wanted}
        places = await self.places([cid for cid, data in found.items() if data is None])
        distant = []
        for cid, place in places.items():
            if isinstance(place, Inline):
                found[cid] = self._kept(cid, place.data)
            else:
                distant.append(cid)

        async def fetch(cid: Cid) -> None:
            found[cid] = await self._fetch(cid, places[cid])

        if distant:
            await all_of([partial(fetch, cid) for cid in distant])
        return {cid: data for cid, data in found.items() if data is not None}

    async def stream(self, cid: Cid) -> AsyncGenerator[bytes, None]:
        """Yield a body in pieces; only its quiet end proves them."""
        place, misses = (await self.places([cid]))[cid], 0
        for _ in range(ATTEMPTS_MAX):
            digest, size = sha256(), 0
            try:
                async with contextlib.aclosing(self._bodies.pieces(cid, place)) as pieces:
                    async for piece in pieces:
                        digest.update(piece)
                        size += len(piece)
                        _check_size(cid, place, size, is_end=False)
                        yield piece
            except BodyMissingError:
                place, misses = await self._after_miss(cid, place, misses)
                if size == 0:
                    continue
                raise changed(cid) from None
            _check_size(cid, place, size, is_end=True)
            if digest.digest() != cid.digest:
                raise damaged(cid, "another digest")
            return
        raise contended(cid)

    @contextlib.asynccontextmanager
    async def open_verified(self, cid: Cid) -> AsyncIterator[IO[bytes]]:
        """Give a verified body of any size as a file, spooled to a temporary one."""
        with Spool() as spool:
            async with contextlib.aclosing(self.stream(cid)) as pieces:
                async for piece in pieces:
                    await spool.write(piece)
            yield spool.opened()

    async def _fetch(self, cid: Cid, place: Place) -> bytes:
        """Return a verified body, following the row if it changes."""
        misses = 0
        for _ in range(ATTEMPTS_MAX):
            if not isinstance(place, Inline) and place.size > WHOLE_BYTES_MAX:
                raise too_large(place.size)
            try:
                return await self._fetch_from(cid, place)
            except BodyMissingError:
                place, misses = await self._after_miss(cid, place, misses)
        raise contended(cid)

    async def _fetch_from(self, cid: Cid, place: Place) -> bytes:
        if self._disk is not None and isinstance(place, Stored):
            cached = await self._disk.get(self._universe, cid)
            if cached is not None and _is_whole(cid, cached):
                return self._kept(cid, cached)
            if cached is not None:
                await self._disk.drop(self._universe, cid)
        data = await self._read(cid, place)
        if self._disk is not None and isinstance(place, Stored):
            await self._disk.put(self._universe, cid, data)
        return data

    async def _read(self, cid: Cid, place: Place) -> bytes:
        data = await self._bodies.whole(cid, place)
        if self._is_remote and not _is_whole(cid, data):
            # A network may have spoilt them underway; damage is what is there twice.
            data = await self._bodies.whole(cid, place)
        _check_size(cid, place, len(data), is_end=True)
        return self._kept(cid, data)

    async def _after_miss(self, cid: Cid, place: Place, misses: int) -> tuple[Place, int]:
        """Return where to look next, and how often it was missed there; `Corrupted` if it is not there."""
        now = (await self.places([cid]))[cid]
        if now != place:
            return now, 0
        if misses == len(self._pauses_s):
            raise damaged(cid, "its body is missing")
        await asyncio.sleep(self._pauses_s[misses])
        return now, misses + 1

    def _kept(self, cid: Cid, data: bytes) -> bytes:
        """Verify, keep in memory, and return."""
        if not _is_whole(cid, data):
            raise damaged(cid, f"another digest ({len(data)} bytes)")
        self._cache.put(self._universe, cid, data)
        return data


def _is_whole(cid: Cid, data: bytes) -> bool:
    return sha256(data).digest() == cid.digest


def _check_size(cid: Cid, place: Place, size: int, *, is_end: bool) -> None:
    expected = len(place.data) if isinstance(place, Inline) else place.size
    if size > expected or (is_end and size != expected):
        raise damaged(cid, f"{size} bytes instead of {expected}")
