"""The app of the command-line tests: orders that ship when paid, and modules with other keys or none."""

from __future__ import annotations

from typing import Literal

import msgspec

from cellule import App, Refuse, Step

app = App("shop")


@app.event(key="order_id")
class Placed(msgspec.Struct, frozen=True):
    order_id: str
    total: int


@app.event(key="order_id")
class Paid(msgspec.Struct, frozen=True):
    order_id: str
    amount: int


@app.event(key="order_id")
class Shipped(msgspec.Struct, frozen=True):
    order_id: str


@app.event(key="order_id")
class Returned(msgspec.Struct, frozen=True):
    order_id: str


@app.event(key="number")
class Counted(msgspec.Struct, frozen=True):
    number: int


@app.event(key="name")
class Dropped(msgspec.Struct, frozen=True):
    name: str


class Order(msgspec.Struct, frozen=True):
    total: int
    paid: int = 0
    status: Literal["open", "paid", "shipped"] = "open"


class Count(msgspec.Struct, frozen=True):
    count: int


@app.reducer(emits=[Shipped], reply=str)
def order(state: Order | None, event: Placed | Paid | Shipped | Returned) -> Step[Order] | Refuse:
    match event:
        case Placed(total=total):
            return Step(Order(total), reply="placed")
        case Paid(order_id=order_id, amount=amount):
            if state is None:
                raise ValueError("there is no such order")
            paid = state.paid + amount
            if paid < state.total:
                return Step(msgspec.structs.replace(state, paid=paid), reply="more, please")
            shipped = [Shipped(order_id)]
            return Step(
                msgspec.structs.replace(state, paid=paid, status="paid"), emit=shipped, reply="thanks"
            )
        case Returned():
            return Refuse("nothing was shipped", code="shop.not_shipped")
        case Shipped():
            assert state is not None
            return Step(msgspec.structs.replace(state, status="shipped"))


@app.reducer(keyed=False)
def parcels(state: Count | None, event: Shipped) -> Step[Count]:
    return Step(Count(1 if state is None else state.count + 1))


@app.reducer
def tally(state: Count | None, event: Counted) -> Step[Count]:
    return Step(Count(1 if state is None else state.count + 1))


@app.reducer(failure="skip")
def fragile(state: Count | None, event: Dropped) -> Step[Count]:
    raise ValueError("it broke")
