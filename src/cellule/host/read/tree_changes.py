"""What a frame changes in the tree, at a path and below it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cellule.host.read.reader import Reader
from cellule.kernel.heartbeat.paths import is_below, path_of_key
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.heartbeat_records import WriteRecord
from cellule.kernel.state.heartbeat_rows import TREE
from cellule.kernel.state.tree import path_of_node
from cellule.values.cbor import decode_trusted


@dataclass(frozen=True, slots=True)
class TreeChange:
    """A node has another value, or is gone (`exists` is false then), since the record at `height`."""

    path: str
    value: Any
    exists: bool
    height: int
    beat: int


async def changes_in(reader: Reader, frame: Frame, path: str) -> list[TreeChange]:
    """The changes of a frame at a path and below it, in their order."""
    found: list[TreeChange] = []
    for height, record in frame.of(WriteRecord):
        if record.module != TREE:
            continue
        state = None if record.state is None else await reader.bytes_of(record.state)
        place = await _path(reader, record, state)
        if is_below(place, path):
            held: Any = {} if state is None else decode_trusted(state)
            found.append(TreeChange(place, held.get("value"), state is not None, height, frame.header.beat))
    return found


async def _path(reader: Reader, record: WriteRecord, state: bytes | None) -> str:
    """The path of a node: where its key is too long to tell, the state does, or the one before it."""
    place = path_of_key(record.key)
    if place is None and state is None:
        before = (await reader.frame(record.prev)).expect(record.prev, WriteRecord)
        state = await reader.bytes_of(before.state)
    return place or path_of_node(record.key, state or b"")
