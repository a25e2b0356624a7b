"""Workflows beside the plain Python reducer, and cold resumes by the length of the history. CPU time.

Awaits      each of 1,000 runs gets one event a round, awaits it, and waits for the next: an await answered, a
            step of the kernel with its record, and a coroutine that goes on. The other side is the reducer of
            `bench.styles` with the same events in the same world.
Resume      one run that has awaited so many events is made anew from its history, and takes one more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

from bench.report import Row, measured, ratio
from bench.styles_apps import StyleWorld, Ticked, reducer_app, style_world
from bench.timing import Side, best_of
from cellule import App, Workflow

KEYS = 1_000
TOGETHER = 500  # events that one beat brings to the run while its history grows
LENGTHS = (100, 1_000, 10_000)


def workflow_app() -> App:
    """A run for each key that never ends: it awaits the next event, adds its amount, and waits again."""
    app = App("bench")
    app.event(key="key")(Ticked)

    @app.workflow(events=[Ticked])
    async def totals(ctx: Workflow, first: Ticked) -> int:
        total = first.amount
        while total >= 0:
            total += (await ctx.event(Ticked)).amount
        return total

    return app


def workflow_rows(*, quick: bool) -> Iterator[Row]:
    """Awaits a second, and the time of a cold resume."""
    yield from _awaits(20 if quick else KEYS, 1 if quick else 15)
    for length in LENGTHS[:1] if quick else LENGTHS:
        yield from _resume(length, 1 if quick else 3)


def _awaits(keys: int, rounds: int) -> Iterator[Row]:
    with ExitStack() as stack:
        worlds = [stack.enter_context(style_world(app(), keys)) for app in (reducer_app, workflow_app)]
        sides = [_side(world) for world in worlds]
        best_of(*sides, rounds=2)  # the cells are made
        reducer_s, awaits_s = best_of(*sides, rounds=rounds)
    yield measured("styles", "workflow", "awaits", keys / awaits_s, "/s")
    yield ratio("styles", "workflow", "awaits vs reducer", reducer_s / awaits_s, None)


def _side(world: StyleWorld) -> Side:
    turns = count()
    return Side(world.beats, lambda: world.items(next(turns)))


def _resume(length: int, rounds: int) -> Iterator[Row]:
    with style_world(workflow_app(), 1) as world:
        for begun in range(0, length + 1, TOGETHER):
            items = [each for _ in range(min(TOGETHER, length + 1 - begun)) for each in world.items(1)]
            world.beats(items)

        def forgotten() -> object:
            world.world.world.eras.forget()
            return world.items(1)

        [resume_s] = best_of(Side(world.beats, forgotten), rounds=rounds)
    case = f"a run of {length:,} awaits"
    yield measured("styles", case, "cold resume", resume_s * 1e3, "ms")
    yield measured("styles", case, "awaits resumed", length / resume_s, "/s")
