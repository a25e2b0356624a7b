"""What very many worlds cost one node: making 10,000 of them, and the memory it takes. Wall time, SQLite.

A process of its own opens a folder with an app and asks for worlds by name, 20 at once, so that each is made,
begins and is left idle; at most 1,000 of them stay in memory, as by default. The second and the last thousand
are compared: a world must cost the same however many there are (while the first thousand are made, none has
to leave memory). Then one of the first gets an event.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cellule
from bench.growth_child import resident_mb
from bench.ingest_app import Added, app
from bench.ingest_rows import at_most
from bench.report import Row, measured

WORLDS, PART, AT_ONCE = 10_000, 1_000, 20
MAKING_MAX_S, MEMORY_MAX_MB, LAST_MAX = 60.0, 200.0, 1.5


def run(*, quick: bool) -> Iterator[Row]:
    """Make the worlds in a process of its own."""
    worlds, part = (WORLDS // 50, PART // 50) if quick else (WORLDS, PART)
    case = f"{worlds:,} worlds"
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "bench.worlds", folder, str(worlds), str(part)]
        done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    parts = found["parts_s"]
    yield at_most("worlds", case, "making them", sum(parts), "s", MAKING_MAX_S)
    yield measured("worlds", case, "a world", sum(parts) / worlds * 1e3, "ms")
    yield at_most("worlds", case, f"the last {part:,} vs the second", parts[-1] / parts[1], "x", LAST_MAX)
    yield at_most("worlds", case, "memory", found["peak_mb"], "MB", MEMORY_MAX_MB)
    yield measured("worlds", case, "an event to one that left memory", found["again_s"] * 1e3, "ms")


async def _make(folder: Path, worlds: int, part: int) -> dict[str, Any]:
    parts_s = []
    async with cellule.open(folder, app) as node:
        for start in range(0, worlds, part):
            begun = time.perf_counter()
            for first in range(start, start + part, AT_ONCE):
                await asyncio.gather(*(node.world(f"world {first + at:06}") for at in range(AT_ONCE)))
            parts_s.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        await (await node.world("world 000007")).send(Added("a", 1))
        again_s = time.perf_counter() - begun
        return {"parts_s": parts_s, "again_s": again_s, "peak_mb": resident_mb("VmHWM")}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_make(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))))
