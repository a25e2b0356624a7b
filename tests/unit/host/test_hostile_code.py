"""Code whose objects fail wherever they are touched: its step fails, and its node goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellule.errors import StepFailed
from cellule.modules.python import PythonPrograms
from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

HOSTILE = load_app(Path(__file__).parents[2] / "node_apps" / "hostile.py")
FAILURES = {
    "exit": "SystemExit (",
    "generator": "GeneratorExit (",
    "interrupt": "KeyboardInterrupt (",
    "str": "Exits: its text cannot be read (SystemExit) (",
    "odd": "Odd: odd (",
    "posing": "Posing (",
    "endless": "the step ran longer than 0.1 s and was stopped (",
}


@pytest.fixture
def programs():
    loaded = PythonPrograms(limit_s=0.1)
    yield loaded
    loaded.close()


@pytest.mark.parametrize("what", FAILURES)
@in_virtual_time
async def test_whatever_a_step_raises_only_its_cell_stops(opened, what):
    async with opened(app=HOSTILE.app) as node:
        world = await node.world("w")
        with pytest.raises(StepFailed) as caught:
            await world.send(HOSTILE.Do("bad", what))
        assert FAILURES[what] + "hostile.py:" in str(caught.value)
        await world.send(HOSTILE.Do("good"))
        assert await world.cell(HOSTILE.worker, "good").state() == HOSTILE.Count(1)
    async with opened(app=HOSTILE.app) as node:
        world = await node.world("w")
        await world.send(HOSTILE.Do("good"))
        assert await world.cell(HOSTILE.worker, "good").state() == HOSTILE.Count(2)


@in_virtual_time
async def test_keys_that_a_step_cancels_may_be_code(opened):
    """They reached the kernel as they were: what they raised there ended the node."""
    async with opened(app=HOSTILE.app) as node:
        world = await node.world("w")
        await world.send(HOSTILE.Do("key", "key"))
        assert await world.cell(HOSTILE.worker, "key").state() == HOSTILE.Count(1)
        with pytest.raises(StepFailed, match=r"cancel\[0\] is a Thing, not a key"):
            await world.send(HOSTILE.Do("thing", "thing"))
        await world.send(HOSTILE.Do("good"))
