"""A node with effects under load, until it is killed; started by the tests beside it.

`effects_child.py PLACE LIFE URL` opens the store of a place, prints `open`, and places orders that are
charged at URL, one after the other; it prints `ack ORDER` for each that was acknowledged, and never ends by
itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from cellule.effects.adapter import AdapterLimits
from cellule.effects.http.adapter import HttpAdapter, HttpOptions
from tests.support.nodes import load_app
from tests.support.places import BRIEF_TTL_S, Place

PAYMENTS = load_app(Path(__file__).parents[1] / "node_apps" / "payments.py")
LIMITS = AdapterLimits(timeout_s=5, backoff_s=0.005, backoff_max_s=0.05, needs_grant=True)


def say(line):
    os.write(1, line.encode() + b"\n")


async def main(place, life, url):
    adapters = [HttpAdapter(HttpOptions(limits=LIMITS))]
    options = {"snapshot_bytes": 40_000, "adapters": adapters, "session_ttl_s": BRIEF_TTL_S}
    async with Place.of_words(place).open(PAYMENTS.app, **options) as node:
        await node.wait_owner()
        world = await node.world("shop")
        say("open")
        number = 0
        while True:
            name = f"{life}-{number}"
            await world.send(PAYMENTS.Placed(name, url), id=name)
            say(f"ack {name}")
            number += 1
            await asyncio.sleep(0.002)


asyncio.run(main(*sys.argv[1:]))
