"""A node in a process of its own that does what it is told, line by line; started by the tests of ownership.

`owner_client.py ADDRESS TTL PERFORM` says `owner` or `guest` once it is open. Then, per line: `send ID` says
what became of the event, `read` the count of the account, `place ORDER` asks for an effect, `block SECONDS`
keeps its loop busy, `role` says owner or guest; at the end of its input it closes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import cellule
from cellule.assembly import Options
from cellule.errors import CelluleError
from tests.support.nodes import load_app

APPS = Path(__file__).parents[1] / "node_apps"
TALLY, PAY = load_app(APPS / "tally.py"), load_app(APPS / "pay.py")


def say(*words):
    os.write(1, " ".join(map(str, words)).encode() + b"\n")


async def obey(node, world, verb, word=""):
    match verb:
        case "send":
            try:
                applied = await world.send(TALLY.Add("a", 1), id=word)
            except CelluleError as error:
                return error.code
            return "duplicate" if applied.duplicate else "applied"
        case "read":
            state = await world.cell(TALLY.account, "a").state()
            return 0 if state is None else state.count
        case "place":
            return (await world.send(PAY.Placed(word, 5))).height
        case "block":
            time.sleep(float(word))  # noqa: ASYNC251 - a loop that is busy
            return "blocked"
    return "owner" if node.is_owner else "guest"


async def main(address, ttl_s, perform):
    options = Options(session_ttl_s=float(ttl_s), perform=perform == "yes", tune_process=False)
    app = TALLY.app if perform == "yes" else PAY.app
    async with cellule.open(address, app, options=options) as node:
        say("owner" if node.is_owner else "guest")
        world = None
        while line := await asyncio.to_thread(sys.stdin.readline):
            world = world or await node.world("w")
            say(await obey(node, world, *line.strip().split(" ", 1)))


asyncio.run(main(*sys.argv[1:]))
