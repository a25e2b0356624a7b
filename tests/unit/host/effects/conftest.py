"""A real node on a folder with the app `pay`, and ways to wait for what it does."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import cellule
from cellule.assembly import Options
from cellule.host.outbox.listing import find_row
from cellule.kernel.journal.records import ReceiptRecord
from cellule.kernel.state.intent_id import parse_intent
from cellule.store import keys
from tests.support.nodes import load_app

PAY = load_app(Path(__file__).parents[3] / "node_apps" / "pay.py")
SECRET = "sk_live_of_the_bank"


@pytest.fixture
def pay(monkeypatch):
    """The app's module; its secret is in the environment."""
    monkeypatch.setenv("CELLULE_SECRET_BANK", SECRET)
    return PAY


@pytest.fixture
def opened(pay, tmp_path):
    """`async with opened() as here:` is the owner, or with `own=False` another one beside it."""

    @asynccontextmanager
    async def open_world(*, own=True, perform=True, app=PAY.app):
        options = Options(own=own, perform=perform, tune_process=False)
        async with cellule.open(tmp_path / "data", app, options=options) as node:
            yield Here(node, await node.world())

    return open_world


class Here(SimpleNamespace):
    """An open node and its world."""

    def __init__(self, node, world):
        super().__init__(node=node, world=world, engine=node.node.engine)

    async def place(self, order, cents=5, how="charge"):
        """Place an order, and return the one effect it asks for."""
        applied = await self.world.send(PAY.Placed(order, cents, how))
        [view] = await self.world.effects(cause=applied.height)
        return view

    async def settled(self, view):
        """Wait for the receipt of an effect, and return all that is known of it."""
        async for frame in self.world.tail(view.height - 1):
            if any(receipt.cause == view.height for _, receipt in frame.of(ReceiptRecord)):
                return await self.world.effect(view.height)
        return None

    async def tried(self, view, count):
        """Wait until so many attempts of an effect have failed."""
        intent = parse_intent(view.id)
        while True:
            [at] = await self.engine.read([keys.effect_at(intent)])
            row = await find_row(self.engine, self.node.node.clock, intent)
            if row is not None and row.row.tried >= count:
                return row.row
            await self.engine.watch(keys.effect_at(intent), at)

    async def stepped(self, order, status):
        """Wait until an order has a status."""
        cell = self.world.cell(PAY.order, order)
        head = await self.world.head()  # before the look: what happens after it is in the tail
        state = await cell.state()
        if state is not None and state.status == status:
            return state
        async for _ in self.world.tail(head.height):
            state = await cell.state()
            if state.status == status:
                return state
        return None
