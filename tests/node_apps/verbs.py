"""The app of the tests of hostile verbs: a cell that fails when told to, a schedule, and an enzyme."""

from __future__ import annotations

import sys
from datetime import timedelta

import msgspec

from cellule import App, EnzymeContext, Receipt, Refuse, Step

app = App("verbs")


class Errand(msgspec.Struct, frozen=True):
    what: str


run = app.effect("verbs.run", params=Errand, receipt=Errand)


@app.event(key="name")
class Told(msgspec.Struct, frozen=True):
    name: str
    fail: bool = False
    ask: bool = False
    refuse: bool = False
    leave: bool = False


class Count(msgspec.Struct, frozen=True):
    count: int = 0


app.schedule("hourly", every=timedelta(hours=1), event=Told("hourly"))


@app.reducer(effects=[run])
def counter(state: Count | None, event: Told | Receipt[Errand]) -> Step[Count] | Refuse:
    """Count what it is told, and nothing that it refuses."""
    if isinstance(event, Told) and event.refuse:
        return Refuse("told to refuse", code="verbs.told")
    if isinstance(event, Told) and event.leave:
        sys.exit("told to leave")
    if isinstance(event, Told) and event.fail:
        raise ValueError("told to fail")
    asked = [run(Errand("x"))] if isinstance(event, Told) and event.ask else []
    return Step(Count((state or Count()).count + 1), effects=asked)


@app.enzyme("/mark", match="prefix")
def mark(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    """Write down that it ran, and how often for what."""
    ctx.write("/marked", ctx.payload)
    if isinstance(ctx.payload, str):
        ctx.write(f"/marks/{ctx.payload}", (ctx.read(f"/marks/{ctx.payload}") or 0) + 1)
