"""A stock that one reducer without keys keeps in a dictionary, which one event fills."""

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


@app.reducer(keyed=False)
def item(state: dict[str, Item] | None, event: Filled | Counted) -> dict[str, Item]:
    items = dict(state or {})
    if isinstance(event, Filled):
        items |= {f"{event.name}{at}": Item(at) for at in range(event.count)}
    else:
        items[event.name] = Item(items.get(event.name, Item()).total + event.number)
    return items
