"""The app that tests of the node run: accounts that count, ask, fail, pass on, and forget."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from msgspec.structs import replace

from cellule.app import App, Retention, Step

app = App("tally")


@app.event(key="account")
class Add(msgspec.Struct, frozen=True):
    account: str
    amount: int
    note: str = ""


@app.event(key="account")
class Ask(msgspec.Struct, frozen=True):
    account: str


@app.event(key="account")
class Fail(msgspec.Struct, frozen=True):
    account: str


@app.event(key="account")
class Pass(msgspec.Struct, frozen=True):
    account: str
    to: str
    hops: int


@app.event(key="account")
class Both(msgspec.Struct, frozen=True):
    account: str


@app.event(key="name")
class Poke(msgspec.Struct, frozen=True):
    name: str


@app.event(key="name")
class Keep(msgspec.Struct, frozen=True):
    name: str
    text: str


@app.event
class Unheard(msgspec.Struct, frozen=True):
    text: str


class Account(msgspec.Struct, frozen=True):
    total: int = 0
    count: int = 0


class Seen(msgspec.Struct, frozen=True):
    count: int = 0


@app.reducer(reply=int, emits=[Pass])
def account(state: Account | None, event: Add | Ask | Fail | Pass | Both) -> Step[Account]:
    now = state or Account()
    match event:
        case Add(amount=amount):
            return Step(Account(now.total + amount, now.count + 1), reply=now.total + amount)
        case Ask():
            return Step(now, reply=now.total)
        case Pass(to=to, account=here, hops=hops):
            more = [Pass(to, here, hops - 1)] if hops else []
            return Step(replace(now, count=now.count + 1), emit=more)
        case Both():
            return Step(replace(now, count=now.count + 1))
        case Fail():
            raise ValueError("told to fail")


@app.reducer
def audit(state: Seen | None, event: Both) -> Step[Seen]:
    return Step(Seen((state or Seen()).count + 1))


class Kept(msgspec.Struct, frozen=True):
    text: str


@app.reducer
def shelf(state: Kept | None, event: Keep) -> Step[Kept]:
    return Step(Kept(event.text))


@app.reducer(retention=Retention(ttl=timedelta(seconds=30)))
def brief(state: Seen | None, event: Poke) -> Step[Seen]:
    return Step(Seen((state or Seen()).count + 1))
