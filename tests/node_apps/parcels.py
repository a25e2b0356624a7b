"""Orders that call the cell of a parcel, which answers, refuses or breaks."""

from __future__ import annotations

import msgspec

from cellule import App, CallFailed, Refuse, Step, Workflow

app = App("parcels")


@app.event(key="order")
class Ordered(msgspec.Struct, frozen=True):
    order: str
    what: str


@app.event(key="parcel")
class Ship(msgspec.Struct, frozen=True):
    parcel: str
    order: str
    what: str


@app.event(key="order")
class Shipped(msgspec.Struct, frozen=True):
    order: str


@app.reducer(emits=[Shipped])
def parcel(state: int | None, event: Ship) -> Step[int] | Refuse:
    match event.what:
        case "refuse":
            return Refuse("too heavy")
        case "break":
            raise ValueError("the scale broke")
        case "keep":
            return Step((state or 0) + 1)
    return Step((state or 0) + 1, emit=[Shipped(event.order)])


@app.workflow(events=[Shipped])
async def order(ctx: Workflow, new: Ordered) -> str:
    try:
        await ctx.call(Ship("p1", new.order, new.what), Shipped)
    except CallFailed as failed:
        return f"{failed.status}: {failed.text}"
    return "shipped"
