"""A workflow of a node: a trip is paid, waits for a month to begin, and is paid back if it does not."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from cellule import App, Workflow

app = App("trips")


@app.event(key="trip")
class Booked(msgspec.Struct, frozen=True):
    trip: str
    cents: int = 0


@app.event(key="trip")
class Begun(msgspec.Struct, frozen=True):
    trip: str
    parts: int = 1


class Charge(msgspec.Struct, frozen=True):
    trip: str
    cents: int


class Charged(msgspec.Struct, frozen=True):
    id: str


charge = app.effect("bank.charge", params=Charge, receipt=Charged)
refund = app.effect("bank.refund", params=Charge, receipt=Charged)


@app.workflow(events=[Begun], effects=[charge, refund])
async def trip(ctx: Workflow, booked: Booked) -> float:
    paid = await ctx.effect(charge(Charge(booked.trip, booked.cents)))
    ctx.publish({"paid": paid.id})
    try:
        begun = await ctx.event(Begun, timeout=timedelta(days=30))
    except BaseException:
        await ctx.effect(refund(Charge(booked.trip, booked.cents)))
        raise
    return booked.cents / begun.parts
