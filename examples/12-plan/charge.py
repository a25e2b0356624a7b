"""Orders that a plan charges: the reducer keeps the order, the plan does the work around it."""

from __future__ import annotations

import msgspec

from cellule import App, Step

app = App("shop")


@app.event(key="order_id")
class ChargeRequested(msgspec.Struct, frozen=True):
    """The customer has ordered."""

    order_id: str
    cents: int


@app.event(key="order_id")
class PaymentApplied(msgspec.Struct, frozen=True):
    """The plan has the money."""

    order_id: str


@app.event(key="order_id")
class Shipped(msgspec.Struct, frozen=True):
    """The parcel has left."""

    order_id: str
    parcel: str


class Order(msgspec.Struct, frozen=True):
    """An order."""

    cents: int
    paid: bool = False


class Charge(msgspec.Struct, frozen=True):
    """What the bank is told."""

    order_id: str
    cents: int


class Charged(msgspec.Struct, frozen=True):
    """What the bank answers."""

    reference: str


app.effect("payments.charge", params=Charge, receipt=Charged)


@app.reducer
def order(state: Order | None, event: ChargeRequested | PaymentApplied) -> Step[Order]:
    """Keep what is ordered and whether it is paid."""
    if isinstance(event, ChargeRequested):
        return Step(Order(event.cents))
    return Step(Order(state.cents if state else 0, paid=True))


charge_flow = app.plan("charge_flow", "charge.yaml", triggers={ChargeRequested: "order_id"})
