"""An app whose values link what may be stored, or not."""

from __future__ import annotations

import msgspec

from cellule.app import App, Receipt, Step
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


copy = app.effect("folders.copy", params=Filed, receipt=Folder)


@app.reducer(effects=[copy])
def folder(state: Folder | None, event: Filed | Receipt[Folder]) -> Step[Folder]:
    if isinstance(event, Receipt):
        return Step(state)
    if event.text == "fail":
        raise ValueError("told to fail")
    asked = [copy(event)] if event.text == "copy" else []
    return Step(Folder([*(state.files if state else []), event.file], event.text), effects=asked)
