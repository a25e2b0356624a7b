"""One process, written in every style: an order is charged, shipped, and its customer gets a letter.

Every event goes to all of them, so they live side by side in one world. `cellule module build order.c` adds
the one in C.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from cellule import App, EffectFailed, Receipt, Refuse, Step, Workflow

app = App("shop")
BUILT = Path(__file__).with_name("order.wasm")


@app.event(key="order_id")
class Placed(msgspec.Struct, frozen=True):
    """A customer has ordered."""

    order_id: str
    shop: str
    cents: int


@app.event(key="order_id")
class Shipped(msgspec.Struct, frozen=True):
    """The parcel has left."""

    order_id: str
    parcel: str


class Charge(msgspec.Struct, frozen=True):
    """What the bank is told."""

    order_id: str
    cents: int


class Charged(msgspec.Struct, frozen=True):
    """What the bank answers."""

    reference: str


class Letter(msgspec.Struct, frozen=True):
    """What the customer is told."""

    order_id: str
    parcel: str


class Sent(msgspec.Struct, frozen=True):
    """The letter is on its way."""


class Order(msgspec.Struct, frozen=True):
    """What the reducer and the module in C keep."""

    status: str
    cents: int
    reference: str = ""
    parcel: str = ""


charge = app.effect("shop.charge", params=Charge, receipt=Charged)
letter = app.effect("shop.letter", params=Letter, receipt=Sent)


@app.reducer(effects=[charge, letter])
def in_python(
    state: Order | None, event: Placed | Shipped | Receipt[Charged] | Receipt[Sent]
) -> Step[Order] | Refuse:
    """The order as a reducer: what is true of it, and what to do next, by the event that comes."""
    if isinstance(event, Placed):
        if state is not None:
            return Refuse("the order is placed already", code="order.placed")
        asked = charge(Charge(event.order_id, event.cents))
        return Step(Order("charging", event.cents), effects=[asked])
    if state is None or (isinstance(event, Shipped) and state.status != "paid"):
        return Refuse("the order is not paid", code="order.not_paid")
    if isinstance(event, Shipped):
        sending = msgspec.structs.replace(state, status="sending", parcel=event.parcel)
        return Step(sending, effects=[letter(Letter(event.order_id, event.parcel))])
    if state.status == "sending":
        return Step(msgspec.structs.replace(state, status="done"))
    if event.status != "ok" or not isinstance(event.value, Charged):
        return Step(msgspec.structs.replace(state, status="unpaid"))
    return Step(msgspec.structs.replace(state, status="paid", reference=event.value.reference))


@app.workflow(events=[Shipped], effects=[charge, letter])
async def in_workflow(ctx: Workflow, new: Placed) -> Order:
    """The order as a workflow: from the first line to the last, however long that takes."""
    order = Order("charging", new.cents)
    ctx.publish(order)
    try:
        charged = await ctx.effect(charge(Charge(new.order_id, new.cents)))
    except EffectFailed:
        return msgspec.structs.replace(order, status="unpaid")
    order = msgspec.structs.replace(order, status="paid", reference=charged.reference)
    ctx.publish(order)
    shipped = await ctx.event(Shipped)
    order = msgspec.structs.replace(order, status="sending", parcel=shipped.parcel)
    ctx.publish(order)
    with suppress(EffectFailed):  # a lost letter changes nothing
        await ctx.effect(letter(Letter(new.order_id, shipped.parcel)))
    return msgspec.structs.replace(order, status="done")


in_fsm = app.fsm("order.fsm.yaml", name="in_fsm")
in_plan = app.plan("in_plan", "order.plan.yaml", triggers={Placed: "order_id"})
if BUILT.exists():
    in_c = app.wasm("in_c", BUILT, Placed, Shipped, state=Order, effects=[charge, letter], fuel=1_000_000)

sales = app.aggregate(
    "sales", Placed, measures={"orders": "count", "cents": "sum(cents)"}, by="shop"
)  # what all orders of a shop come to
