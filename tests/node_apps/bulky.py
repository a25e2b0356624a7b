"""What fills frames and commits: long replies and notes, effects of a wide grant, timers, failing enzymes."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from cellule import App, Attempt, EnzymeContext, Receipt, Step, TimerFired, timer

app = App("bulky")
HOSTS = [f"host-{number}.example.com" for number in range(6_000)]


@app.event(key="cell")
class Ask(msgspec.Struct, frozen=True):
    cell: str
    size: int


@app.event(key="cell")
class Note(msgspec.Struct, frozen=True):
    cell: str
    size: int


@app.event(key="cell")
class Fetch(msgspec.Struct, frozen=True):
    cell: str
    count: int


@app.event(key="cell")
class Crawl(msgspec.Struct, frozen=True):
    cell: str
    count: int


@app.event(key="cell")
class Wait(msgspec.Struct, frozen=True):
    cell: str
    count: int


class Done(msgspec.Struct, frozen=True):
    count: int = 0


class Page(msgspec.Struct, frozen=True):
    url: str


class Read(msgspec.Struct, frozen=True):
    hosts: int


@app.adapter("bulky.read")
async def read(params: Page, attempt: Attempt) -> Read:
    return Read(len((attempt.grant or {}).get("hosts", ())))


app.grant("wide", effects=[read], hosts=HOSTS)
app.grant("narrow", effects=[read], hosts=HOSTS[:30])


@app.reducer(reply=str)
def tells(state: Done | None, event: Ask) -> Step[Done]:
    return Step(Done(1), reply="r" * event.size)


@app.reducer
def notes(state: Done | None, event: Note) -> Step[Done]:
    return Step(Done(1), ann={"note": "n" * event.size})


@app.reducer(effects=[read], grants=["wide"])
def fetches(state: Done | None, event: Fetch | Receipt[Read]) -> Step[Done]:
    if isinstance(event, Receipt):
        return Step(Done(event.value.hosts if event.value else 0))
    wanted = [read(Page(f"https://{HOSTS[number]}/")) for number in range(event.count)]
    return Step(Done(), effects=wanted)


@app.reducer(effects=[read], grants=["narrow"])
def crawls(state: Done | None, event: Crawl | Receipt[Read]) -> Step[Done]:
    if isinstance(event, Receipt):
        return Step(state or Done())
    return Step(Done(), effects=[read(Page(f"https://{HOSTS[0]}/{number}")) for number in range(event.count)])


@app.reducer(effects=[timer], erasable=True)
def waits(state: Done | None, event: Wait | TimerFired) -> Step[Done]:
    if isinstance(event, TimerFired):
        return Step(state or Done())
    wanted = [timer(after=timedelta(days=1), key=f"t{number}") for number in range(event.count)]
    return Step(Done(event.count), effects=wanted)


@app.enzyme("/bad", match="prefix")
def breaks(ctx: EnzymeContext, signal: str | None, target: str | None) -> None:
    raise ValueError("错" * 220)
