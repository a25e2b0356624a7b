"""A node with the app `pay`, whose bank writes down what it was asked; every store is proven at the end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cellule.effects.adapter import adapter
from cellule.effects.outcomes import Failed, Later
from cellule.host.outbox.signatures import NodeKey
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing import VirtualClock, run
from tests.support.nodes import check_store, load_app, open_node

PAY = load_app(Path(__file__).parents[3] / "node_apps" / "pay.py")
KEY = NodeKey(b"k" * 32)
Charge, Charged, Mail, Sent = PAY.Charge, PAY.Charged, PAY.Mail, PAY.Sent


class Bank:
    """Adapters that note what was asked (order, idempotency key); orders that begin with `hold` wait."""

    def __init__(self):
        self.asked = []
        self.mails = []
        self.waits = asyncio.Event()
        self._news = asyncio.Event()

        @adapter("pay.charge")
        async def charge(params: Charge, attempt) -> Charged:
            self.asked.append((params.order, attempt.key))
            self._news.set()
            if params.order.startswith("hold"):
                await self.waits.wait()
            if params.order.startswith("outside"):
                raise Later(timeout_s=3600)
            if params.order.startswith("broke"):
                raise Failed("pay.refused", "the bank says no")
            return Charged(f"ch-{params.order}-{len(self.asked)}")

        @adapter("pay.mail")
        async def mail(params: Mail, attempt) -> Sent:
            self.mails.append((params.to, attempt.key))
            return Sent(f"m-{params.to}")

        self.adapters = [charge, mail]

    async def until(self, count):
        """Wait until it was asked so often."""
        while len(self.asked) < count:
            self._news.clear()
            await self._news.wait()

    def orders(self):
        return [order for order, _ in self.asked]


@pytest.fixture
def pay():
    return PAY


@pytest.fixture
def on_node(programs):
    """As the one of all nodes, with the app `pay` and a bank: `opened(bank=None, **options)`."""

    def play(main, seed=0, **more):
        async def whole():
            disk = MemoryDisk()

            @asynccontextmanager
            async def opened(bank=None, app=PAY.app, **options):
                bank = bank or Bank()
                async with open_node(
                    MemoryEngine(disk), None if app is None else app.build(), programs, key=KEY,
                    adapters=bank.adapters, clock=VirtualClock(), **options,
                ) as node:  # fmt: skip
                    node.bank = bank
                    yield node

            opened.disk = disk
            result = await main(opened)
            await check_store(MemoryEngine(disk), programs)
            return result

        return run(whole, seed=seed, **more).result

    return play
