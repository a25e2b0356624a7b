"""How time is taken: the sides take turns, and the best round of each counts.

What a machine does beside us only ever makes a round slower, so the best round is the nearest to the truth,
and turns let slow minutes hit all sides alike. Sides that are pure computation are measured in CPU time of
the process; where a disk or a server takes part, in wall time. `prepare` makes the input of a round outside
the clock.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cellule.host.limits import COLLECT_EVERY, SWITCH_INTERVAL_S

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


@contextmanager
def as_in_a_node() -> Iterator[None]:
    """Tune the process for all sides as a node does: thread switching, and when garbage is looked for."""
    thresholds, interval_s = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(COLLECT_EVERY, *thresholds[1:])
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(interval_s)
        gc.set_threshold(*thresholds)


def best_of(*sides: Side, rounds: int = ROUNDS) -> list[float]:
    """CPU seconds of the best round of each side."""
    best = [float("inf")] * len(sides)
    with as_in_a_node():
        for _ in range(rounds):
            for position, side in enumerate(sides):
                given = side.prepare()
                start = time.process_time()
                side.work(given)
                best[position] = min(best[position], time.process_time() - start)
    return best


async def best_of_waiting(sides: Sequence[Side], rounds: int = ROUNDS) -> list[float]:
    """Wall seconds of the best round of each side; `work` is a coroutine function."""
    best = [float("inf")] * len(sides)
    with as_in_a_node():
        for _ in range(rounds):
            for position, side in enumerate(sides):
                given = side.prepare()
                work: Callable[[Any], Awaitable[object]] = side.work
                start = time.perf_counter()
                await work(given)
                best[position] = min(best[position], time.perf_counter() - start)
    return best
