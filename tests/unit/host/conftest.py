"""A node over a memory engine, and the proof that everything it wrote replays."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cellule.modules.kinds import CodeKinds
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing import VirtualClock, run
from tests.support.nodes import check_store, load_app, open_node

TALLY = load_app(Path(__file__).parents[2] / "node_apps" / "tally.py")


@pytest.fixture(scope="session")
def tally():
    return TALLY


@pytest.fixture(scope="session")
def programs():
    """The code of all tests' worlds: it is pure, so they may share it."""
    loaded = CodeKinds(limit_s=None)
    yield loaded
    loaded.close()


@pytest.fixture
def on_node(programs):
    """Run a test's coroutine in virtual time: `on_node(main)` calls `main(open)`; the store is proven after.

    `open(engine=None, app=TALLY.app, **options)` is a running node over the test's one store.
    """

    def play(main, seed=0, **more):
        async def whole():
            disk = MemoryDisk()

            @asynccontextmanager
            async def opened(engine=None, app=TALLY.app, **options):
                options.setdefault(
                    "clock", VirtualClock()
                )  # a machine's clock would make the loop wait for it
                built = None if app is None else app.build()
                async with open_node(engine or MemoryEngine(disk), built, programs, **options) as node:
                    yield node

            opened.disk = disk
            result = await main(opened)
            await check_store(MemoryEngine(disk), programs)
            return result

        return run(whole, seed=seed, **more).result

    return play
