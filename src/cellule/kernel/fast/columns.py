"""Laying out a whole beat at once, column by column, where its events are all alike.

They are of one schema, and each goes to a cell of its own that changed lately and has nothing but its state.
That is what a world under load mostly sees, and what costs it most: a column takes half the time of as many
turns of a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, Final

from cellule.kernel.fast.schema_route import Row, SchemaRoute
from cellule.kernel.journal.writer import LINK_MARK, RECORD_BYTES, FrameWriter
from cellule.kernel.limits import FRAME_BYTES_ADMIT
from cellule.kernel.manifest.event_routes import UNREADABLE
from cellule.values.cbor import decode_linked

_EXTRAS: Final = attrgetter("extras")


def lay_columns(
    items: Sequence[Any], route: SchemaRoute, writer: FrameWriter
) -> tuple[list[Row], bytes, int] | None:
    """The rows of plain events, their records, and the size of the frame; None if they are not alike."""
    schemas, values, fields = zip(*items, strict=True)
    try:
        if None in fields:
            fields = tuple(map(decode_linked, values))
        keys = [each[route.field].encode() for each in fields]
    except UNREADABLE:
        return None
    if len(set(keys)) < len(keys) or schemas.count(route.schema) < len(items):
        return None
    entries: list[Any] = list(map(route.recent.get, keys))
    if not all(entries) or any(map(_EXTRAS, entries)) or not route.cells.slots.keys().isdisjoint(keys):
        return None
    size = writer.size + len(items) * RECORD_BYTES + sum(map(len, values)) + sum(map(len, keys))
    if size >= FRAME_BYTES_ADMIT or LINK_MARK in b"".join(values):
        return None
    size += route.begin(writer)
    assert route.events is not None
    heights = range(writer.start, writer.start + len(items))
    rows = list(zip(heights, repeat(route), keys, entries, values, fields))
    return rows, route.events.encode(values, keys), size
