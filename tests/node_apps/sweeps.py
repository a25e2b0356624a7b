"""The app of the test of runs that wait: a sweep every hour, and its cell is busy for an hour and a half."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from cellule import App, Step, TimerFired
from cellule.app.standard_effects import timer

app = App("sweeps")


@app.event
class Swept(msgspec.Struct, frozen=True):
    full: bool = False


class Sweeps(msgspec.Struct, frozen=True):
    count: int = 0


app.schedule("hourly", every=timedelta(hours=1), event=Swept(), overlap="buffer")


@app.reducer(effects=[timer], keyed=False)
def sweeper(state: Sweeps | None, event: Swept | TimerFired) -> Step[Sweeps]:
    before = state or Sweeps()
    if isinstance(event, TimerFired):
        return Step(before)
    return Step(Sweeps(before.count + 1), effects=[timer(after=timedelta(minutes=90))])
