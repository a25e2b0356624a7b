"""What a store costs while nothing happens, and how fast it is made smaller. Wall time and bytes, in SQLite.

Dormant   bytes of a store for each cell that was written once: rows, then compacted and collected, everything
          counted that the folder holds.
Rates     frames a second into segments, objects a second that a collection looks at, and removes.
Bounded   the same cells written again and again, with history dropped, compaction and collection in between:
          the folder after the last round, as a multiple of the folder after the first few.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import msgspec

import cellule
from bench.report import Row, at_most, measured, stream
from cellule import App, Options, Step

CELLS, ROUNDS, SLICE = 100_000, 12, 10_000
GROWTH_MAX = 2.0  # of a store with constant live state, from round 4 to the last

app = App("bench_storage")


@app.event(key="name")
class Added(msgspec.Struct, frozen=True):
    name: str
    note: str = ""


class Count(msgspec.Struct, frozen=True):
    count: int = 0
    note: str = ""


@app.reducer
def total(state: Count | None, event: Added) -> Step[Count]:
    return Step(Count((state or Count()).count + 1, event.note))


def run(*, quick: bool) -> Iterator[Row]:
    """Dormant cells, rates of compaction and collection, a long run with constant live state."""
    return stream(_rows(2_000 if quick else CELLS, 5 if quick else ROUNDS))


async def _rows(cells: int, rounds: int) -> AsyncGenerator[Row, None]:
    with tempfile.TemporaryDirectory() as folder:
        async with cellule.open(folder, app=app, options=Options(tail_records=1, collect_s=None)) as node:
            async for row in _dormant(node, Path(folder), cells):
                yield row
    with tempfile.TemporaryDirectory() as folder:
        async with cellule.open(folder, app=app, options=Options(tail_records=1, collect_s=None)) as node:
            async for row in _bounded(node, Path(folder), cells // 10, rounds):
                yield row


async def _dormant(node: cellule.Cellule, folder: Path, cells: int) -> AsyncGenerator[Row, None]:
    world, case = await node.world("w"), f"{cells:,} cells"
    await _write(world, cells, "")
    await world.snapshot()
    yield measured("storage", case, "bytes a dormant cell, written", _size(folder) / cells, "B")
    storage = await node.storage("w")
    began = time.perf_counter()
    done = await storage.compact(everything=True)
    took_s = time.perf_counter() - began
    yield measured("storage", case, "compaction", done.bytes / took_s / 1e6, "MB/s")
    began = time.perf_counter()
    counts = (await node.collect_garbage(grace_s=0)).counts
    looked = counts.kept + counts.removed + counts.waiting
    yield measured("storage", case, "collection, objects", looked / (time.perf_counter() - began), "1/s")
    await storage.retain(history="drop", snapshots=1)
    await _write(world, 10, "again")
    await world.snapshot()
    await storage.compact(everything=True)
    began = time.perf_counter()
    counts = (await node.collect_garbage(grace_s=0)).counts
    yield measured("storage", case, "collection, removed", counts.removed_bytes / 1e6, "MB")
    yield measured("storage", case, "bytes a dormant cell, kept", counts.kept_bytes / cells, "B")


async def _bounded(node: cellule.Cellule, folder: Path, cells: int, rounds: int) -> AsyncGenerator[Row, None]:
    world, storage = await node.world("w"), await node.storage("w")
    await storage.retain(history="drop", snapshots=1)
    sizes = []
    for number in range(rounds):
        await _write(world, cells, f"{number}")
        await world.snapshot()
        await storage.compact(everything=True)
        await node.collect_garbage(grace_s=0)
        sizes.append(_size(folder))
    value = sizes[-1] / sizes[min(3, rounds - 2)]
    case = f"{cells:,} cells written {rounds} times"
    yield at_most("storage", case, "folder, last vs fourth round", value, "x", GROWTH_MAX)


async def _write(world: cellule.WorldHandle, cells: int, note: str) -> None:
    for start in range(0, cells, SLICE):
        await world.send_many(
            [Added(f"c{number}", note) for number in range(start, min(start + SLICE, cells))]
        )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
