"""Laws of workflows, over random trees of tasks and random lives of their runs.

A cold restart between any two beats changes no byte of the journal: the coroutine is only a cache. And
whatever happened, the code that is run again says what the journal says.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from cellule import CallFailed, Cancelled, EffectFailed, Workflow
from cellule.testing import World
from tests.support.workflows import (
    Answered,
    Asked,
    Charge,
    Charged,
    Nudged,
    Paid,
    Placed,
    Shop,
    Stopped,
    Told,
)

EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "25"))
ANSWERS = ["answer", "refuse", "fail", "delete", "wait"]
LEAVES = st.one_of(
    st.tuples(st.sampled_from(["charge", "refund"]), st.integers(0, 3)),
    st.tuples(st.just("sleep"), st.integers(0, 5)),
    st.tuples(st.just("event"), st.sampled_from(["paid", "stopped", "either"])),
    st.tuples(st.just("timed event"), st.integers(0, 5)),
    st.tuples(st.just("tell"), st.integers(0, 3)),
    st.tuples(st.just("publish"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["call", "timed call"]), st.sampled_from(ANSWERS)),
)
Tree = tuple[Any, ...]


def branches(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    """What is made of other trees: rows, groups, and what surrounds one."""
    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.tuples(st.just("row"), several),
        st.tuples(st.just("gather"), several),
        st.tuples(st.just("race"), several),
        st.tuples(st.just("spawn"), inner),
        st.tuples(st.just("deadline"), st.integers(1, 6), inner),
        st.tuples(st.just("finally"), inner, inner),
        st.tuples(st.just("stubborn"), inner, inner),
    )


TREES = st.recursive(LEAVES, branches, max_leaves=8)
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("paid"), st.integers(0, 2)),
        st.tuples(st.just("stopped"), st.just(0)),
        st.tuples(st.just("nudge"), st.integers(0, len(ANSWERS) - 1)),
        st.tuples(st.just("placed"), st.integers(0, 1)),
        st.tuples(st.just("complete"), st.integers(0, 3)),
        st.tuples(st.just("fail"), st.integers(0, 3)),
        st.tuples(st.just("advance"), st.integers(1, 4)),
        st.tuples(st.sampled_from(["cancel", "rerun"]), st.just(0)),
    ),
    max_size=14,
)


async def play(  # noqa: C901 - one case for each kind
    shop: Shop, ctx: Workflow, order: str, tree: Tree, log: list[Any]
) -> None:
    """Do what a tree says; `log` gathers what was seen, in order."""
    kind, *parts = tree
    log.append([kind, ctx.now_ns])
    match kind:
        case "charge" | "refund":
            effect = shop.charge if kind == "charge" else shop.refund
            try:
                log.append((await ctx.effect(effect(Charge(order, parts[0])))).id)
            except EffectFailed as failed:
                log.append(failed.code)
        case "sleep":
            await ctx.sleep(timedelta(hours=parts[0]))
        case "event":
            kinds = {"paid": [Paid], "stopped": [Stopped], "either": [Paid, Stopped]}[parts[0]]
            log.append(type(await ctx.event(*kinds)).__name__)
        case "timed event":
            try:
                await ctx.event(Paid, timeout=timedelta(hours=parts[0]), where=lambda paid: paid.cents > 0)
            except TimeoutError:
                log.append("late")
        case "tell":
            ctx.emit(Told(order, f"{parts[0]} {ctx.random.random()}"))
        case "publish":
            ctx.publish([len(log), str(ctx.uuid())])
        case "call" | "timed call":
            timeout = None if kind == "call" else timedelta(hours=2)
            try:
                answer = await ctx.call(Asked("anne", order, parts[0]), Answered, timeout=timeout)
                log.append(answer.clerk)
            except CallFailed as failed:
                log.append([failed.status, failed.code])
            except TimeoutError:
                log.append("no answer")
        case "row":
            for each in parts[0]:
                await play(shop, ctx, order, each, log)
        case "gather":
            await ctx.gather(*(play(shop, ctx, order, each, log) for each in parts[0]))
        case "race":
            log.append((await ctx.race(*(play(shop, ctx, order, each, log) for each in parts[0]))).at)
        case "spawn":
            ctx.spawn(play(shop, ctx, order, parts[0], log))
        case "deadline":
            try:
                async with ctx.deadline(timedelta(hours=parts[0])):
                    await play(shop, ctx, order, parts[1], log)
            except TimeoutError:
                log.append("over")
        case "finally":
            try:
                await play(shop, ctx, order, parts[0], log)
            finally:
                await play(shop, ctx, order, parts[1], log)
        case "stubborn":
            try:
                await play(shop, ctx, order, parts[0], log)
            except Cancelled:
                log.append("cancelled")
                await play(shop, ctx, order, parts[1], log)


def lived(tree: Tree, deeds: Sequence[Any], *, cold: bool, turns: int) -> World:
    """A world in which all this happened; `cold` forgets everything after every beat."""

    async def order(ctx: Workflow, new: Placed, turn: int = 0) -> list[str]:
        log: list[Any] = []
        await play(shop, ctx, new.order, tree, log)
        if turn < turns:
            await ctx.sleep(60)
            ctx.again(new, turn + 1)
        return [repr(each) for each in log]

    shop = Shop(order, evict=cold, calls=True)
    world = shop.world
    world.send(Placed("o1"))
    for what, number in deeds:
        do(shop, what, number)
    return world


def do(shop: Shop, what: str, number: int) -> None:
    """One thing that happens to a run."""
    world = shop.world
    waiting = [each for each in world.intents if each.kind.startswith("pay.")]
    match what:
        case "paid" | "stopped" | "placed":
            kinds = {"paid": Paid("o1", number), "stopped": Stopped("o1"), "placed": Placed("o1", number)}
            world.send(kinds[what], check=False)
        case "nudge":
            world.send(Nudged("anne", ANSWERS[number]), check=False)
        case "complete" if waiting:
            world.complete(waiting[number % len(waiting)], Charged(f"c{number}"))
        case "fail" if waiting:
            world.fail(waiting[number % len(waiting)], code=f"f{number}")
        case "advance":
            world.advance(hours=number)
        case "cancel" | "rerun":
            world.send(("order_order", {"verb": what}), key="o1", check=False)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(TREES, DEEDS, st.integers(0, 1))
def test_cold_restarts_between_any_two_beats_change_no_byte(tree, deeds, turns):
    warm = lived(tree, deeds, cold=False, turns=turns)
    cold = lived(tree, deeds, cold=True, turns=turns)
    assert warm.host.frames == cold.host.frames
    assert [each for each in warm.failures if "clerk" not in each.reducer] == []
    warm.assert_replays()
    run = warm.state("shop/order", "o1")
    event(f"the run is {run.status}, number {min(run.number, 3)}")
