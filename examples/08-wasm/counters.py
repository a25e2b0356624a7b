"""The same counter in Python, C and AssemblyScript, side by side in one world: every event goes to all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from cellule import App, Refuse, Step


class Added(msgspec.Struct, frozen=True):
    id: str
    by: int
    note: str = ""


class Cleared(msgspec.Struct, frozen=True):
    id: str


class Reached(msgspec.Struct, frozen=True):
    id: str
    total: int


class Count(msgspec.Struct, frozen=True):
    total: int
    events: int
    mean: float
    last: str


def in_python(state: Count | None, event: Added | Cleared) -> Step[Count] | Refuse:
    if isinstance(event, Cleared):
        return Step.delete()
    before = state.total if state else 0
    total, events = before + event.by, (state.events if state else 0) + 1
    if total < 0:
        return Refuse("the total would be below zero", code="counters.below_zero")
    reached = [Reached(event.id, total)] if before < 100 <= total else []
    return Step(Count(total, events, total / events, event.note), reply=total, emit=reached)


def counters(modules: Mapping[str, Path]) -> App:
    """An app with the counter in Python, and one for each name and built module given."""
    app = App("counters")
    for event in (Added, Cleared, Reached):
        app.event(key="id")(event)
    app.reducer(emits=[Reached])(in_python)
    for name, path in modules.items():
        app.wasm(name, path, Added, Cleared, state=Count, reply=int, emits=[Reached], fuel=100_000)
    return app
