"""An app whose cells fail when they are told to: one that halts, and one that skips."""

from __future__ import annotations

import msgspec

from cellule import App

app = App("frail")


@app.event(key="name")
class Work(msgspec.Struct, frozen=True):
    name: str
    good: bool


@app.event(key="name")
class Try(msgspec.Struct, frozen=True):
    name: str


class Count(msgspec.Struct, frozen=True):
    count: int = 0


@app.reducer
def strict(state: Count | None, event: Work) -> Count:
    if not event.good:
        raise ValueError("told to fail")
    return Count((state or Count()).count + 1)


@app.reducer(failure="skip")
def lenient(state: Count | None, event: Try) -> Count:
    raise ValueError("always fails")
