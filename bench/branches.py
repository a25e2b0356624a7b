"""Forks of worlds of different sizes, and differences of worlds that differ in more or fewer cells.

A fork names a snapshot, so it must cost the same however large the world is; a difference must cost what
differs. All are ratios within one run, in one store.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncGenerator, Iterator

import msgspec

import cellule
from bench.report import Row, measured, stream
from cellule import App, Step

SMALL, LARGE = 1_000, 1_000_000
FORK_MAX = 2.0  # a fork of the large world, in forks of the small one
FORKS, SLICE = 20, 20_000

app = App("bench_branches")


@app.event(key="name")
class Added(msgspec.Struct, frozen=True):
    name: str


class Count(msgspec.Struct, frozen=True):
    count: int = 0


@app.reducer
def total(state: Count | None, event: Added) -> Step[Count]:  # noqa: ARG001 - each event counts
    return Step(Count((state or Count()).count + 1))


def run(*, quick: bool) -> Iterator[Row]:
    """Forks of a small and a large world, then differences of the large one and its forks."""
    return stream(_rows(100, 2_000, (10, 100)) if quick else _rows(SMALL, LARGE, (10, 100, 1_000, 10_000)))


async def _rows(small: int, large: int, changes: tuple[int, ...]) -> AsyncGenerator[Row, None]:
    with tempfile.TemporaryDirectory() as folder:
        async with cellule.open(folder, app=app) as node:
            best_s = {}
            for cells in (small, large):
                world = await node.world(f"w{cells}")
                for start in range(0, cells, SLICE):
                    end = min(start + SLICE, cells)
                    await world.send_many([Added(f"o{number}") for number in range(start, end)])
                await world.snapshot(who="bench", why="a fork needs one")
                best_s[cells] = await _fork_s(world)
                yield measured("branches", f"{cells:,} cells", "a fork", best_s[cells] * 1e3, "ms")
            value = best_s[large] / best_s[small]
            yield Row(
                "branches", f"{large:,} cells", "a fork vs small", value, "x", FORK_MAX, value <= FORK_MAX
            )
            for count in changes:
                yield await _difference(node, f"w{large}", count)


async def _fork_s(world: cellule.WorldHandle) -> float:
    """The best time of a fork, with its first beat."""
    best_s = 1e9
    for number in range(FORKS):
        began = time.perf_counter()
        await world.fork(f"{world.name}-{number}")
        best_s = min(best_s, time.perf_counter() - began)
    return best_s


async def _difference(node: cellule.Cellule, world: str, count: int) -> Row:
    """The time of each change of a difference, where so many cells of a fork are new."""
    fork = await node.fork_world(world, f"{world}-differs-{count}")
    await fork.send_many([Added(f"n{number}") for number in range(count)])
    await fork.snapshot(who="bench", why="a difference reads one")
    began = time.perf_counter()
    found = await node.diff_worlds(world, fork.name)
    took_s = time.perf_counter() - began
    assert len(found.cells) == count
    return measured("branches", f"{count:,} cells differ", "a change", took_s / count * 1e6, "us")
