"""Orders that are charged: a customer knows what they asked for, and what was paid."""

from __future__ import annotations

import msgspec

from cellule import App, Receipt, Step

app = App("shop")


class Charge(msgspec.Struct, frozen=True):
    customer: str
    order: str
    cents: int


class Charged(msgspec.Struct, frozen=True):
    id: str


@app.event(key="customer")
class Ordered(msgspec.Struct, frozen=True):
    customer: str
    order: str
    cents: int


class Customer(msgspec.Struct, frozen=True):
    orders: int = 0
    paid: int = 0
    refused: int = 0
    asked: dict[str, int] = {}


charge = app.effect("shop.charge", params=Charge, receipt=Charged)


def settled(state: Customer, receipt: Receipt[Charged]) -> Step[Customer]:
    """What the bank said of an order."""
    if receipt.status != "ok":
        return Step(msgspec.structs.replace(state, refused=state.refused + 1))
    return Step(msgspec.structs.replace(state, paid=state.paid + state.asked.get(receipt.key or "", 0)))


def ordered(state: Customer, event: Ordered, cents: int) -> Customer:
    """A customer who asked for one more."""
    asked = {**state.asked, event.order: cents}
    return msgspec.structs.replace(state, orders=state.orders + 1, asked=asked)


@app.reducer(effects=[charge])
def customer(state: Customer | None, event: Ordered | Receipt[Charged]) -> Step[Customer]:
    seen = state or Customer()
    if isinstance(event, Receipt):
        return settled(seen, event)
    asked = charge(Charge(event.customer, event.order, event.cents), key=event.order)
    return Step(ordered(seen, event, event.cents), effects=[asked])
