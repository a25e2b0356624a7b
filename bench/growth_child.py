"""What `growth` does in processes of its own: build a world, do rounds of work on it, work until killed.

`python -m bench.growth_child VERB FOLDER CELLS [EVENTS]` prints one JSON object when it is done; the one that
waits to be killed prints it when its work is durable. `serve` reads JSON objects, one a line, and answers
each.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cellule
from bench.ingest_app import Added, app, key_of
from cellule.host.ingress.handles import WorldHandle
from cellule.kernel.index.live import MISSING

WORLD = "bench"
BASE = "bench/account"
SLICE = 10_000


def resident_mb(field: str) -> float:
    """Memory of this process: `VmRSS` now, `VmHWM` at its highest."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1_000
    raise LookupError(field)


async def send_all(world: WorldHandle, numbers: Iterator[int] | range, amount: int = 1) -> int:
    """Send one event to each account of `numbers`, `SLICE` at a time; the count."""
    count = 0
    events: list[Added] = []
    for number in numbers:
        events.append(Added(key_of(number), amount))
        if len(events) == SLICE:
            await world.send_many(events)
            count, events = count + len(events), []
    await world.send_many(events)
    return count + len(events)


def anywhere(cells: int, events: int, seed: int = 0) -> Iterator[int]:
    """Accounts at random, all equally likely; the same ones for the same seed."""
    chance = random.Random(seed)
    return (chance.randrange(cells) for _ in range(events))


async def build(folder: Path, cells: int) -> dict[str, Any]:
    """Make a world of so many cells with one event each, take a snapshot, and close it cleanly."""
    start = time.perf_counter()
    async with cellule.open(folder, app) as node:
        world = await node.world(WORLD)
        await send_all(world, range(cells))
        sent_s = time.perf_counter() - start
        await world.snapshot()
        snapshot_s = time.perf_counter() - start - sent_s
    return {
        "sent_s": sent_s,
        "snapshot_s": snapshot_s,
        "peak_mb": resident_mb("VmHWM"),
    }


async def serve(folder: Path, cells: int) -> None:
    """Do what each line of the input says, and tell what it took, until the input ends."""
    async with cellule.open(folder, app) as node:
        world = await node.world(WORLD)
        live = (await node.node.hosted(world.info)).world.ledger.cells(BASE).live
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            numbers = _numbers(cells, **asked) if "events" in asked else []
            hits = sum(live.cached(key_of(number).encode()) is not MISSING for number in numbers)
            start, cpu_start = time.perf_counter(), time.process_time()
            await (send_all(world, iter(numbers)) if numbers else world.snapshot())
            wall_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
            print(json.dumps({"wall_s": wall_s, "cpu_s": cpu_s, "hits": hits}), flush=True)


def _numbers(cells: int, events: int, active: int = 0, seed: int = 0) -> list[int]:
    """So many cells: `active` ones spread over the world in turn, or any at random."""
    if active:
        return [number % active * (cells // active) for number in range(events)]
    return list(anywhere(cells, events, seed))


async def until_killed(folder: Path, cells: int, events: int) -> None:
    """Send to cells at random, tell when that is durable, and go on until somebody ends this process."""
    async with cellule.open(folder, app) as node:
        world = await node.world(WORLD)
        await send_all(world, anywhere(cells, events))
        print(json.dumps({"peak_mb": resident_mb("VmHWM")}), flush=True)
        for _ in range(1_000):
            await send_all(world, range(min(cells, SLICE)))


def main(arguments: list[str]) -> None:
    """Do what the command line says."""
    verb, folder, cells, *events = arguments
    if verb == "build":
        print(json.dumps(asyncio.run(build(Path(folder), int(cells)))))
    elif verb == "serve":
        asyncio.run(serve(Path(folder), int(cells)))
    else:
        asyncio.run(until_killed(Path(folder), int(cells), int(events[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
