"""Stores by address: the same app through the public API on every kind of store."""

from __future__ import annotations

from pathlib import Path

import cellule
from tests.support.nodes import load_app

TALLY = load_app(Path(__file__).parents[1] / "node_apps" / "tally.py")
LARGE = "x" * 30_000


async def test_a_state_over_16_kb_is_kept_and_found_again(place):
    """Broke on an object store: the frame's batch refused its block, and the world ended."""
    async with cellule.open(place.address, TALLY.app, **place.opened()) as node:
        world = await node.world("w")
        first = await world.send(TALLY.Keep("a", LARGE))
        await world.send(TALLY.Keep("a", "y" * 17_000))
        await world.send(TALLY.Keep("b", "small"))
    async with cellule.open(place.address, TALLY.app, **place.opened()) as node:
        world = await node.world("w")
        assert (await world.cell(TALLY.shelf, "a").state()).text == "y" * 17_000
        assert (await world.cell(TALLY.shelf, "a").state(at=first.height + 1)).text == LARGE


async def test_memory_is_a_store_for_as_long_as_it_is_open():
    async with cellule.open("memory:", TALLY.app) as node:
        world = await node.world("w")
        await world.send(TALLY.Keep("a", LARGE))
        assert (await world.cell(TALLY.shelf, "a").state()).text == LARGE
    async with cellule.open("memory:", TALLY.app) as node:
        assert await node.worlds() == []
