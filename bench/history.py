"""What a history and a state cost, beside the bare reading of one record. Wall time.

History   a cell with 10,000 versions, one in each of 10,000 frames of 20 events, and one with as many in few
          large frames; the other side reads the same steps by their heights: the frame's rows, decoded, and
          one record of it.
States    10,000 cells that wait for a timer each, and as many that wait for nothing: a `state()` of each.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from datetime import timedelta

import msgspec

import cellule
from bench.report import Row, measured, stream
from cellule import App, Step, TimerFired, timer
from cellule.host.journal import Journal
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import StepRecord

VERSIONS, BESIDE, ROUNDS = 10_000, 20, 3
HISTORY_MAX, STATE_MAX = 10.0, 2.0

app = App("bench_history")


@app.event(key="name")
class Added(msgspec.Struct, frozen=True):
    name: str
    waits: bool = False


class Count(msgspec.Struct, frozen=True):
    count: int = 0


@app.reducer(effects=[timer])
def total(state: Count | None, event: Added | TimerFired) -> Step[Count]:
    now = Count((state or Count()).count + 1)
    if isinstance(event, Added) and event.waits:
        return Step(now, effects=[timer(after=timedelta(days=300))])
    return Step(now)


def run(*, quick: bool) -> Iterator[Row]:
    """Versions in frames of their own, versions in large frames, states."""
    return stream(_rows(200 if quick else VERSIONS))


async def _rows(count: int) -> AsyncGenerator[Row, None]:
    with tempfile.TemporaryDirectory() as folder:
        async with cellule.open(folder, app=app) as node:
            world = await node.world("w")
            for number in range(count):
                others = [Added(f"other{(number * BESIDE + beside) % 1_000}") for beside in range(BESIDE - 1)]
                await world.send_many([Added("apart"), *others])
            await world.send_many([Added(f"close{number % BESIDE}") for number in range(count * BESIDE)])
            for case, name in (("a frame for each version", "apart"), ("many versions in a frame", "close7")):
                async for row in _history(world, name, case):
                    yield row
            async for row in _states(world, count):
                yield row


async def _history(world: cellule.WorldHandle, name: str, case: str) -> AsyncGenerator[Row, None]:
    cell = world.cell(total, name)
    best_s, bare_s, versions = 1e9, 1e9, 0
    for _ in range(ROUNDS):
        began = time.perf_counter()
        heights = [each.height for each in await cell.history()]
        best_s, versions = min(best_s, time.perf_counter() - began), len(heights)
        began = time.perf_counter()
        for height in heights[:: max(1, versions // 200)]:
            await _record(world, height)
        read = len(heights[:: max(1, versions // 200)])
        bare_s = min(bare_s, (time.perf_counter() - began) / read)
    yield measured("history", case, "versions", versions, "")
    yield measured("history", case, "a version", best_s / versions * 1e6, "us")
    value = best_s / versions / bare_s
    yield Row("history", case, "a version vs its record alone", value, "x", HISTORY_MAX, value <= HISTORY_MAX)


async def _record(world: cellule.WorldHandle, height: int) -> StepRecord:
    follower = world.follower
    journal = Journal(follower.loader.engine, follower.cas, world.info.lineage)
    _, data = await journal.frame_at(height, 1 << 60)
    return decode_frame(data).expect(height, StepRecord)


async def _states(world: cellule.WorldHandle, count: int) -> AsyncGenerator[Row, None]:
    await world.send_many([Added(f"waits{number}", waits=True) for number in range(count)])
    await world.send_many([Added(f"rests{number}") for number in range(count)])
    best = {"waits": 1e9, "rests": 1e9}
    for _ in range(ROUNDS):
        for name, so_far in list(best.items()):
            began = time.perf_counter()
            for number in range(count):
                await world.cell(total, f"{name}{number}").state()
            best[name] = min(so_far, time.perf_counter() - began)
    yield measured("history", "states with open timers", "a state", best["waits"] / count * 1e6, "us")
    value = best["waits"] / best["rests"]
    yield Row(
        "history", "states with open timers", "vs states without", value, "x", STATE_MAX, value <= STATE_MAX
    )
