"""An app whose cells refuse: what they are sent, what other cells emit, and timers of their own."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from cellule import App, Refuse, Refused, Step, TimerFired, timer

app = App("till")


@app.event(key="till")
class Put(msgspec.Struct, frozen=True):
    till: str
    amount: int


@app.event(key="till")
class Take(msgspec.Struct, frozen=True):
    till: str
    amount: int


@app.event(key="till")
class Raise(msgspec.Struct, frozen=True):
    till: str


@app.event(key="till")
class RaiseRefuse(msgspec.Struct, frozen=True):
    till: str


@app.event(key="till")
class Move(msgspec.Struct, frozen=True):
    till: str
    to: str
    amount: int


@app.event(key="till")
class Wait(msgspec.Struct, frozen=True):
    till: str


@app.event(key="till")
class Break(msgspec.Struct, frozen=True):
    till: str


class Till(msgspec.Struct, frozen=True):
    amount: int = 0


class NotNow(Refused):
    """A refusal with a class of its own."""

    def __init__(self) -> None:
        super().__init__("not now", code="till.closed")


@app.reducer(emits=[Take], effects=[timer])
def till(
    state: Till | None, event: Put | Take | Raise | RaiseRefuse | Move | Wait | Break | TimerFired
) -> Till | Step[Till] | Refuse:
    now = state or Till()
    match event:
        case Put(amount=amount):
            return Till(now.amount + amount)
        case Take(amount=amount):
            if amount > now.amount:
                return Refuse(f"only {now.amount} left", code="till.short")
            return Till(now.amount - amount)
        case Raise():
            raise NotNow
        case RaiseRefuse():
            raise Refuse("not today", code="till.day")
        case Move(to=to, amount=amount):
            return Step(now, emit=[Take(to, amount)])
        case Wait():
            return Step(now, effects=[timer(after=timedelta(milliseconds=5))])
        case TimerFired():
            return Refuse("too late")
        case Break():
            raise ValueError("nobody meant this")
