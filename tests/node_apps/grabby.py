"""An app whose adapter does with its grant what it likes."""

from __future__ import annotations

import msgspec

from cellule import App, Attempt, Receipt, Step

app = App("grabby")


class Fetch(msgspec.Struct, frozen=True):
    url: str


class Fetched(msgspec.Struct, frozen=True):
    hosts: list[str]


@app.event(key="name")
class Asked(msgspec.Struct, frozen=True):
    name: str


@app.adapter("grabby.fetch")
async def fetch(params: Fetch, attempt: Attempt) -> Fetched:
    grant: dict[str, object] = attempt.grant  # type: ignore[assignment]
    hosts: list[str] = grant["hosts"]  # type: ignore[assignment]
    fetched = Fetched(list(hosts))
    hosts.append("other.example")
    grant["client"] = object()
    return fetched


app.grant("web", effects=[fetch], hosts=["api.example"])


@app.reducer(effects=[fetch], grants=["web"])
def grabber(state: list[str] | None, event: Asked | Receipt[Fetched]) -> Step[list[str]]:
    if isinstance(event, Asked):
        return Step(["asked"], effects=[fetch(Fetch("https://api.example/"))])
    return Step(["failed", str(event.text)] if event.value is None else event.value.hosts)
