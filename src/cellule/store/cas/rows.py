"""The rows of the CAS: one per object, canonical DAG-CBOR.

```
u/<universe>/cas/<cid>           [generation, bytes]                    the object itself
                                 [generation, {body, chunks, size}]     in the engine, in chunks
                                 [generation, {body, size}]             in the object store
u/<universe>/chunks/<body>/0     <cid>                                  the object whose row names this body
u/<universe>/chunks/<body>/<n>   <64 kB of the object, less in the last>   n = 1 .. chunks
u/<universe>/generation          generation                             absent = 0
cas/<universe>/<cid>/<body>      <the object>                           in the object store; body in hex
```

A body id is 4 bytes of generation, big-endian, and 12 of chance: its age is known before any row names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard, assert_never
from uuid import UUID

from cellule.errors import CelluleError, Corrupted, Rejected, ensure
from cellule.sources import Entropy
from cellule.store.cas.contract import CHUNK_BYTES, GENERATION_MAX
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid

BODY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Inline:
    """The object is in the row."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Chunked:
    """The object is in the engine, in chunks."""

    body: bytes
    chunks: int
    size: int


@dataclass(frozen=True, slots=True)
class Stored:
    """The object is in the object store."""

    body: bytes
    size: int


Place = Inline | Chunked | Stored


@dataclass(frozen=True, slots=True)
class Row:
    """What the engine holds for one CID."""

    generation: int
    place: Place


def encode_row(row: Row) -> bytes:
    """Return the bytes of a row.

    >>> encode_row(Row(3, Inline(b"hi"))).hex()
    '8203426869'
    """
    match row.place:
        case Inline(data):
            return encode([row.generation, data])
        case Chunked(body, chunks, size):
            return encode([row.generation, {"body": body, "chunks": chunks, "size": size}])
        case Stored(body, size):
            return encode([row.generation, {"body": body, "size": size}])
        case _:
            assert_never(row.place)


def decode_row(cid: bytes, stored: bytes) -> Row:
    """Read a row; `Corrupted` if it is none."""
    try:
        value = decode(stored)
    except CelluleError as error:
        raise _row_damaged(cid) from error
    match value:
        case [generation, bytes(data)] if _is_generation(generation):
            return Row(generation, Inline(data))
        case [generation, dict(place)] if _is_generation(generation):
            return Row(generation, _place(cid, place))
    raise _row_damaged(cid)


def encode_generation(generation: int) -> bytes:
    """Return the bytes of the generation row."""
    if generation > GENERATION_MAX:
        raise Rejected("cas.generations_exhausted", "there is no generation {number}", number=generation)
    return encode(generation)


def decode_generation(stored: bytes | None) -> int:
    """Read the generation row; absent is 0."""
    if stored is None:
        return 0
    try:
        value = decode(stored)
    except CelluleError as error:
        raise _generation_damaged(stored) from error
    if not _is_generation(value):
        raise _generation_damaged(stored)
    return value


def new_body(generation: int, entropy: Entropy) -> bytes:
    """Make the id of a body."""
    ensure(0 <= generation <= GENERATION_MAX, "cas.generation", "generation {number}", number=generation)
    return generation.to_bytes(4, "big") + entropy.bytes(BODY_BYTES - 4)


def body_generation(body: bytes) -> int:
    """Return the generation in which a body was begun."""
    return int.from_bytes(body[:4], "big")


def object_name(universe: UUID, cid: Cid, body: bytes) -> str:
    """Return the name a body has in the object store."""
    return f"{object_folder(universe)}{cid}/{body.hex()}"


def object_folder(universe: UUID) -> str:
    """Return the folder of a universe's bodies in the object store."""
    return f"cas/{universe}/"


def _is_generation(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= GENERATION_MAX


def _place(cid: bytes, place: Mapping[str, object]) -> Chunked | Stored:
    match place:
        case {"body": bytes(body), "chunks": int(chunks), "size": int(size), **rest} if not rest:
            if len(body) == BODY_BYTES and size > 0 and chunks == -(-size // CHUNK_BYTES):
                return Chunked(body, chunks, size)
        case {"body": bytes(body), "size": int(size), **rest} if not rest:
            if len(body) == BODY_BYTES and size > 0:
                return Stored(body, size)
    raise _row_damaged(cid)


def _row_damaged(cid: bytes) -> Corrupted:
    return Corrupted(
        "cas.row_damaged", "the row of {cid} is no CAS row", cid=str(cid),
        hint="Stop writing to this store, run a check of the whole database, and restore from a backup.",
    )  # fmt: skip


def _generation_damaged(stored: bytes) -> Corrupted:
    return Corrupted(
        "cas.generation_damaged", "the generation row holds {stored}, which is none", stored=stored[:40],
        hint="Stop collecting, run a check of the whole database, and restore from a backup.",
    )  # fmt: skip
