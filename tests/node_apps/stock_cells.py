"""The stock of `stock_map.py` with a cell for each item."""

from __future__ import annotations

import msgspec

from cellule import App

app = App("stock")


@app.event(key="name")
class Filled(msgspec.Struct, frozen=True):
    name: str
    count: int


@app.event(key="name")
class Counted(msgspec.Struct, frozen=True):
    name: str
    number: int


class Item(msgspec.Struct, frozen=True):
    total: int = 0


@app.reducer
def item(state: Item | None, event: Filled | Counted) -> Item:
    number = 0 if isinstance(event, Filled) else event.number
    return Item((state or Item()).total + number)
