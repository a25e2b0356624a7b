"""The CAS beside the bare parts under it: the engine, and the object store.

Wall time, new bytes in every round, no cache unless the row says so. Large objects are chunks in the engine
or, with a local object folder, files of it. The bare side (`cas_bare.py`) makes the same bytes durable and
reads them back: no CID is computed or verified, nothing is decoded, no row is looked at before it is written.

put, get            one object after another; bare: a commit (or a put of the object store and a commit of
                    a short row) each, a read each.
put_many, get_many  all objects of a round in one call; bare: few commits or reads for all of them, and
                    bounded transfers of the object store.
put_stream, stream  one raw blob in pieces of 64 kB; bare: commits and reads of 16 chunks, or a stream of
                    the object store.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from bench.cas_bare import BareEngine, BareObjects
from bench.report import Row, measured, ratio, stream
from bench.timing import Side, best_of_waiting
from cellule.sources import SystemEntropy
from cellule.store.cache import NodeCache
from cellule.store.cas import Cas
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.objects.local import LocalObjects
from cellule.values import encode

UNIVERSE = UUID(int=3)
SIZES = {300: 200, 60_000: 40, 1_000_000: 4}  # how many objects of that size one round has
SIZE_STORED_MIN = 60_000  # smaller ones are in their rows, with an object folder too
STREAM_BYTES = 16_000_000
PIECE_BYTES = 65_536

_entropy = SystemEntropy()


def run(*, quick: bool) -> Iterator[Row]:
    """All in the engine, then large objects in a folder."""
    return stream(_measure(quick=quick))


async def _measure(*, quick: bool) -> AsyncGenerator[Row, None]:
    rounds = 1 if quick else 5
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        async with (
            await SqliteEngine.open(root / "cas.db") as engine,
            await SqliteEngine.open(root / "bare.db") as other,
            await LocalObjects.open(root / "objects") as objects,
            await LocalObjects.open(root / "bare") as others,
        ):
            places = {
                "SQLite": (Cas(engine, UNIVERSE, cache=NodeCache(0)), BareEngine(other)),
                "object folder": (
                    Cas(engine, UNIVERSE, objects=objects, cache=NodeCache(0)),
                    BareObjects(other, others),
                ),
            }
            for where, (cas, bare) in places.items():
                for size, count in SIZES.items():
                    if where == "SQLite" or size >= SIZE_STORED_MIN:
                        case = f"{where}, {size:,} bytes"
                        for row in await _objects(case, cas, bare, size, 2 if quick else count, rounds):
                            yield row
                for row in await _streams(where, cas, bare, STREAM_BYTES // (16 if quick else 1), rounds):
                    yield row
            yield await _cached(engine, 10 if quick else 1_000, rounds)


async def _objects(case: str, cas: Any, bare: Any, size: int, count: int, rounds: int) -> list[Row]:
    def fresh() -> list[bytes]:
        return [encode([_entropy.bytes(size)]) for _ in range(count)]

    sides: list[Side] = []
    for store in (cas, bare):
        sides += _sides(store, fresh)
    times = await best_of_waiting(sides, rounds)
    half = len(times) // 2
    rows: list[Row] = []
    for name, ours_s, bare_s in zip(_NAMES, times[:half], times[half:], strict=True):
        rows.append(ratio("cas", case, f"{name} vs bare", bare_s / ours_s))
        rows.append(measured("cas", case, name, ours_s / count * 1e6, "us"))
    return rows


_NAMES = ("put", "get", "put_many", "get_many")


def _sides(store: Any, fresh: Any) -> list[Side]:
    """Put and get, then the same in bulk; what was put is got, and must be what it was."""
    put: dict[Any, bytes] = {}

    def keep(places: Sequence[Any], blocks: Sequence[bytes]) -> None:
        put.clear()
        put.update(zip(places, blocks, strict=True))

    async def put_each(blocks: list[bytes]) -> None:
        keep([await store.put(data) for data in blocks], blocks)

    async def get_each(_: None) -> None:
        for place, data in put.items():
            assert await store.get(place) == data

    async def put_all(blocks: list[bytes]) -> None:
        keep(await store.put_many(blocks), blocks)

    async def get_all(_: None) -> None:
        assert len(await store.get_many(list(put))) == len(put)

    return [Side(put_each, fresh), Side(get_each), Side(put_all, fresh), Side(get_all)]


async def _streams(where: str, cas: Cas, bare: Any, size: int, rounds: int) -> list[Row]:
    sides: list[Side] = []
    for store in (cas, bare):
        sides += _stream_sides(store, size)
    put_s, get_s, bare_put_s, bare_get_s = await best_of_waiting(sides, rounds)
    case = f"{where}, a stream of {size // 1_000_000} MB"
    return [
        ratio("cas", case, "put_stream vs bare", bare_put_s / put_s),
        measured("cas", case, "put_stream", size / put_s / 1e6, "MB/s"),
        ratio("cas", case, "stream vs bare", bare_get_s / get_s),
        measured("cas", case, "stream", size / get_s / 1e6, "MB/s"),
    ]


def _stream_sides(store: Any, size: int) -> list[Side]:
    places: list[Any] = []

    async def put(data: bytes) -> None:
        places[:] = [await store.put_stream(_pieces(data))]

    async def get(_: None) -> None:
        length = 0
        async for piece in store.stream(places[0]):
            length += len(piece)
        assert length == size

    return [Side(put, lambda: _entropy.bytes(size)), Side(get)]


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), PIECE_BYTES):
        yield data[start : start + PIECE_BYTES]


async def _cached(engine: SqliteEngine, count: int, rounds: int) -> Row:
    cas = Cas(engine, UNIVERSE)
    cid = await cas.put(encode([_entropy.bytes(300)]))

    async def get(_: None) -> None:
        for _turn in range(count):
            await cas.get(cid)

    [best_s] = await best_of_waiting([Side(get)], rounds)
    return measured("cas", "300 bytes, in the cache", "get", best_s / count * 1e6, "us")
