"""The app of the test with very many timers: cells that set as many alarms as they are told."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from cellule import App, Step, TimerFired
from cellule.app.standard_effects import timer

app = App("alarms")


@app.event(key="name")
class Set(msgspec.Struct, frozen=True):
    name: str
    first: int
    count: int


class Alarm(msgspec.Struct, frozen=True):
    fired: int = 0


@app.reducer(effects=[timer])
def alarm(state: Alarm | None, event: Set | TimerFired) -> Step[Alarm]:
    if isinstance(event, TimerFired):
        return Step(Alarm((state or Alarm()).fired + 1))
    span = range(event.first, event.first + event.count)
    return Step(state or Alarm(), effects=[timer(after=timedelta(seconds=60 + at * 7 % 977)) for at in span])
