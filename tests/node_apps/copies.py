"""A workflow and an effect that show their life as operations."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from cellule import App, Workflow

app = App("copies")


@app.event(key="id")
class Asked(msgspec.Struct, frozen=True):
    id: str


class Copied(msgspec.Struct, frozen=True):
    rows: int


@app.adapter("copies.copy", operation=True)
async def copy(params: Asked) -> Copied:
    return Copied(len(params.id))


app.grant("copying", effects=[copy], budget=(10, timedelta(hours=1)))


@app.workflow(effects=[copy], grants=["copying"], operation=True)
async def job(ctx: Workflow, asked: Asked) -> int:
    return (await ctx.effect(copy(asked, slot="copying"))).rows
