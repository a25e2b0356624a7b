"""The app of the `ingest` and `growth` benchmarks: accounts that add up what comes in."""

from __future__ import annotations

import msgspec

from cellule import App, Step

app = App("bench")


@app.event(key="account")
class Added(msgspec.Struct, frozen=True):
    account: str
    amount: int


class Account(msgspec.Struct, frozen=True):
    balance: int
    times: int


@app.reducer
def account(state: Account | None, event: Added) -> Step[Account]:
    """Read, add, write."""
    if state is None:
        return Step(Account(event.amount, 1))
    return Step(Account(state.balance + event.amount, state.times + 1))


def key_of(number: int) -> str:
    """The key of an account."""
    return f"account-{number:08d}"
