"""The app of the tests about effects: orders that charge a card, ask a person, wait for timers, and fail."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

import msgspec

from cellule import App, Receipt, Step, TimerFired
from cellule.app.effects import timer
from cellule.app.rules import rule
from cellule.effects.adapter import Attempt
from cellule.effects.outcomes import Failed, Later, Retry

app = App("pay")
TOKENS: dict[str, str] = {}  # by order, of charges that somebody outside completes


class Charge(msgspec.Struct, frozen=True):
    order: str
    cents: int
    token: str = "Bearer ${secret:bank}"


class Charged(msgspec.Struct, frozen=True):
    id: str


class Mail(msgspec.Struct, frozen=True):
    to: str


class Sent(msgspec.Struct, frozen=True):
    id: str


@app.event(key="order")
class Placed(msgspec.Struct, frozen=True):
    order: str
    cents: int
    how: str = "charge"


@app.event(key="list")
class Mailed(msgspec.Struct, frozen=True):
    list: str


@app.event
class Audited(msgspec.Struct, frozen=True):
    note: str


class Order(msgspec.Struct, frozen=True):
    status: str
    charge: str = ""


class Audits(msgspec.Struct, frozen=True):
    count: int


mail = app.effect("pay.mail", params=Mail, receipt=Sent)


async def _exit() -> None:
    sys.exit("one of its tasks has enough")


async def _goes_on() -> None:
    """As a client does that takes its cancellation for one more error."""
    while True:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            continue


@app.adapter("pay.charge", attempts=3, backoff_s=0.01, backoff_max_s=0.02)
async def charge(params: Charge, attempt: Attempt) -> Charged:
    token = await attempt.secrets.resolve(params.token)
    attempt.note(f"charging {params.order} with {token}")
    if params.order.startswith("broke"):
        raise Failed("pay.refused", f"the bank says no to {token}")
    if params.order.startswith("tired"):
        raise RuntimeError(f"{token} did not work")
    if params.order.startswith("later"):
        attempt.progress({"asked": attempt.number, "with": token})
        raise Retry(f"{token} is busy", after_s=3600)
    if params.order.startswith("exit"):
        sys.exit("the adapter has enough")
    if params.order.startswith("child"):
        await asyncio.create_task(_exit())
    if params.order.startswith("odd"):
        raise Retry("busy", after_s="5")  # type: ignore[arg-type]
    if params.order.startswith("outside"):
        TOKENS[params.order] = attempt.token
        raise Later(timeout_s=3 * 86_400)
    if params.order.startswith("stubborn"):
        await asyncio.gather(_goes_on(), _goes_on())
    if params.order.startswith("hold"):
        await asyncio.Event().wait()
    return Charged(f"ch-{params.order}-{attempt.number}")


app.policy(
    rule(
        when='effect.kind == "pay.charge" && effect.params.cents > 1000', then="require_approval",
        reason="more than 10 EUR", name="large sums",
    ),
    rule(when='effect.kind == "pay.charge" && effect.params.cents < 0', then="deny", reason="no gifts"),
)  # fmt: skip
app.schedule("nightly", cron="30 2 * * *", zone="Europe/Berlin", event=Audited("night"))
app.schedule("often", every=timedelta(hours=6), event=Audited("often"), jitter=timedelta(minutes=5))


@app.reducer(effects=[charge, mail, timer])
def order(state: Order | None, event: Placed | Receipt[Charged] | Receipt[Sent] | TimerFired) -> Step[Order]:
    match event:
        case Placed(how="mail"):
            return Step(Order("mailing"), effects=[mail(Mail(event.order))])
        case Placed(how="timer"):
            return Step(Order("resting"), effects=[timer(after=timedelta(days=3), key="nap")])
        case Placed():
            asked = charge(Charge(event.order, event.cents), key=event.order)
            return Step(Order("placed"), effects=[asked])
        case Receipt():
            found = event.value.id if event.value is not None else ""
            return Step(Order(f"{event.kind} {event.status}", found))
        case TimerFired():
            return Step(Order("rested"))


@app.reducer(effects=[mail], open_max=1)
def mailing(state: Order | None, event: Mailed) -> Step[Order]:
    return Step(Order("mailing"), effects=[mail(Mail(event.list))])


@app.reducer(keyed=False)
def audits(state: Audits | None, event: Audited) -> Step[Audits]:
    return Step(Audits(1 if state is None else state.count + 1))
