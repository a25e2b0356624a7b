"""Where the events of one schema go in a beat, and how their records are put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from cellule.kernel.journal.codes import EVENT
from cellule.kernel.journal.writer import FrameWriter
from cellule.kernel.manifest.limits import KEY_BYTES_MAX
from cellule.kernel.manifest.model import Module
from cellule.kernel.program import StepFunction
from cellule.kernel.state.cells import Entry
from cellule.kernel.state.ledger import Cells
from cellule.values.writer import BYTES, head

SHORT_MAX: Final = KEY_BYTES_MAX
HEADS: Final = [head(BYTES, size) for size in range(SHORT_MAX + 1)]  # of byte strings
NULL: Final = b"\xf6"
_ONE: Final = b"\x81"  # the head of a list of one


@dataclass(slots=True)
class SchemaRoute:
    """The way of one schema's events to one module.

    `step` is the way of their module, None where the lane cannot take its steps. `taken` has the position of
    the row of each cell, for all schemas of a module. `recent` are the newest changes of its index, where an
    entry is replaced by one that weighs `grown` more; other entries wait in `changes` to be written back.
    An event's record is `opening`, the value with its head, `middle`, the key with its head, and `NULL`.
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
    opening: bytes = b""
    middle: bytes = b""

    def begin(self, writer: FrameWriter) -> int:
        """Begin the records of the track: its names enter the frame's table. Returns the bytes they take."""
        before = writer.size
        self.opening = bytes((0x87, EVENT, 0)) + NULL + head(0, writer.name(self.schema)) + _ONE
        self.middle = _ONE + b"\x82" + head(0, writer.name(self.base))
        return writer.size - before


Row = tuple[int, SchemaRoute, bytes, Any, bytes, dict[str, Any] | None]
"""The height of an event, its track and key, the entry of its cell, its value, and that decoded or None."""
