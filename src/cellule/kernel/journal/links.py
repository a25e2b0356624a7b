"""What a frame links: the blocks that must stay as long as the frame does.

A record that tells of a snapshot only names it: whether that snapshot is kept is decided by the rows of
snapshots, or every snapshot ever taken would stay. A link inside a user's value may name what was never
stored, so those are told apart from ours, which must be there. The arguments of a control are values that a
person gave; what the kernel made of them (a manifest, a state) is linked by the records behind it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cellule.kernel.journal.codes import Kind
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import BaselineRecord, ControlRecord, Record, SnapshotRecord
from cellule.kernel.journal.table import read_row
from cellule.values.cbor import decode_trusted
from cellule.values.cid import Cid
from cellule.values.link import Link

LINK_BYTES = b"\xd8\x2a\x58\x25\x00\x01"  # what each link begins with: chance hardly makes these
_ABOUT_SNAPSHOTS = {"snapshot", "baseline"}
_MAY_TELL = {Kind.SNAPSHOT, Kind.BASELINE, Kind.CONTROL}


class Links(NamedTuple):
    """Blocks that must be there, and those that a user's value names, which may be."""

    ours: set[Cid]
    users: set[Cid]


def tells_of_snapshot(record: Record) -> bool:
    """Tell whether a record only names a snapshot, which may be gone."""
    if isinstance(record, ControlRecord):
        return record.verb in _ABOUT_SNAPSHOTS
    return isinstance(record, SnapshotRecord | BaselineRecord)


def links_of_block(data: bytes) -> Links:
    """The links of a stored node."""
    found = Links(set(), set())
    if LINK_BYTES in data:
        _gather(decode_trusted(data), found)
    return found


def links_of_frame(data: bytes) -> Links:
    """The links of a frame, but for those to snapshots that it only tells of."""
    found = Links(set(), set())
    if LINK_BYTES not in data:
        return found
    decode_frame(data, lazy=True)  # refuses what is no frame
    value: Any = decode_trusted(data)
    _, names, rows = value
    for row in rows:
        if row[0] not in _MAY_TELL:
            _gather(row, found)
        elif not tells_of_snapshot(read_row(row, names)):
            found.users.update(links_given(row))
    return found


def links_given(value: Any) -> set[Cid]:
    """All links of a decoded value that somebody else gave: they may name what was never stored."""
    found = Links(set(), set())
    _gather(value, found)
    return found.ours | found.users


def _gather(value: Any, found: Links) -> None:
    """Walk a decoded value; not by recursion, because what is stored may be deep."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Link):
            found.ours.add(each.cid)
        elif isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list):
            if _is_envelope(each):
                found.users.update(link.cid for link in each[1])
            else:
                waiting.extend(each)


def _is_envelope(value: list[Any]) -> bool:
    """Tell whether this looks like a stored value with links, which lists them (`values/envelope.py`)."""
    return (
        2 <= len(value) <= 3 and isinstance(value[0], bytes) and _are_links(value[1])
        and (len(value) == 2 or isinstance(value[2], bytes))
    )  # fmt: skip


def _are_links(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Link) for each in value)
