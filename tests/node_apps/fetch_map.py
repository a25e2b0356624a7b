"""Pages that are fetched by an adapter which waits until it is let go, as one map of all."""

from __future__ import annotations

import asyncio

import msgspec

from cellule import App, Receipt, Step

app = App("fetch")
begun, let_go = asyncio.Event(), asyncio.Event()


class Get(msgspec.Struct, frozen=True):
    name: str


class Text(msgspec.Struct, frozen=True):
    text: str


@app.event(key="name")
class Wanted(msgspec.Struct, frozen=True):
    name: str


class Page(msgspec.Struct, frozen=True):
    text: str = ""


@app.adapter("fetch.get")
async def get(asked: Get) -> Text:
    begun.set()
    await let_go.wait()
    return Text(f"page {asked.name}")


@app.reducer(effects=[get], cell_mode=False)
def page(state: Page | None, event: Wanted | Receipt[Text]) -> Step[Page]:
    if isinstance(event, Wanted):
        return Step(Page(), effects=[get(Get(event.name))])
    return Step(Page(event.value.text if event.value else event.status))
