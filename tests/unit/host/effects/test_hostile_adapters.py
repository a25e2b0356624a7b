"""An adapter that exits or raises nonsense fails its effect; the node goes on, also when opened again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.nodes import load_app

GRABBY = load_app(Path(__file__).parents[3] / "node_apps" / "grabby.py")


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("exit1", "SystemExit: the adapter has enough ("),
        ("child1", "TaskExit: a task of the adapter raised SystemExit: one of its tasks has enough ("),
        ("odd1", "busy; its after_s is no number of seconds ("),
    ],
)
async def test_the_node_goes_on_and_the_receipt_says_where(opened, order, said):
    """The exception reached the loop, or broke the pool that computed the next time: the node ended."""
    async with opened() as here:
        settled = await here.settled(await here.place(order))
        assert (settled.receipt.status, settled.receipt.attempts) == ("failed", 3)
        assert settled.receipt.text.startswith(said)
        assert "pay.py:" in settled.receipt.text
        assert (await here.settled(await here.place("fine"))).receipt.status == "ok"


async def test_it_is_counted_when_the_node_is_opened_again(opened):
    """The attempt was not counted, so that every restart ended the same way."""
    async with opened(perform=False) as here:
        view = await here.place("exit2")
    async with opened() as here:
        settled = await here.settled(view)
        assert (settled.receipt.status, settled.receipt.attempts) == ("failed", 3)
        [letter] = await here.world.dead_letters()
        assert letter.height == settled.receipt.height


async def test_what_an_adapter_does_with_its_grant_is_its_own_affair(opened):
    """It was the world's: it took no request any more, or gave each later one what the adapter added."""
    async with opened(app=GRABBY.app) as here:
        for name in ("a", "b"):
            await here.world.send(GRABBY.Asked(name))
            cell = here.world.cell(GRABBY.grabber, name)
            assert await cell.wait_until(lambda state: state != ["asked"], timeout=20) == ["api.example"]
