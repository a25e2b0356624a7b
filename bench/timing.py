"""How time is taken: the sides take turns, and the best round of each counts.

What a machine does beside us only ever makes a round slower, so the best round is the nearest to the truth,
and turns let slow minutes hit all sides alike. Sides that are pure computation are measured in CPU time of
the process; where a disk or a server takes part, in wall time. `prepare` makes the input of a round outside
the clock.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cellule.host.limits import COLLECT_EVERY

ROUNDS = 7


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Side:
    """One of the works compared."""

    work: Callable[[Any], Any]
    prepare: Callable[[], Any] = _nothing


def repeat(call: Callable[..., object], *arguments: object, count: int) -> Side:
    """A side that calls a function `count` times."""
    turns = range(count)

    def work(_: None) -> None:
        for _turn in turns:
            call(*arguments)

    return Side(work)


def best_of(*sides: Side, rounds: int = ROUNDS) -> list[float]:
    """CPU seconds of the best round of each side, the garbage collector running as it does in a node."""
    best = [float("inf")] * len(sides)
    thresholds = gc.get_threshold()
    gc.set_threshold(COLLECT_EVERY, *thresholds[1:])
    gc.collect()
    gc.freeze()
    try:
        for _ in range(rounds):
            for position, side in enumerate(sides):
                given = side.prepare()
                start = time.process_time()
                side.work(given)
                best[position] = min(best[position], time.process_time() - start)
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
    return best


async def best_of_waiting(sides: Sequence[Side], rounds: int = ROUNDS) -> list[float]:
    """Wall seconds of the best round of each side; `work` is a coroutine function."""
    best = [float("inf")] * len(sides)
    for _ in range(rounds):
        for position, side in enumerate(sides):
            given = side.prepare()
            work: Callable[[Any], Awaitable[object]] = side.work
            start = time.perf_counter()
            await work(given)
            best[position] = min(best[position], time.perf_counter() - start)
    return best
