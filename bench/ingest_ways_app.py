"""The app of `ingest`'s ways to send: the account of `ingest_app`, each time with one thing more."""

from __future__ import annotations

import msgspec

from cellule import App, Step

app = App("benchways")


class Account(msgspec.Struct, frozen=True):
    balance: int
    times: int


def added(state: Account | None, amount: int) -> Account:
    """Read, add, write: what every reducer here does."""
    return Account(amount, 1) if state is None else Account(state.balance + amount, state.times + 1)


@app.event(key="account")
class Plain(msgspec.Struct, frozen=True):
    account: str
    amount: int


@app.reducer
def plain(state: Account | None, event: Plain) -> Step[Account]:
    return Step(added(state, event.amount))


@app.event(key="account")
class Asked(msgspec.Struct, frozen=True):
    account: str
    amount: int


@app.reducer(reply=int)
def replies(state: Account | None, event: Asked) -> Step[Account]:
    now = added(state, event.amount)
    return Step(now, reply=now.balance)


@app.event(key="account")
class Forwarded(msgspec.Struct, frozen=True):
    account: str
    amount: int


@app.event(key="account")
class Noted(msgspec.Struct, frozen=True):
    account: str
    amount: int


@app.reducer(emits=[Noted])
def emits(state: Account | None, event: Forwarded) -> Step[Account]:
    return Step(added(state, event.amount), emit=[Noted(event.account, event.amount)])


@app.reducer
def noted(state: Account | None, event: Noted) -> Step[Account]:
    return Step(added(state, event.amount))


@app.event(key="account")
class Shared(msgspec.Struct, frozen=True):
    account: str
    amount: int


@app.reducer
def first(state: Account | None, event: Shared) -> Step[Account]:
    return Step(added(state, event.amount))


@app.reducer
def second(state: Account | None, event: Shared) -> Step[Account]:
    return Step(added(state, event.amount))


@app.reducer
def third(state: Account | None, event: Shared) -> Step[Account]:
    return Step(added(state, event.amount))


@app.event(key="account")
class Numbered(msgspec.Struct, frozen=True):
    account: int
    amount: int


@app.reducer
def numbered(state: Account | None, event: Numbered) -> Step[Account]:
    return Step(added(state, event.amount))


@app.event(key="account")
class Large(msgspec.Struct, frozen=True):
    account: str
    amount: int
    text: str


class LargeAccount(msgspec.Struct, frozen=True):
    balance: int
    times: int
    text: str


@app.reducer
def large(state: LargeAccount | None, event: Large) -> Step[LargeAccount]:
    before = (0, 0) if state is None else (state.balance, state.times)
    return Step(LargeAccount(before[0] + event.amount, before[1] + 1, event.text))
