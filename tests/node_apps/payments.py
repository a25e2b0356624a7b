"""The app of the proofs of effects: an order is charged over HTTP, waits a moment, and is done."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from msgspec.structs import replace

from cellule import App, Receipt, Step, TimerFired
from cellule.app.standard_effects import http, timer
from cellule.effects.http.params import HttpRequest, HttpResponse

app = App("payments")
app.grant("bank", effects=[http], hosts=["127.0.0.1:*"], methods=["POST"], private=True)


@app.event(key="order")
class Placed(msgspec.Struct, frozen=True):
    order: str
    url: str


class Order(msgspec.Struct, frozen=True):
    status: str
    charge: str = ""
    receipts: int = 0
    timers: int = 0


@app.reducer(effects=[http, timer], grants=["bank"])
def order(state: Order | None, event: Placed | Receipt[HttpResponse] | TimerFired) -> Step[Order]:
    match event:
        case Placed(order=name, url=url):
            ask = HttpRequest(url=f"{url}/charge/{name}", method="POST", json={"order": name})
            return Step(Order("placed"), effects=[http(ask, slot="bank")])
        case Receipt(status="ok", value=HttpResponse(status=200, body=body)):
            paid = Order("charged", (body or b"").decode(), state.receipts + 1)
            return Step(paid, effects=[timer(after=timedelta(milliseconds=20))])
        case Receipt():
            return Step(replace(state, status=f"{event.status}: {event.text}", receipts=state.receipts + 1))
        case TimerFired():
            return Step(replace(state, status="done", timers=state.timers + 1))
