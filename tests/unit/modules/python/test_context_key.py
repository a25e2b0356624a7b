"""`ctx.key` has the type that the key's field has in the event."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import msgspec
import pytest

from cellule import App, Context, Step
from cellule.testing import World


class Color(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Place(msgspec.Struct, frozen=True):
    shelf: str
    row: int


class Seen(msgspec.Struct, frozen=True):
    count: int = 0


VALUES = [
    "text", 7, b"\x00\x01", UUID(int=5), Color.RED, Level.HIGH, Decimal("1.5"), timedelta(seconds=90),
    datetime(2026, 1, 31, 12, tzinfo=UTC), ("a", 1), Place("s", 4),
]  # fmt: skip
TYPES: dict[Any, Any] = {tuple: tuple[str, int]}


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_key_is_of_its_events_type(value):
    kind = TYPES.get(type(value), type(value))
    event = msgspec.defstruct("Moved", [("name", str), ("key", kind)], frozen=True, module=__name__)

    def seen(state: Seen | None, moved: event, ctx: Context) -> Step[Seen]:
        found.append(ctx.key)
        return Step(Seen((state or Seen()).count + 1))

    seen.__annotations__["moved"] = event
    found: list[Any] = []
    app = App("a")
    app.event(key="key")(event)
    app.reducer(seen)
    world = World(app, live=True, guard=False)
    world.send(event("a", value))
    assert found == [value]
    assert type(found[0]) is type(value)
    assert world.state(seen, value) == Seen(1)
