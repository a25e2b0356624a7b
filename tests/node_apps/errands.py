"""The app of the simulation of effects: errands that are run outside, may need an approval, and time out.

Whoever asked may drop an errand: its cell takes back what it asked for.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec
from msgspec.structs import replace

from cellule import App, Receipt, Step, TimerFired
from cellule.app.rules import rule
from cellule.app.standard_effects import timer

app = App("errands")


class Errand(msgspec.Struct, frozen=True):
    name: str
    weight: int


class Ran(msgspec.Struct, frozen=True):
    by: str


run = app.effect("errands.run", params=Errand, receipt=Ran, timeout_s=2, attempts=4)
app.policy(rule(when="effect.kind == 'errands.run' && effect.params.weight > 8", then="require_approval"))


@app.event(key="name")
class Asked(msgspec.Struct, frozen=True):
    name: str
    weight: int


@app.event(key="name")
class Dropped(msgspec.Struct, frozen=True):
    name: str


class Job(msgspec.Struct, frozen=True):
    asked: int = 0
    dropped: int = 0
    receipts: int = 0
    timers: int = 0
    ended: tuple[str, ...] = ()


def keys_of(name: str) -> tuple[str, str]:
    """The keys of an errand and of its timer."""
    return f"errand {name}", f"late {name}"


@app.reducer(effects=[run, timer], open_max=3)
def job(state: Job | None, event: Asked | Dropped | Receipt[Ran] | TimerFired) -> Step[Job]:
    now = state or Job()
    match event:
        case Asked(name=name, weight=weight):
            errand, late = keys_of(name)
            ask = [run(Errand(name, weight), key=errand), timer(after=timedelta(seconds=weight), key=late)]
            return Step(replace(now, asked=now.asked + 1), effects=ask)
        case Dropped(name=name):
            return Step(replace(now, dropped=now.dropped + 1), cancel=[*keys_of(name)])
        case Receipt(status=status):
            return Step(replace(now, receipts=now.receipts + 1, ended=(*now.ended, status)))
        case TimerFired():
            return Step(replace(now, timers=now.timers + 1))
