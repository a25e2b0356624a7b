"""Orders are placed, paid and shipped. Every order is a cell of its own, found by its id."""

from __future__ import annotations

from typing import assert_never

import msgspec
from msgspec.structs import replace

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


class Order(msgspec.Struct, frozen=True):
    total: int = 0
    paid: int = 0
    shipped: bool = False


@app.reducer(emits=[Shipped], reply=int)
def order(state: Order | None, event: Placed | Paid | Shipped) -> Step[Order] | Refuse:
    """Take an order through its life: it ships as soon as it is paid. Replies what is left to pay.

    Who pays too much is refused: nothing changes, and the order goes on.
    """
    now = state or Order()
    match event:
        case Placed(total=total):
            return Step(replace(now, total=total), reply=total - now.paid)
        case Paid(order_id=order_id, amount=amount):
            left = now.total - now.paid - amount
            if left < 0:
                return Refuse(f"paid {-left} too much", code="order.overpaid")
            ship = [Shipped(order_id)] if left == 0 else []
            return Step(replace(now, paid=now.paid + amount), emit=ship, reply=left)
        case Shipped():
            return Step(replace(now, shipped=True))
        case _:
            assert_never(event)
