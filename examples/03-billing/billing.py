"""Subscriptions: a charge every month, reminders when a card fails, refunds that a person approves.

Every customer is a cell. The reducer is the whole life of a subscription: it asks for charges and timers, and
what comes of them is its next event. Nobody has to run a nightly job, and no month is charged twice: whatever
became of a try, the bank knows the next one by the same customer and month.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, assert_never

import bank
import msgspec
from msgspec.structs import replace

from cellule import App, Attempt, Failed, Receipt, Refuse, Retry, Step, TimerFired, rule, timer

MONTH = timedelta(days=30)
REMIND_AFTER = (timedelta(days=3), timedelta(days=5), timedelta(days=7))  # then the account is suspended
FREE_REFUND_CENTS = 2_000  # more than this needs a person

app = App("billing")
app.policy(
    rule(
        name="large refunds",
        when=f"effect.kind == 'billing.refund' && effect.params.cents > {FREE_REFUND_CENTS}",
        then="require_approval",
        reason="a person approves large refunds",
        expires=timedelta(days=14),
    )
)


# What happens


@app.event(key="customer")
class Subscribed(msgspec.Struct, frozen=True):
    customer: str
    card: str
    cents: int  # a month


@app.event(key="customer")
class CardChanged(msgspec.Struct, frozen=True):
    customer: str
    card: str


@app.event(key="customer")
class Cancelled(msgspec.Struct, frozen=True):
    customer: str


@app.event(key="customer")
class RefundAsked(msgspec.Struct, frozen=True):
    customer: str
    charge_id: str
    cents: int


# What is kept


class Charged(msgspec.Struct, frozen=True):
    charge_id: str
    month: int
    cents: int


class Refund(msgspec.Struct, frozen=True):
    charge_id: str
    cents: int


class Invoice(msgspec.Struct, frozen=True):
    month: int
    cents: int
    charge_id: str
    refunded: int = 0  # cents, asked for or done


Status = Literal["charging", "active", "past due", "suspended", "cancelled"]


class Account(msgspec.Struct, frozen=True):
    customer: str
    card: str
    cents: int
    status: Status
    month: int = 1  # the one that is charged, or was last
    tries: int = 0  # for this month
    invoices: tuple[Invoice, ...] = ()
    refunds: dict[str, Refund] = {}  # under way, by the keys of their effects
    refunds_asked: int = 0  # so that each has a key of its own
    why: str = ""


# What is done outside


class Charge(msgspec.Struct, frozen=True):
    customer: str
    month: int
    card: str
    cents: int


class Refunded(msgspec.Struct, frozen=True):
    charge_id: str
    cents: int


@app.adapter("billing.charge", timeout_s=10)
async def charge(params: Charge) -> Charged:
    """Charge a card; a bank that is away is asked again, a card that is refused is not.

    The bank gets the same key for every try of a month, so one whose answer was lost is not booked again.
    """
    key = f"{params.customer} month {params.month}"
    try:
        charge_id = await bank.charge(key, params.card, params.cents)
    except bank.Declined as error:
        raise Failed("card.declined", str(error)) from error
    except bank.Busy as error:
        raise Retry(str(error)) from error
    return Charged(charge_id, params.month, params.cents)


@app.adapter("billing.refund", timeout_s=10)
async def refund(params: Refund, attempt: Attempt) -> Refunded:
    """Give money back; the key is the same for every attempt, and when somebody sends it once more."""
    await bank.refund(attempt.key, params.charge_id, params.cents)
    return Refunded(params.charge_id, params.cents)


# What a customer's account does


@app.reducer(effects=[charge, refund, timer], reply=str)
def account(
    state: Account | None,
    event: Subscribed
    | CardChanged
    | Cancelled
    | RefundAsked
    | Receipt[Charged]
    | Receipt[Refunded]
    | TimerFired,
) -> Step[Account] | Refuse:
    """One step in the life of a subscription."""
    if isinstance(event, Subscribed):
        return subscribed(state, event)
    if state is None:
        return Refuse("there is no such customer", code="unknown")
    if charge.is_receipt(event):
        return paid(state, event.value) if event.value else not_paid(state, event.text or event.status)
    if refund.is_receipt(event):
        return refunded(state, event)
    match event:
        case CardChanged(card=card):
            return card_changed(replace(state, card=card))
        case Cancelled():
            return cancelled(state)
        case RefundAsked():
            return refund_asked(state, event)
        case TimerFired():
            return due(state)
        case _:
            assert_never(event)


def subscribed(state: Account | None, event: Subscribed) -> Step[Account] | Refuse:
    if state is not None and state.status != "cancelled":
        return Refuse(f"{event.customer} has a subscription already", code="exists")
    if event.cents <= 0:
        return Refuse("a subscription costs something", code="amount")
    if state is None:
        return charged(Account(event.customer, event.card, event.cents, "charging"))
    return charged(replace(state, card=event.card, cents=event.cents, month=state.month + 1, tries=0))


def charged(state: Account) -> Step[Account]:
    """Ask for this month's money; every try is a request of its own, so that a new card counts."""
    state = replace(state, status="charging", tries=state.tries + 1)
    wanted = Charge(state.customer, state.month, state.card, state.cents)
    return Step(state, effects=[charge(wanted)], reply=state.status)


