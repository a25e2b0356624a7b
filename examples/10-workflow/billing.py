"""The subscriptions of `03-billing` as a workflow: the same life, written in the order in which it happens.

A charge every month, reminders when a card fails, refunds that a person approves. What the reducer keeps in
fields (status, month, tries, timers, refunds under way) is here where the code stands.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from itertools import count

import msgspec

from cellule import App, Attempt, EffectFailed, Failed, Workflow, rule

MONTH = timedelta(days=30)
REMIND_AFTER = (timedelta(days=3), timedelta(days=5), timedelta(days=7))  # then it waits for a new card
FREE_REFUND_CENTS = 2_000  # more than this needs a person

app = App("billing")
app.policy(
    rule(
        name="large refunds",
        when=f"effect.kind == 'billing.refund' && effect.params.cents > {FREE_REFUND_CENTS}",
        then="require_approval",
        reason="a person approves large refunds",
    )
)


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
class Ended(msgspec.Struct, frozen=True):
    customer: str


@app.event(key="customer")
class RefundAsked(msgspec.Struct, frozen=True):
    customer: str
    charge_id: str
    cents: int


class Account(msgspec.Struct, frozen=True):
    """What readers see of a subscription."""

    status: str
    charges: tuple[str, ...] = ()
    why: str = ""


class Charge(msgspec.Struct, frozen=True):
    card: str
    cents: int


class Charged(msgspec.Struct, frozen=True):
    charge_id: str


class Refund(msgspec.Struct, frozen=True):
    charge_id: str
    cents: int


@app.adapter("billing.charge", timeout_s=10)
async def charge(params: Charge, attempt: Attempt) -> Charged:
    """Charge a card; the same key is booked once."""
    if params.card.startswith("bad"):
        raise Failed("card.declined", f"card {params.card} was declined")
    return Charged(f"ch-{attempt.key}")


@app.adapter("billing.refund", timeout_s=10)
async def refund(params: Refund, attempt: Attempt) -> Refund:  # noqa: ARG001 - a bank would want its key
    """Give money back."""
    return params


# The workflow


@app.workflow(events=[CardChanged, Ended, RefundAsked], effects=[charge, refund])
async def subscription(ctx: Workflow, new: Subscribed) -> str:
    ctx.spawn(give_back(ctx))
    await ctx.race(ctx.event(Ended), bill(ctx, new))
    ctx.publish(Account("ended"))
    return f"{new.customer} left"


async def bill(ctx: Workflow, new: Subscribed) -> None:
    card, charges = new.card, list[str]()
    for month in count(1):
        pauses = iter(REMIND_AFTER)
        while len(charges) < month:
            try:
                charges.append((await ctx.effect(charge(Charge(card, new.cents)))).charge_id)
            except EffectFailed as failed:
                pause = next(pauses, None)
                status = "past due" if pause else "suspended"
                ctx.publish(Account(status, tuple(charges), failed.text))
                changed = await ctx.event(CardChanged, timeout=pause, default=None)
                card = changed.card if changed else card
        ctx.publish(Account("active", tuple(charges)))
        with suppress(TimeoutError):
            async with ctx.deadline(MONTH):
                while True:
                    card = (await ctx.event(CardChanged)).card


async def give_back(ctx: Workflow) -> None:
    while True:
        asked = await ctx.event(RefundAsked)
        ctx.effect(refund(Refund(asked.charge_id, asked.cents)))
