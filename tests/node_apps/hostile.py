"""An app whose steps raise what no step should, with objects that fail wherever they are touched."""

from __future__ import annotations

from typing import Any

import msgspec

from cellule.app import App
from cellule.modules.python import Step

app = App("hostile")


@app.event(key="cell")
class Do(msgspec.Struct, frozen=True):
    cell: str
    what: str = ""


class Count(msgspec.Struct, frozen=True):
    done: int


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit("no text")


class Text(str):  # noqa: SLOT000
    def __getitem__(self, at: object) -> str:
        raise SystemExit("no part")

    def __str__(self) -> str:
        raise SystemExit("no text")


class Odd(Exception):
    def __str__(self) -> str:
        return Text("odd")


class Posing(Exception):
    @property
    def __class__(self) -> type:
        raise SystemExit("no class")


class Key(str):  # noqa: SLOT000
    def __hash__(self) -> int:
        raise SystemExit("no hash")

    def __eq__(self, other: object) -> bool:
        raise SystemExit("no comparison")

    __len__ = __hash__


class Thing:
    def __repr__(self) -> str:
        raise SystemExit("no repr")


class Endless(Exception):
    def __str__(self) -> str:
        while True:
            if self is None:
                return ""


RAISED = {
    "exit": SystemExit, "generator": GeneratorExit, "interrupt": KeyboardInterrupt, "str": Exits, "odd": Odd,
    "posing": Posing, "endless": Endless,
}  # fmt: skip


@app.reducer
def worker(state: Count | None, event: Do) -> Step[Count]:
    if event.what in RAISED:
        raise RAISED[event.what]
    cancelled: list[Any] = {"key": [Key("k")], "thing": [Thing()]}.get(event.what, [])
    return Step(Count(1 if state is None else state.done + 1), cancel=cancelled)
