"""The accounts and shelves of `tally`, and diaries that can be erased."""

from __future__ import annotations

import msgspec

from cellule.app import App, Step

app = App("diaries")


@app.event(key="account")
class Add(msgspec.Struct, frozen=True):
    account: str
    amount: int


@app.event(key="name")
class Keep(msgspec.Struct, frozen=True):
    name: str
    text: str


@app.event(key="name")
class Write(msgspec.Struct, frozen=True):
    name: str
    text: str


class Account(msgspec.Struct, frozen=True):
    total: int = 0
    count: int = 0


class Kept(msgspec.Struct, frozen=True):
    text: str


@app.reducer(reply=int)
def account(state: Account | None, event: Add) -> Step[Account]:
    now = state or Account()
    return Step(Account(now.total + event.amount, now.count + 1), reply=now.total + event.amount)


@app.reducer
def shelf(state: Kept | None, event: Keep) -> Step[Kept]:
    return Step(Kept(event.text))


@app.reducer(erasable=True, reply=str)
def diary(state: Kept | None, event: Write) -> Step[Kept]:
    return Step(Kept(event.text), reply=event.text, ann=event.text)