def paid(state: Account, done: Charged) -> Step[Account]:
    if any(each.month == done.month for each in state.invoices):
        return Step(state)  # an operator asked once more for a month that was paid
    invoice = Invoice(done.month, done.cents, done.charge_id)
    state = replace(state, invoices=(*state.invoices, invoice))
    if state.status == "cancelled" or done.month != state.month:
        return Step(state)  # it was paid while the customer left
    state = replace(state, status="active", tries=0, why="")
    return Step(state, effects=[timer(after=MONTH, key="bill")])


def not_paid(state: Account, why: str) -> Step[Account]:
    """The card failed: try again in some days, a few times."""
    if state.status != "charging":
        return Step(state)
    if state.tries > len(REMIND_AFTER):
        return Step(replace(state, status="suspended", why=why))
    pause = REMIND_AFTER[state.tries - 1]
    return Step(replace(state, status="past due", why=why), effects=[timer(after=pause, key="bill")])


def due(state: Account) -> Step[Account]:
    """The month is over, or it is time to try the card again."""
    match state.status:
        case "active":
            return charged(replace(state, month=state.month + 1, tries=0))
        case "past due":
            return charged(state)
        case "charging" | "suspended" | "cancelled":
            return Step(state)


def card_changed(state: Account) -> Step[Account]:
    """A new card is tried at once where the old one failed; the reminder is not needed any more."""
    if state.status not in ("past due", "suspended"):
        return Step(state, reply=state.status)
    step = charged(state)
    return Step(step.state, effects=step.effects, cancel=["bill"], reply=state.status)


def cancelled(state: Account) -> Step[Account] | Refuse:
    if state.status == "cancelled":
        return Refuse("the subscription is cancelled already", code="cancelled")
    return Step(replace(state, status="cancelled"), cancel=["bill"], reply="cancelled")


def refund_asked(state: Account, event: RefundAsked) -> Step[Account] | Refuse:
    found = [each for each in state.invoices if each.charge_id == event.charge_id]
    if not found:
        return Refuse(f"{event.customer} never paid {event.charge_id}", code="unknown")
    if not 0 < event.cents <= found[0].cents - found[0].refunded:
        left = found[0].cents - found[0].refunded
        return Refuse(f"{left} of {event.charge_id} can be given back, not {event.cents}", code="amount")
    key = f"{event.customer} refund {state.refunds_asked + 1}"
    wanted = Refund(event.charge_id, event.cents)
    state = given_back(state, event.charge_id, event.cents)
    state = replace(state, refunds={**state.refunds, key: wanted}, refunds_asked=state.refunds_asked + 1)
    return Step(state, effects=[refund(wanted, key=key)], reply="asked")


def refunded(state: Account, receipt: Receipt[Refunded]) -> Step[Account]:
    """A refund is done, or it was denied: then the money can be asked for again."""
    wanted = state.refunds.get(receipt.key or "")
    if wanted is None:  # it had failed, and an operator sent it once more
        done = receipt.value
        return Step(given_back(state, done.charge_id, done.cents) if done else state)
    left = {key: each for key, each in state.refunds.items() if key != receipt.key}
    state = replace(state, refunds=left)
    return Step(state if receipt.ok else given_back(state, wanted.charge_id, -wanted.cents))


def given_back(state: Account, charge_id: str, cents: int) -> Account:
    invoices = tuple(
        replace(each, refunded=each.refunded + cents) if each.charge_id == charge_id else each
        for each in state.invoices
    )
    return replace(state, invoices=invoices)
