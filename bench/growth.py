"""What a world of 1,000,000 cells costs, beside one of 1,000 in the same run. Wall time.

Both worlds are built by processes of their own, one event a cell, with a snapshot at the end, and closed
cleanly. Costs per event are all the time of all rounds; the two worlds are served by processes of their own
and take turns, so that neither pays for the other's memory. Events are handed over 10,000 at a time by
`send_many`.

Active       1,000 cells, spread over the world, get all events.
At random    every cell is equally likely. The hit rate is the share of a round's cells that were in memory
             when it began. So many events are sent that the next snapshot is nearly due; it is taken at the
             end, and the cost is told without and with it.
Opening      from `cellule.open` until the first event is applied, in a process that has opened both before.
After a kill the same on a copy of the folder whose process was killed at work, after events at random;
             snapshots are taken as the estimate of this time says (`SNAPSHOT_RESTORE_S`).
Memory       the highest resident size of the process that built the world, and of the one that was killed.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import cellule
from bench.growth_child import WORLD
from bench.growth_disk import disk_rows
from bench.ingest_app import Added, app, key_of
from bench.ingest_rows import at_most
from bench.report import Row, measured, stream

CELLS, ACTIVE = 1_000_000, 1_000
ROUND_EVENTS, ROUNDS, RANDOM_ROUNDS, OPENINGS = 10_000, 20, 6, 5
KILL_EVENTS, KILL_MAX_MS = 200_000, 3_000.0
ACTIVE_MAX, RANDOM_MAX, OPENING_MAX, MEMORY_MAX_MB = 1.5, 4.0, 3.0, 500.0


class Sizes(NamedTuple):
    """How much of everything."""

    cells: int
    active: int
    events: int
    rounds: int
    random_rounds: int
    openings: int
    kill_events: int


def run(*, quick: bool) -> Iterator[Row]:
    """Build, look at the disk, open, work, kill."""
    sizes = Sizes(CELLS, ACTIVE, ROUND_EVENTS, ROUNDS, RANDOM_ROUNDS, OPENINGS, KILL_EVENTS)
    if quick:
        sizes = Sizes(CELLS // 50, ACTIVE // 50, ROUND_EVENTS // 50, 1, 1, 1, KILL_EVENTS // 50)
    return stream(_measure(sizes))


async def _measure(sizes: Sizes) -> AsyncGenerator[Row, None]:
    case = f"{sizes.cells:,} cells"
    with tempfile.TemporaryDirectory() as folder:
        small, big, killed = (Path(folder) / name for name in ("small", "big", "killed"))
        await _build(small, sizes.active)
        built = await _build(big, sizes.cells)
        yield measured("growth", case, "building, an event", built["sent_s"] / sizes.cells * 1e6, "us")
        yield measured("growth", case, "its last snapshot", built["snapshot_s"], "s")
        yield at_most("growth", case, "memory while built", built["peak_mb"], "MB", MEMORY_MAX_MB)
        shutil.copytree(big, killed)
        for row in await disk_rows(big, case, sizes.cells):
            yield row
        for row in await _openings(small, big, case, sizes):
            yield row
        with _Side(small, sizes.active) as few, _Side(big, sizes.cells) as many:
            for part in (_active, _at_random):
                for row in part(few, many, case, sizes):
                    yield row
        for row in await _after_kill(killed, case, sizes):
            yield row


async def _build(folder: Path, cells: int) -> dict[str, Any]:
    def child() -> dict[str, Any]:
        done = subprocess.run(_child("build", folder, cells), stdout=subprocess.PIPE, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return await asyncio.to_thread(child)


def _child(verb: str, folder: Path, *numbers: int) -> list[str]:
    return [sys.executable, "-m", "bench.growth_child", verb, str(folder), *map(str, numbers)]


async def _openings(small: Path, big: Path, case: str, sizes: Sizes) -> list[Row]:
    await _opening(small, 0)
    await _opening(big, 0)
    taken = [
        (await _opening(small, turn % sizes.active), await _opening(big, turn * 7_919 % sizes.cells))
        for turn in range(1, sizes.openings + 1)
    ]
    small_s, big_s = (min(each) for each in zip(*taken, strict=True))
    metric = f"opening and first event vs {sizes.active:,} cells"
    return [
        at_most("growth", case, metric, big_s / small_s, "x", OPENING_MAX),
        measured("growth", case, "opening and first event", big_s * 1e3, "ms"),
        measured("growth", f"{sizes.active:,} cells", "opening and first event", small_s * 1e3, "ms"),
    ]


async def _opening(folder: Path, number: int) -> float:
    start = time.perf_counter()
    async with cellule.open(folder, app) as node:
        world = await node.world(WORLD)
        await world.send(Added(key_of(number), 1))
        return time.perf_counter() - start


class _Side:
    """A world served by a process of its own, and the wall and CPU time its rounds took."""

    def __init__(self, folder: Path, cells: int) -> None:
        self._process = subprocess.Popen(
            _child("serve", folder, cells), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # the end of its input lets it close

    def forget(self) -> None:
        """Count from here."""
        self.wall_s = self.cpu_s = 0.0
        self.hits = 0

    def work(self, **asked: int) -> None:
        """Send the events asked for, or take a snapshot if none are."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        self.wall_s += told["wall_s"]
        self.cpu_s += told["cpu_s"]
        self.hits += told["hits"]


