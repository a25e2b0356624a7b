"""The object store contract: whole immutable bodies by name.

What is too large for the engine lives here: big CAS bodies and journal segments. Implementations are in
`store/objects/`; one conformance suite runs against each of them. A store proves nothing about the bytes
it returns: whoever knows what they must be (a CID, a checksum) verifies them.

A missing object is `Rejected` (`objects.not_found`): asking again changes nothing. A layer that holds a
durable promise of the object turns it into `Corrupted`; a missing bucket or folder is `Unavailable`,
because then every object seems missing and none is lost.

Rejected: ranged reads. Bodies are verified as wholes, and not every server honours ranges.
Rejected: put-if-absent. Not every server honours it; names carry chance, so nothing needs it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from cellule.errors import Rejected, Unavailable
from cellule.store.resource import Resource

NAME_BYTES_MAX = 240
SEGMENTS_MIN = 2
SEGMENTS_MAX = 8
LIST_LIMIT_MAX = 1_000
WHOLE_BYTES_MAX = 64_000_000

Source = bytes | AsyncIterator[bytes]

_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One listed object."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """One slice of a listing, by name in byte order; `more` tells that further names follow."""

    items: list[ObjectInfo]
    more: bool


class ObjectStore(Resource, Protocol):
    """Whole immutable bodies by name.

    All methods raise `Unavailable` when the surroundings fail and `Rejected` for a bad name or limit. A
    body is read back whole or not at all: no reader ever sees part of a put. Methods may run concurrently.
    """

    @property
    def remote(self) -> bool:
        """Whether a read crosses a network, so that caching bodies on the local disk pays."""

    async def put(self, name: str, data: Source) -> None:
        """Store a body; durable when this returns, all or nothing.

        Putting the same bytes again is harmless. Different bytes under one name are never put by callers;
        if they are, readers see one of the two bodies whole. An error of an iterator passes through and
        nothing is stored. `OutcomeUnknown`: the whole body may be there, or nothing.
        """

    async def get(self, name: str, *, bytes_max: int = WHOLE_BYTES_MAX) -> bytes:
        """Return a whole body; `Rejected` if there is none or it is larger than `bytes_max`."""

    def stream(self, name: str) -> AsyncGenerator[bytes, None]:
        """Yield a body in pieces, in constant memory; a failure underway raises and never ends quietly.

        Bodies being deleted underway may end in an error. Close the iterator if it is left early.
        """

    async def size(self, name: str) -> int:
        """Return the number of bytes of a body; `Rejected` if there is none."""

    async def delete(self, name: str) -> None:
        """Remove a body, durably; a missing one is fine."""

    async def list(self, prefix: str, *, limit: int, start_after: str = "") -> ObjectPage:
        """Return at most `limit` objects inside the folder `prefix` (`""`, or ending in `/`), after a name.

        Objects put or deleted while pages are read may or may not appear; all others appear once.
        """

    async def close(self) -> None:
        """Release everything; later calls raise `Unavailable`."""


def check_name(name: str) -> None:
    """Refuse a name that some store could not keep: 2 to 8 segments of `A-Z a-z 0-9 _ . -`, 240 bytes."""
    segments = name.split("/")
    if len(name) > NAME_BYTES_MAX or not SEGMENTS_MIN <= len(segments) <= SEGMENTS_MAX:
        raise _bad_name(name, f"has {len(name)} characters in {len(segments)} segments")
    for segment in segments:
        if not _SEGMENT.match(segment):
            raise _bad_name(name, f"has the segment {segment!r}")


def check_list(prefix: str, limit: int) -> None:
    """Refuse a listing of something that is no folder, or without a sensible limit."""
    if not 1 <= limit <= LIST_LIMIT_MAX:
        raise Rejected(
            "objects.list_limit",
            "a listing takes limit 1 to {most}, not {limit}",
            limit=limit,
            most=LIST_LIMIT_MAX,
        )
    if prefix and not (prefix.endswith("/") and all(_SEGMENT.match(part) for part in prefix[:-1].split("/"))):
        raise Rejected(
            "objects.prefix", "{prefix!r} is no folder of object names", prefix=prefix[:NAME_BYTES_MAX],
            hint="List with an empty prefix or with one that ends in a slash.",
        )  # fmt: skip


def not_found(name: str) -> Rejected:
    """Return the error of a missing object."""
    return Rejected("objects.not_found", "there is no object {name}", name=name)


def too_large(name: str, size: int, bytes_max: int) -> Rejected:
    """Return the error of a body that does not fit the memory its reader allowed."""
    return Rejected(
        "objects.too_large", "the object {name} has {size} bytes or more; at most {most} are read as a whole",
        name=name, size=size, most=bytes_max, hint="Read it as a stream.",
    )  # fmt: skip


def closed() -> Unavailable:
    """Return the error of a call after `close`."""
    return Unavailable("objects.closed", "the object store is closed")


def _bad_name(name: str, reason: str) -> Rejected:
    return Rejected(
        "objects.name", "the object name {name!r} {reason}",
        name=name[:NAME_BYTES_MAX], reason=reason,
        hint="Names have 2 to 8 segments of letters, digits, _ . - (not leading), in at most 240 characters.",
    )  # fmt: skip
