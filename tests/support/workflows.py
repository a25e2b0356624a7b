"""The classes of a small shop, and worlds of one workflow, for tests that write workflows in functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cellule import App, Refuse, Step
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


class Asked(msgspec.Struct, frozen=True):
    clerk: str
    order: str
    what: str


class Answered(msgspec.Struct, frozen=True):
    order: str
    clerk: str


class Nudged(msgspec.Struct, frozen=True):
    clerk: str
    what: str


EVENTS = (Placed, Paid, Stopped, Told)


def declare_clerk(app: App) -> None:
    """What a workflow calls: it answers, refuses, fails, is silent or is deleted, at once or when nudged."""
    for event, key in ((Asked, "clerk"), (Answered, "order"), (Nudged, "clerk")):
        app.event(key=key)(event)

    @app.reducer(emits=[Answered], failure="skip")
    def clerk(state: list[str] | None, event: Asked | Nudged) -> Step[list[str]] | Refuse:
        waiting = list(state or [])
        if isinstance(event, Asked):
            waiting.append(event.order)
        match event.what:
            case "refuse":
                return Refuse("not today", code="clerk.refuses")
            case "fail":
                raise ValueError("no pen")
            case "delete":
                return Step.delete()
            case "answer":
                return Step([], emit=[Answered(each, event.clerk) for each in waiting])
        return Step(waiting)


class Shop:
    """An app of one workflow, and its world; prove what a test did with `replays()`."""

    def __init__(
        self, function: Callable[..., Any], *, events: Any = (Paid, Stopped), evict: bool = False,
        policy: Any = None, calls: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        self.app = App("shop")
        for event in EVENTS:
            self.app.event(key="order")(event)
        self.charge = self.app.effect("pay.charge", params=Charge, receipt=Charged)
        self.refund = self.app.effect("pay.refund", params=Charge, receipt=Charged)
        if calls:
            declare_clerk(self.app)
            events = (*events, Answered)
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
