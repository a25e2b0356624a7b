"""Every way to write a cell beside the plain Python reducer, in one run. CPU time.

Events     each round brings one event to each of 1,000 cells that exist, in one beat: routing, the program,
           records and the frame with its CID. The reducer is the measure; what a style does with the event is
           in `bench.styles_apps`.
Workflow   awaits a second, and cold resumes: see `bench.styles_workflows`.
WASM       a step beside bare calls of wasmtime: see `bench.styles_wasm`.
Batch      `cellule.aggregate` over plain values; what it keeps, after ten times as many items of as many
           namespaces.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count

from bench.report import Row, at_most, measured, ratio
from bench.styles_apps import STYLES, Ticked, intent_app, reducer_app, style_world
from bench.styles_wasm import wasm_rows
from bench.styles_workflows import workflow_rows
from bench.timing import Side, best_of
from cellule import App, aggregate

KEYS = 1_000
ITEMS = 100_000
NAMESPACES = 100
STYLE_MIN = 0.2
ITEMS_MIN = 1_000
THOUSAND_MS_MAX = 100
TRANSITION_MS_MAX = 1
INTENT_MS_MAX = 5
MEMORY_MAX = 2
MEASURES = {"count": "count", "sum": "sum(amount)", "average": "avg(amount)", "most": "max(amount)"}


def run(*, quick: bool) -> Iterator[Row]:
    """All styles through a world, then aggregates of a batch."""
    yield from _events(20 if quick else KEYS, 1 if quick else 15)
    yield from workflow_rows(quick=quick)
    yield from wasm_rows(quick=quick)
    yield from _batch(1_000 if quick else ITEMS, 1 if quick else 5)


def _events(keys: int, rounds: int) -> Iterator[Row]:
    with ExitStack() as stack:
        sides = [_side(stack, app, keys) for app in (reducer_app, intent_app, *STYLES.values())]
        best_of(*sides, rounds=2)  # the cells are made
        reducer_s, intent_s, *others = best_of(*sides, rounds=rounds)
    yield measured("styles", "reducer", "events", keys / reducer_s, "/s")
    yield at_most("styles", "reducer", "an event with an intent", intent_s / keys * 1e3, "ms", INTENT_MS_MAX)
    for style, style_s in zip(STYLES, others, strict=True):
        target = STYLE_MIN if style in ("fsm", "plan") else None
        yield ratio("styles", style, "events vs reducer", reducer_s / style_s, target)
        yield measured("styles", style, "events", keys / style_s, "/s")
        if style == "fsm":
            yield at_most("styles", style, "a transition", style_s / keys * 1e3, "ms", TRANSITION_MS_MAX)


def _side(stack: ExitStack, app: Callable[[], App], keys: int) -> Side:
    world = stack.enter_context(style_world(app(), keys))
    turns = count()
    return Side(world.beats, lambda: world.items(next(turns)))


def _batch(items: int, rounds: int) -> Iterator[Row]:
    given = [Ticked(f"shop-{number % NAMESPACES}", number % 1_000) for number in range(items)]
    case = f"aggregate of {items:,} items"
    [best_s] = best_of(Side(lambda _: aggregate(given, MEASURES, by="key")), rounds=rounds)
    yield ratio("styles", case, "items a second vs 1,000", items / best_s / ITEMS_MIN, 1)
    yield at_most("styles", case, "1,000 items", best_s / items * 1e6, "ms", THOUSAND_MS_MAX)
    few, many = (_kept(given[:size]) for size in (max(NAMESPACES, items // 10), items))
    yield at_most("styles", case, "memory kept vs a tenth of the items", many / few, "x", MEMORY_MAX)


def _kept(items: list[Ticked]) -> int:
    """Bytes that the aggregates of the items hold."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = aggregate(items, MEASURES, by="key")
        size = tracemalloc.get_traced_memory()[0] - before
        assert len(kept) == min(NAMESPACES, len(items))
        return size
    finally:
        tracemalloc.stop()
