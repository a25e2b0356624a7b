"""What handles answer: the outcome of an event, and a cell as of one height."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from msgspec import Struct

from cellule.errors import Rejected
from cellule.kernel.items import Stepped
from cellule.values.schema.annotations import shown_type
from cellule.values.words import type_name

S = TypeVar("S")
R = TypeVar("R")


class Applied(Struct, Generic[R], frozen=True):
    """The outcome of an event: where it stands in the journal, and what its cells made of it."""

    height: int
    id: str | bytes | UUID | None
    duplicate: bool
    steps: tuple[Stepped, ...]
    reply: R

    @property
    def etag(self) -> str | None:
        """The one cell of the event as its step left it, for `expected_version`; None for more, or none."""
        return self.steps[0].etag if len(self.steps) == 1 else None


@dataclass(frozen=True, slots=True)
class CellView(Generic[S]):
    """A cell as of one height."""

    state: S | None
    version: int
    born: int
    era: int
    active_ns: int
    height: int
    status: str
    reason: str
    queue: int
    size: int  # bytes of the state; of a log, all of it

    @property
    def etag(self) -> str:
        """This version of this incarnation of the cell: `expected_version=view.etag` sends to no other."""
        return f"{self.version}@{self.born}"


def check_reply_type(applied: Applied[Any], wanted: type[R]) -> Applied[R]:
    """Refuse a reply of another class than the caller asked for; the event is applied all the same."""
    if not isinstance(applied.reply, wanted):
        raise Rejected(
            "host.reply_type", "the reply is of type {found}, not {wanted}. The event was applied.",
            found=type_name(applied.reply), wanted=shown_type(wanted),
            hint="Ask for the class that stands in `@app.reducer(reply=...)`.",
        )  # fmt: skip
    return applied