def _active(few: _Side, many: _Side, case: str, sizes: Sizes) -> list[Row]:
    """The same number of active cells in both."""
    for turn in range(sizes.rounds + 1):
        for side in (few, many):
            side.work(events=sizes.events, active=sizes.active)
            if not turn:
                side.forget()  # it brought them into memory
    return _costs(few, many, case, f"{sizes.active:,} active", sizes, sizes.rounds, ACTIVE_MAX)


def _at_random(few: _Side, many: _Side, case: str, sizes: Sizes) -> list[Row]:
    """Any cell of the large world."""
    rounds = sizes.random_rounds
    many.work()  # no snapshot is due before all rounds are over
    few.forget()
    many.forget()
    for turn in range(rounds):
        few.work(events=sizes.events, active=sizes.active)
        many.work(events=sizes.events, seed=turn + 1)
    rate = many.hits / (rounds * sizes.events) * 100
    rows = _costs(few, many, case, "at random", sizes, rounds, RANDOM_MAX)
    many.work()
    rows += _costs(few, many, case, "at random, with the snapshot", sizes, rounds, None)
    return [*rows, measured("growth", case, "at random, hit rate", rate, "%")]


def _costs(
    few: _Side, many: _Side, case: str, what: str, sizes: Sizes, rounds: int, most: float | None
) -> list[Row]:
    beside = f"vs {sizes.active:,} cells"
    each_s = many.wall_s / (rounds * sizes.events)
    return [
        at_most("growth", case, f"{what}: an event {beside}", many.wall_s / few.wall_s, "x", most),
        measured("growth", case, f"{what}: CPU of an event {beside}", many.cpu_s / few.cpu_s, "x"),
        measured("growth", case, f"{what}: an event", each_s * 1e6, "us"),
    ]


async def _after_kill(folder: Path, case: str, sizes: Sizes) -> list[Row]:
    def child() -> dict[str, Any]:
        arguments = _child("work", folder, sizes.cells, sizes.kill_events)
        with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        found: dict[str, Any] = json.loads(line)
        return found

    told = await asyncio.to_thread(child)
    taken_s = await _opening(folder, 1)
    metric = f"opening after a kill amid {sizes.kill_events:,} events at random"
    return [
        at_most("growth", case, "memory at random", told["peak_mb"], "MB", MEMORY_MAX_MB),
        at_most("growth", case, metric, taken_s * 1e3, "ms", KILL_MAX_MS),
    ]
