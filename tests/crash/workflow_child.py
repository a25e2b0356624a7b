"""A node with workflows at work, until it is killed; started by the tests beside it.

`workflow_child.py PLACE LIFE URL` opens the store of a place, prints `open`, and books journeys, one after
the other; it prints `ack TRIP` for each that was acknowledged, and never ends by itself.
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

JOURNEYS = load_app(Path(__file__).parents[1] / "node_apps" / "journeys.py")
LIMITS = AdapterLimits(timeout_s=5, backoff_s=0.005, backoff_max_s=0.05, needs_grant=True)


def say(line):
    os.write(1, line.encode() + b"\n")


async def main(place, life, url):
    adapters = [HttpAdapter(HttpOptions(limits=LIMITS))]
    options = {"snapshot_bytes": 40_000, "adapters": adapters, "session_ttl_s": BRIEF_TTL_S}
    async with Place.of_words(place).open(JOURNEYS.app, **options) as node:
        await node.wait_owner()
        world = await node.world("trips")
        say("open")
        number = 0
        while True:
            trip = f"{life}-{number}"
            await world.send(JOURNEYS.Booked(trip, url), id=trip)
            say(f"ack {trip}")
            number += 1
            await asyncio.sleep(0.01)


asyncio.run(main(*sys.argv[1:]))
