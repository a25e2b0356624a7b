"""How time is taken: the best of several interleaved rounds, so that noise hurts both sides alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable

ROUNDS = 5


def seconds(work: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
    finally:
        gc.enable()


def best_of(*works: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """The fastest round of each work; the works take turns."""
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for position, work in enumerate(works):
            best[position] = min(best[position], seconds(work))
    return best


async def best_of_async(*works: Callable[[], Awaitable[object]], rounds: int = ROUNDS) -> list[float]:
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for position, work in enumerate(works):
            start = time.perf_counter()
            await work()
            best[position] = min(best[position], time.perf_counter() - start)
    return best
