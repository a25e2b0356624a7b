"""A node under load, until it is killed; started by the tests beside it.

`node_child.py PLACE LIFE TASKS` opens the store of a place, prints `open`, and lets TASKS clients send one
event after the other, each with an id of its own, `LIFE/TASK/NUMBER`. It prints `ack WORLD ID` for each that
was acknowledged. Snapshots are frequent, and worlds leave memory now and then.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.support.nodes import load_app
from tests.support.places import BRIEF_TTL_S, Place

TALLY = load_app(Path(__file__).parents[1] / "node_apps" / "tally.py")


def say(line):
    os.write(1, line.encode() + b"\n")


def event_of(number, key):
    made = [TALLY.Add(key, 1), TALLY.Both(key), TALLY.Pass(key, "k9", 2), TALLY.Keep(key, key * 2_500)]
    return made[number % len(made)]


async def client(node, life, task):
    world = await node.world(("north", "south")[task % 2])
    number = 0
    while True:
        given = f"{life}/{task}/{number}"
        wait = ("applied", "durable")[number % 5 == 4]
        await world.send(event_of(number, f"k{task % 7}"), id=given, wait=wait)
        say(f"ack {world.name} {given}")
        number += 1


async def let_go(node):
    while True:
        for name in ("north", "south"):
            await node.node.release((await node.world(name)).info)
            await asyncio.sleep(0.02)


async def main(place, life, tasks):
    async with Place.of_words(place).open(
        TALLY.app, snapshot_bytes=60_000, session_ttl_s=BRIEF_TTL_S
    ) as node:
        await node.wait_owner()  # on a shared store, until the session of the killed one is over
        say("open")
        async with asyncio.TaskGroup() as group:
            for task in range(int(tasks)):
                group.create_task(client(node, int(life), task))
            group.create_task(let_go(node))


asyncio.run(main(*sys.argv[1:]))
