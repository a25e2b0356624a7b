"""An order is charged over HTTP, a person decides about large ones, and later the customer gets a letter.

Every order is a cell. The step below is the whole flow: it asks for what has to happen outside, and answers
come back to it as receipts, whenever that may be. It never waits, connects, or sees a password.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import assert_never

import msgspec
from msgspec.structs import replace

from cellule import App, Attempt, Effect, Receipt, Refuse, Step, TimerFired, http, rule, timer
from cellule.effects.http import HttpRequest, HttpResponse

OUTBOX = "SHOP_OUTBOX"  # the environment names the file that messages are appended to

app = App("shop")
app.grant("bank", effects=[http], hosts=["127.0.0.1:*"], methods=["POST"], private=True)
app.policy(
    rule(
        name="large amounts",
        when="effect.kind == 'http.request' && effect.params.json.cents > 100000",
        then="require_approval",
        reason="more than 1,000.00 is charged only after somebody looked at it",
        expires=timedelta(days=7),
    )
)


@app.event(key="order_id")
class Placed(msgspec.Struct, frozen=True):
    """An order; `bank` is where it is paid, `write_after` when the customer is asked how it was."""

    order_id: str
    cents: int
    bank: str
    write_after: timedelta = timedelta(days=3)


@app.event
class Finished(msgspec.Struct, frozen=True):
    """An order has come to its end, good or bad."""

    order_id: str
    status: str
    cents: int


class Order(msgspec.Struct, frozen=True):
    order_id: str
    cents: int
    write_after: timedelta
    status: str = "charging"
    charge_id: str = ""
    why: str = ""


class Takings(msgspec.Struct, frozen=True):
    finished: int = 0
    cents: int = 0


class Letter(msgspec.Struct, frozen=True):
    order_id: str
    text: str


class Written(msgspec.Struct, frozen=True):
    line: int


@app.adapter("shop.write", timeout_s=5, backoff_s=0.1)
async def write(params: Letter, attempt: Attempt) -> Written:
    """Write to a customer: here, append to a file."""
    entry = {"key": attempt.key, "order": params.order_id, "text": params.text}
    return Written(append_once(Path(os.environ[OUTBOX]), entry))


def append_once(outbox: Path, entry: dict[str, str]) -> int:
    """The line of the file that has this entry; one whose key is there already is not written again."""
    lines = outbox.read_text().splitlines() if outbox.exists() else []
    keys = [json.loads(line)["key"] for line in lines]
    if entry["key"] in keys:
        return keys.index(entry["key"]) + 1
    with outbox.open("a") as file:
        file.write(json.dumps(entry) + "\n")
    return len(keys) + 1


@app.reducer(effects=[http, timer, write], grants=["bank"], emits=[Finished])
def order(
    state: Order | None, event: Placed | Receipt[HttpResponse] | TimerFired | Receipt[Written]
) -> Step[Order] | Refuse:
    """Charge, wait, write."""
    match event:
        case Placed():
            if state is not None:
                return Refuse("the order was placed before", code="order.known")
            placed = Order(event.order_id, event.cents, event.write_after)
            return Step(placed, effects=[charge(event)])
        case _ if state is None:
            return Refuse("there is no such order", code="order.unknown")
        case Receipt() if http.is_receipt(event):
            return charged(state, event)
        case TimerFired():
            text = f"Your order {state.order_id} came three days ago. How was it?"
            letter = write(Letter(state.order_id, text), key=f"letter {state.order_id}")
            return Step(replace(state, status="writing"), effects=[letter])
        case Receipt():
            return ended(state, "done" if event.ok else "not written", event.text or "")
        case _:
            assert_never(event)


def charge(placed: Placed) -> Effect:
    """Ask the bank; the same key with every attempt, so that it charges once."""
    request = HttpRequest(
        method="POST",
        url=f"{placed.bank}/charges",
        headers={"Authorization": "Bearer ${secret:bank}"},
        json={"order": placed.order_id, "cents": placed.cents},
    )
    return http(request, key=f"charge {placed.order_id}")


def charged(state: Order, receipt: Receipt[HttpResponse]) -> Step[Order]:
    """Go on with what the bank, or the person who had to approve, said."""
    answer = receipt.value
    if answer is None:
        return ended(state, receipt.status, receipt.text or "")
    said = json.loads(answer.body or b"{}")
    if answer.status != 201:
        return ended(state, "declined", said.get("error", f"the bank answered {answer.status}"))
    paid = replace(state, status="paid", charge_id=said["charge"])
    return Step(paid, effects=[timer(after=state.write_after)])


def ended(state: Order, status: str, why: str) -> Step[Order]:
    finished = Finished(state.order_id, status, state.cents)
    return Step(replace(state, status=status, why=why), emit=[finished])


@app.reducer(keyed=False)
def takings(state: Takings | None, event: Finished) -> Step[Takings]:
    """Count the orders that came to an end, and what was earned."""
    now = state or Takings()
    earned = event.cents if event.status == "done" else 0
    return Step(Takings(now.finished + 1, now.cents + earned))
