"""An app whose cells have a time to live, and may go before it is over."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from cellule.app import App, Retention, Step

app = App("brief")


@app.event(key="name")
class Poke(msgspec.Struct, frozen=True):
    name: str
    gone: bool = False


class Seen(msgspec.Struct, frozen=True):
    count: int = 0


@app.reducer(retention=Retention(ttl=timedelta(seconds=30)))
def visit(state: Seen | None, event: Poke) -> Step[Seen]:
    return Step.delete() if event.gone else Step(Seen((state or Seen()).count + 1))
