"""Watchers of a register that changes through a failing store: nobody misses the last change.

A lost wake-up is a deadlock, and the deterministic loop reports a deadlock with the task that waits.
"""

from __future__ import annotations

import asyncio

import pytest

from cellule.errors import InvariantBroken, Unavailable
from cellule.store.engine import Batch
from cellule.testing import Simulation, simulate

pytestmark = pytest.mark.simulation

REGISTER, LAST, BACKOFF_SECONDS = b"\x02register", b"9", 0.01
CAUGHT_WITHIN = 300


async def insist(operation):
    while True:
        try:
            return await operation()
        except Unavailable:
            await asyncio.sleep(BACKOFF_SECONDS)


async def follow(engine):
    """Return every value seen, up to the last one."""
    seen = []
    while True:
        (value,) = await insist(lambda: engine.read([REGISTER]))
        if value is not None and value not in seen:
            seen.append(value)
        if value == LAST:
            return seen
        await insist(lambda value=value: engine.watch(REGISTER, value))


async def follow_deafly(engine):
    """Broken: it watches for changes from a value that it has not looked at."""
    seen = []
    while True:
        (value,) = await insist(lambda: engine.read([REGISTER]))
        seen.append(value)
        if value == LAST:
            return seen
        (newer,) = await insist(lambda: engine.read([REGISTER]))
        await insist(lambda newer=newer: engine.watch(REGISTER, newer))


def scenario_of(watcher, watchers=4):
    async def scenario(simulation: Simulation):
        engine = simulation.engine_for("writer")

        async def write():
            for number in range(int(LAST) + 1):
                await asyncio.sleep(simulation.entropy.below(30) / 1_000)
                await insist(lambda number=number: engine.commit(Batch(set={REGISTER: b"%d" % number})))
                await simulation.wire.settle()  # a blind write that is late would otherwise undo a newer one

        async with asyncio.TaskGroup() as group:
            followers = [
                group.create_task(watcher(simulation.engine_for(f"watcher {number}")))
                for number in range(watchers)
            ]
            group.create_task(write())
        return [follower.result() for follower in followers]

    return scenario


scenario = scenario_of(follow)


def test_watchers_never_miss_the_last_change_and_see_changes_in_order(seeds):
    for run in simulate(scenario, seeds=seeds):
        for seen in run.result:
            assert seen[-1] == LAST
            assert seen == sorted(seen)


def test_a_watcher_that_can_miss_a_change_is_caught_as_a_deadlock():
    with pytest.raises(InvariantBroken) as caught:
        simulate(scenario_of(follow_deafly), seeds=range(CAUGHT_WITHIN))
    deadlock = caught.value.__cause__
    assert isinstance(deadlock, InvariantBroken)
    assert deadlock.code == "testing.deadlock"
    assert "follow_deafly" in str(deadlock)
    assert "fails identically" in str(caught.value)
