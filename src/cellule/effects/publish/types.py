"""What `event.publish` is asked for and what it answers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

PAYLOAD_BYTES_MAX = 900_000
HEADERS_MAX = 100


class EventPublish(msgspec.Struct, frozen=True, kw_only=True):
    """Publish a message to the stream that listens to `subject`; `stream` says which one that must be.

    The header `Nats-Msg-Id` is made from the idempotency key.
    """

    subject: Annotated[str, Meta(min_length=1, max_length=500)]
    payload: Annotated[bytes, Meta(max_length=PAYLOAD_BYTES_MAX)] = b""
    headers: Annotated[dict[str, str], Meta(max_length=HEADERS_MAX)] = {}
    stream: str | None = None


class EventPublished(msgspec.Struct, frozen=True, kw_only=True):
    """Where the message is; `duplicate` says that an earlier attempt had stored it already."""

    stream: str
    sequence: int
    duplicate: bool = False
