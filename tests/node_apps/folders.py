"""An app whose values link what may be stored, or not."""

from __future__ import annotations

import msgspec

from cellule.app import App, Step
from cellule.values.link import Link

app = App("folders")


@app.event(key="name")
class Filed(msgspec.Struct, frozen=True):
    name: str
    file: Link
    text: str = ""


class Folder(msgspec.Struct, frozen=True):
    files: list[Link]
    text: str = ""


@app.reducer
def folder(state: Folder | None, event: Filed) -> Step[Folder]:
    if event.text == "fail":
        raise ValueError("told to fail")
    return Step(Folder([*(state.files if state else []), event.file], event.text))
