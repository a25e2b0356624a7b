"""What `blob.put` and `blob.get` are asked for and what they answer."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from cellule.values.cid import Cid

BLOB_BYTES_MAX = 990_000
"""Of one piece that is put or got; params and receipts have 1 MB in all."""


class BlobPut(msgspec.Struct, frozen=True, kw_only=True):
    """Store bytes, or a text as UTF-8: exactly one of them. `media` is answered as it is given."""

    data: Annotated[bytes, Meta(max_length=BLOB_BYTES_MAX)] | None = None
    text: Annotated[str, Meta(max_length=BLOB_BYTES_MAX)] | None = None
    media: str | None = None


class BlobStored(msgspec.Struct, frozen=True, kw_only=True):
    """What was stored, and how many bytes; the same bytes always have the same CID."""

    cid: Cid
    size: int
    media: str | None = None


class BlobGet(msgspec.Struct, frozen=True, kw_only=True):
    """Read a blob, or `length` bytes of it from `offset`."""

    cid: Cid
    offset: Annotated[int, Meta(ge=0)] = 0
    length: Annotated[int, Meta(ge=0, le=BLOB_BYTES_MAX)] | None = None


class BlobContent(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes asked for; `size` is that of the whole blob."""

    data: bytes
    size: int
