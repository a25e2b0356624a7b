"""The frame under way: its records, its table of names, its size, and the blocks it links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellule.kernel.journal.frame import Header, encode_frame
from cellule.kernel.journal.records import Record
from cellule.kernel.journal.table import Row, write_row
from cellule.kernel.limits import FRAME_BYTES_CLOSE, STATE_INLINE_RECORD_MAX
from cellule.values.cid import Cid, cid_of
from cellule.values.envelope import seal
from cellule.values.link import Link

RECORD_BYTES = 48  # what a record costs beside what it holds: its numbers and heads
LINK_BYTES = 41
LINK_MARK = b"\xd8\x2a"
_HOLDS = frozenset((bytes, str, list, tuple, dict, Link))


class FrameWriter:
    """Collects the records of one beat; `first` is the height of the first in `records`.

    A frame may begin with records that came encoded (`begin`): `start` is the first height of the frame.
    `size` is what closes it: the bytes of its records and blocks, and of the rows `beside` it in its commit.
    """

    __slots__ = (
        "_encoded", "beside", "blocks", "first", "linked", "names", "records", "size", "start",
    )  # fmt: skip

    def __init__(self, first: int) -> None:
        self.start = self.first = first
        self.records: list[Row] = []
        self._encoded = b""
        self.blocks: dict[Cid, bytes] = {}
        self.linked = False
        self.names: dict[str, int] = {}
        self.size = self.beside = 0

    def begin(self, encoded: bytes, count: int, size: int) -> None:
        """Let the frame begin with these records; it then holds `size` bytes. None may be there before."""
        self._encoded = encoded
        self.first = self.start + count
        self.size = size

    def next_height(self) -> int:
        """The height the next record will have."""
        return self.first + len(self.records)

    def is_full(self) -> bool:
        """Tell whether the frame takes no further steps."""
        return self.size >= FRAME_BYTES_CLOSE

    def name(self, text: str) -> int:
        """The position of a name in the frame's table."""
        position = self.names.get(text)
        if position is None:
            position = self.names[text] = len(self.names)
            self.size += len(text.encode())
        return position

    def add(self, record: Record) -> int:
        """Add a record, and return its height."""
        row = write_row(record, self.name)
        size = RECORD_BYTES
        for each in row:
            if each.__class__ in _HOLDS:
                size += held_bytes(each)
        self.size += size
        self.records.append(row)
        return self.first + len(self.records) - 1

    def count_beside(self, size: int) -> None:
        """A row of so many bytes travels with the frame."""
        self.beside += size
        self.size += size

    def value(self, value: bytes | Link) -> Any:
        """A value as a record holds it: an envelope, or the link to a block that exists."""
        if isinstance(value, Link):
            self.linked = True
            return value
        if LINK_MARK not in value:
            return [value]
        envelope = seal(value)
        self.linked = self.linked or len(envelope) > 1
        return envelope

    def state(self, state: bytes | None) -> Any:
        """A state as a record holds it; a long one becomes a block of this frame."""
        return None if state is None else self.stored(state, STATE_INLINE_RECORD_MAX)

    def stored(self, value: bytes, limit: int) -> Any:
        """A value as a record holds it; one of more than `limit` bytes becomes a block of this frame."""
        if len(value) <= limit:
            return self.value(value)
        cid = cid_of(value)
        if cid not in self.blocks:
            self.blocks[cid] = value
            self.size += len(value)
        self.linked = True
        return Link(cid)

    def encode(
        self, beat: int, now_ns: int, entropy: bytes, quota: int, burst: int, prev: bytes | None
    ) -> bytes:
        """The finished frame."""
        header = Header(beat, self.start, self.next_height() - 1, now_ns, entropy, quota, burst, prev)
        return encode_frame(header, list(self.names), self.records, linked=self.linked, encoded=self._encoded)


def held_bytes(value: Any) -> int:
    """About how many bytes a part of a row takes; what is plain is counted alike where no row is made."""
    kind = value.__class__
    if kind is list:
        if len(value) == 1:
            only = value[0]
            return len(only) if only.__class__ is bytes else held_bytes(only)
        return sum(map(held_bytes, value)) + len(value)
    if kind is bytes:
        return len(value)
    if kind is dict:
        size = 0
        for name, each in value.items():
            size += len(name) + 1 + held_bytes(each)
        return size
    if kind is str:
        return len(value) if value.isascii() else len(value.encode())
    if kind is int:
        return 9 if value >> 32 else 5
    return LINK_BYTES if kind is Link else _of_others(value)


def _of_others(value: Any) -> int:
    if isinstance(value, Mapping):
        return held_bytes(dict(value))
    return held_bytes(list(value)) if isinstance(value, tuple) else 5
