"""Another process beside a node; started by the tests of folders.

`send NAME COUNT` enqueues events and waits until each is applied; `tail WORLD COUNT` follows the journal over
so many events; `own` owns the folder until it is killed; `fork` does so beside a child that outlives it;
`sender` sends one event after the other and says when it began those that were acknowledged, until the folder
is not what it was, and then reads; `nobody` tries to open it without permission.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from cellule.assembly import Options
from cellule.assembly import open as open_node
from cellule.errors import CelluleError, Unavailable
from cellule.kernel.journal.records import EventRecord
from tests.support.nodes import load_app

TALLY = load_app(Path(__file__).parents[1] / "node_apps" / "tally.py")


def say(*words):
    os.write(1, " ".join(map(str, words)).encode() + b"\n")


async def send(folder, name, count):
    async with open_node(folder, TALLY.app) as node:
        world = await node.world("w")
        applied = 0
        for number in range(int(count)):
            outcome = await world.send(TALLY.Add("a", 1), id=f"{name}/{number}")
            applied += len(outcome.steps)
        say("applied", applied)


async def tail(folder, name, count):
    async with open_node(folder, TALLY.app) as node:
        world = await node.world(name)
        height = events = 0
        async for frame in world.tail(0):
            if frame.header.first != height + 1:
                sys.exit(f"a gap behind {height}")
            height = frame.header.last
            events += len(list(frame.of(EventRecord)))
            if events >= int(count):
                break
        say("contiguous", height)


async def own(folder):
    async with open_node(folder, TALLY.app) as node:
        await node.world("w")
        say("owner")
        await asyncio.sleep(3_600)


async def fork(folder):
    async with open_node(folder, TALLY.app) as node:
        await node.world("w")
        if os.fork() == 0:
            say(os.getpid())
            signal.pause()
        await asyncio.sleep(3_600)


async def sender(folder, own):
    async with open_node(folder, TALLY.app, options=Options(own=own == "owner")) as node:
        world = await node.world("w")
        code = ""
        while code != "host.folder_replaced":
            begun_ns = time.monotonic_ns()
            try:
                await world.send(TALLY.Add("a", 1), wait="durable")
            except Unavailable as error:
                code = error.code
            else:
                say("acknowledged", begun_ns)
        say("refused", code)
        account = world.cell(TALLY.account, "a")
        for read in (account.state, account.history, lambda: anext(world.tail(0))):
            try:
                say("read", await read())
            except Unavailable as error:
                say("refused", error.code)


async def nobody(folder):
    TALLY.app.build()  # what it imports may not be readable for others
    if os.geteuid() == 0:
        os.setuid(65_534)
    try:
        async with open_node(folder, TALLY.app):
            say("opened")
    except CelluleError as error:
        say(error.code)


asyncio.run(
    {"send": send, "tail": tail, "own": own, "fork": fork, "sender": sender, "nobody": nobody}[sys.argv[2]](
        sys.argv[1], *sys.argv[3:]
    )
)
