"""Where the events of one schema go in a beat, and how their records are put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cellule.kernel.journal.rows import EventEncoder, event_encoder
from cellule.kernel.journal.writer import FrameWriter
from cellule.kernel.manifest.model import Module
from cellule.kernel.program import StepFunction
from cellule.kernel.state.cells import Entry
from cellule.kernel.state.module_cells import Cells


@dataclass(slots=True)
class SchemaRoute:
    """The way of one schema's events to one module.

    `step` is the way of their module, None where the batch cannot take its steps. `taken` has the position of
    the row of each cell, for all schemas of a module. `recent` are the newest changes of its index, where an
    entry is replaced by one that weighs `grown` more; other entries wait in `changes` to be written back.
    `events` makes the records of its events, from the first one on.
    """

    cells: Cells
    base: str
    field: str
    schema: str
    step: StepFunction | None
    module: Module | None
    takes_context: bool
    retains: bool
    taken: dict[bytes, int]
    recent: dict[bytes, Entry | None]
    changes: dict[bytes, Entry]
    grown: int = 0
    events: EventEncoder | None = None

    def begin(self, writer: FrameWriter) -> int:
        """Begin the records of the route: its names enter the frame's table. Returns the bytes they take."""
        before = writer.size
        self.events = event_encoder(writer.name(self.schema), writer.name(self.base))
        return writer.size - before


Row = tuple[int, SchemaRoute, bytes, Any, bytes, dict[str, Any] | None]
"""The height of an event, its route and key, the entry of its cell, its value, and that decoded or None."""
