"""A workflow with every kind of entry in its history; its lines are part of frozen bytes."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from cellule import App, CallFailed, Cancelled, Refuse, Step, Workflow

app = App("gold")


@app.event(key="run")
class Begun(msgspec.Struct, frozen=True):
    run: str
    number: int


@app.event(key="run")
class Word(msgspec.Struct, frozen=True):
    run: str
    number: int


@app.event(key="run")
class Told(msgspec.Struct, frozen=True):
    run: str


class Charge(msgspec.Struct, frozen=True):
    number: int


class Charged(msgspec.Struct, frozen=True):
    id: str


charge = app.effect("bank.charge", params=Charge, receipt=Charged)


@app.workflow(events=[Word], effects=[charge])
async def run(ctx: Workflow, begun: Begun, turn: int = 0) -> list[int]:
    paid = await ctx.effect(charge(Charge(begun.number))) if turn == 0 else Charged("before")
    ctx.publish({"paid": paid.id, "at": ctx.now.isoformat(), "id": str(ctx.uuid())})
    ctx.emit(Told(begun.run))
    try:
        first = await ctx.event(Word, timeout=timedelta(hours=1))
        await ctx.race(ctx.sleep(timedelta(minutes=30)), ctx.event(Word, where=lambda word: word.number > 9))
        await ctx.event(Word)
    except TimeoutError:
        return [turn]
    except Cancelled:
        await ctx.sleep(60)
        raise
    if turn == 0:
        ctx.again(begun, 1)
    return [first.number, turn]


@app.event(key="desk")
class Asked(msgspec.Struct, frozen=True):
    desk: str
    run: str


@app.event(key="run")
class Answered(msgspec.Struct, frozen=True):
    run: str


@app.event(key="run")
class Begged(msgspec.Struct, frozen=True):
    run: str


@app.reducer(emits=[Answered])
def desk(state: int | None, event: Asked) -> Step[int] | Refuse:
    if event.desk == "closed":
        return Refuse("it is closed")
    return Step((state or 0) + 1)


@app.workflow(events=[Answered])
async def begging(ctx: Workflow, begged: Begged) -> None:
    try:
        await ctx.call(Asked("closed", begged.run), Answered)
    except CallFailed:
        await ctx.call(Asked("open", begged.run), Answered)
