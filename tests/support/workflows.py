"""The classes of a small shop, and worlds of one workflow, for tests that write workflows in functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cellule import App
from cellule.testing import World


class Placed(msgspec.Struct, frozen=True):
    order: str
    cents: int = 0


class Paid(msgspec.Struct, frozen=True):
    order: str
    cents: int = 0


class Stopped(msgspec.Struct, frozen=True):
    order: str
    why: str = ""


class Told(msgspec.Struct, frozen=True):
    order: str
    text: str = ""


class Charge(msgspec.Struct, frozen=True):
    order: str
    cents: int = 0


class Charged(msgspec.Struct, frozen=True):
    id: str


EVENTS = (Placed, Paid, Stopped, Told)


class Shop:
    """An app of one workflow, and its world; prove what a test did with `replays()`."""

    def __init__(
        self, function: Callable[..., Any], *, events: Any = (Paid, Stopped), evict: bool = False,
        policy: Any = None, **options: Any,
    ) -> None:  # fmt: skip
        self.app = App("shop")
        for event in EVENTS:
            self.app.event(key="order")(event)
        self.charge = self.app.effect("pay.charge", params=Charge, receipt=Charged)
        self.refund = self.app.effect("pay.refund", params=Charge, receipt=Charged)
        self.app.workflow(events=events, effects=[self.charge, self.refund], **options)(function)
        if policy is not None:
            self.app.policy(policy)
        self.function = function
        self.world = World(self.app, elsewhere=False, evict=evict)

    def run(self, order: str = "o1") -> Any:
        """The run of an order, as readers see it."""
        return self.world.state(self.function, order)

    def send(self, event: Any) -> Any:
        return self.world.send(event)

    def asked(self, kind: str = "pay.charge") -> list[Any]:
        """The open requests of a kind, oldest first."""
        return [each for each in self.world.intents if each.kind == kind]

    def complete(self, id: str = "c1", kind: str = "pay.charge") -> None:
        """Answer the oldest request of a kind."""
        self.world.complete(self.asked(kind)[0], Charged(id))

    def fail(self, kind: str = "pay.charge", **why: Any) -> None:
        self.world.fail(self.asked(kind)[0], **why)

    def waits(self, order: str = "o1") -> list[str]:
        return [each.what for each in self.run(order).waits]

    def replays(self) -> None:
        self.world.assert_replays()
