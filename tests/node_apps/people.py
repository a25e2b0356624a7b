"""An app whose people can be erased, with everything that a cell can leave behind; texts go everywhere."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from cellule import App, Context, Receipt, Refuse, Step, TimerFired, timer

app = App("people")


@app.event(key="name")
class Said(msgspec.Struct, frozen=True):
    name: str
    text: str
    what: str = ""


@app.event(key="name")
class Met(msgspec.Struct, frozen=True):
    name: str
    text: str
    what: str = ""


@app.event(key="name")
class Heard(msgspec.Struct, frozen=True):
    name: str
    text: str


class Letter(msgspec.Struct, frozen=True):
    text: str


class Posted(msgspec.Struct, frozen=True):
    text: str


class Person(msgspec.Struct, frozen=True):
    text: str
    count: int = 0


class Count(msgspec.Struct, frozen=True):
    count: int = 0


post = app.effect("people.post", params=Letter, receipt=Posted)


@app.reducer(erasable=True, emits=[Heard], reply=str, effects=[post, timer])
def person(
    state: Person | None, event: Said | Met | Receipt[Posted] | TimerFired, ctx: Context
) -> Step[Person] | Refuse:
    count = 0 if state is None else state.count
    if isinstance(event, TimerFired):
        return Step(Person(f"late: {event.key}", count + 1))
    if isinstance(event, Receipt):
        return Step(Person(event.value.text if event.value else event.text, count + 1))
    effects = []
    match event.what:
        case "fail":
            raise ValueError(event.text)
        case "refuse":
            return Refuse(event.text)
        case "delete":
            return Step.delete(reply=event.text)
        case "post":
            effects = [post(Letter(event.text))]
        case "post once":
            effects = [post(Letter(event.text), key="one")]
        case "later":
            effects = [timer(after=timedelta(hours=1), key=event.text)]
    text = event.text * 100 if event.what == "long" else event.text
    return Step(
        Person(text, count + 1), emit=[Heard(event.name, text)], reply=event.text, ann=event.text,
        effects=effects,
    )  # fmt: skip


@app.reducer(erasable=True)
def friend(state: Person | None, event: Met | Heard) -> Person:
    return Person(event.text, 1 + (0 if state is None else state.count))


@app.reducer
def crowd(state: Count | None, event: Heard) -> Count:
    return Count(1 + (0 if state is None else state.count))
