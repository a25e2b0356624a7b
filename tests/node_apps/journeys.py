"""The app of the proof that workflows survive a kill: one charges, waits, asks, cleans up and begins anew.

What it notes depends on nothing but its code, so every journey of an uninterrupted node has the same notes.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from cellule import App, Cancelled, Step, Workflow
from cellule.app.standard_effects import http
from cellule.effects.http.params import HttpRequest

TURNS = 2
MOMENT = timedelta(milliseconds=10)

app = App("journeys")
app.grant("bank", effects=[http], hosts=["127.0.0.1:*"], methods=["POST"], private=True)


@app.event(key="trip")
class Booked(msgspec.Struct, frozen=True):
    trip: str
    url: str


@app.event(key="trip")
class Go(msgspec.Struct, frozen=True):
    trip: str


@app.event(key="trip")
class Never(msgspec.Struct, frozen=True):
    trip: str


@app.event(key="clerk")
class Ask(msgspec.Struct, frozen=True):
    clerk: str
    trip: str
    turn: int


@app.event(key="trip")
class Answer(msgspec.Struct, frozen=True):
    trip: str
    turn: int


@app.reducer(key={Ask: "clerk"})
def clerk(state: int | None, event: Ask) -> Step[int]:
    return Step((state or 0) + 1, emit=[Answer(event.trip, event.turn)])


@app.workflow(events=[Go, Never, Answer], effects=[http], grants=["bank"])
async def journey(ctx: Workflow, new: Booked, turn: int = 0, notes: tuple[str, ...] = ()) -> tuple[str, ...]:
    noted = [*notes, f"turn {turn}"]
    paid = await ctx.gather(pay(ctx, new, turn, "seat"), pay(ctx, new, turn, "bed"))
    noted += [*paid, await pay(ctx, new, turn, "hold")]
    held = ctx.spawn(released(ctx, new, turn))
    noted.append(f"no event: {await ctx.event(Never, timeout=MOMENT, default=None)}")
    answer = await ctx.call(Ask("clerk", new.trip, turn), Answer)
    noted.append(f"answer {answer.turn}")
    won = await ctx.race(ctx.sleep(MOMENT), ctx.event(Never))
    noted.append(f"race {won.at}")
    held.cancel()
    try:
        await held
    except Cancelled:
        noted.append("released")
    if turn + 1 < TURNS:
        ctx.again(new, turn + 1, tuple(noted))
    await ctx.event(Go)
    return (*noted, "gone")


async def pay(ctx: Workflow, new: Booked, turn: int, what: str) -> str:
    ask = HttpRequest(url=f"{new.url}/{new.trip}/{turn}/{what}", method="POST")
    answer = await ctx.effect(http(ask, slot="bank"))
    return f"{what} {answer.status}"


async def released(ctx: Workflow, new: Booked, turn: int) -> None:
    try:
        await ctx.event(Never)
    finally:
        await pay(ctx, new, turn, "release")
