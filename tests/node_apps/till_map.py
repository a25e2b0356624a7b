"""Tills as one map of all: the same function in both files, for moving the one to the other."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from cellule import App, Step, TimerFired, timer

app = App("till")


@app.event(key="name")
class Paid(msgspec.Struct, frozen=True):
    name: str
    cents: int


class Sum(msgspec.Struct, frozen=True):
    total: int = 0


@app.reducer(effects=[timer], cell_mode=False)
def till(state: Sum | None, event: Paid | TimerFired) -> Step[Sum]:
    if isinstance(event, TimerFired):
        return Step(Sum(0))
    now = Sum((state or Sum()).total + event.cents)
    return Step(now, effects=[timer(after=timedelta(days=300), key="close")] if event.cents == 7 else [])
