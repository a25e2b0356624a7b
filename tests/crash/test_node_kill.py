"""A node under load is killed at random moments: what was acknowledged is there once, and nothing else."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest

from tests.support.kills import run_and_kill
from tests.support.nodes import events_of
from tests.support.places import FOLDER, FOLDER_AND_OBJECTS, POSTGRES_AND_S3

pytestmark = pytest.mark.crash

FULL = os.environ.get("CELLULE_CRASH") == "full"
KILLS = 26 if FULL else 2
RUNS = 4 if FULL else 3
TASKS = 16
CHILD = Path(__file__).with_name("node_child.py")


def acknowledged_before_kill(place, life, moments):
    """Let a child work until it acknowledged so many events, kill it, return all that it acknowledged."""
    wanted = moments.choice((0, 1, 3, 40, moments.randrange(400)))
    words = run_and_kill(CHILD, place.words(), str(life), str(TASKS), lines_before=wanted)
    return [(name, given) for _, name, given in (word for word in words if word[0] == "ack")]


async def check_place(place, acknowledged):
    """Everything that was acknowledged is there once; of each client there is at most one event more."""
    worlds = await place.prove()
    async with place.store() as store:
        seen = defaultdict(list)
        for info in worlds:
            ids = [each.id for each in await events_of(store.engine, info) if each.id is not None]
            assert len(ids) == len(set(ids)), "an event is there twice"
            lost = {given for name, given in acknowledged if name == info.name} - set(ids)
            assert not lost, f"acknowledged and lost: {lost}"
            for given in ids:
                life, task, number = map(int, given.split("/"))
                seen[life, task].append(number)
        answered = defaultdict(int)
        for _, given in acknowledged:
            life, task, number = map(int, given.split("/"))
            answered[life, task] = max(answered[life, task], number + 1)
        for client, numbers in seen.items():
            assert numbers == list(range(len(numbers))), "out of order, or invented"
            assert len(numbers) <= answered[client] + 1, "more than one event of a client was under way"


RUNS_OF = [*((FOLDER, seed) for seed in range(RUNS)), (FOLDER_AND_OBJECTS, RUNS), (POSTGRES_AND_S3, RUNS + 1)]


@pytest.mark.parametrize(("place", "seed"), RUNS_OF, indirect=["place"])
async def test_a_killed_node_keeps_every_promise(place, seed):
    moments = Random(seed)
    acknowledged = []
    for life in range(KILLS):
        acknowledged += await asyncio.to_thread(acknowledged_before_kill, place, life, moments)
        if not FULL or life % 5 == 4 or life == KILLS - 1:
            await check_place(place, acknowledged)
    assert acknowledged or KILLS < 3
