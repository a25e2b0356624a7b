"""What a schema says about the bytes of all its values, so that codecs can leave out general searches.

The general encoder must look for byte strings taken for links, for -0.0, and for too deep nesting in every
value. A schema often rules these out once and for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cellule.values import cbor
from cellule.values.limits import BYTES_MAX
from cellule.values.schema import types as t
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema

DEPTH_SURE = 100
"""Schemas of at most this depth cannot have values beyond the general limit."""

_LINK_BYTE = 0xD8
_LINK_MARK = b"\xd8\x2a"

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes], Any]


def encoder_for(schema: Schema, schemas: Schemas) -> Encode:
    """Return the fastest exact encoder for wire values of `schema` that hold no -0.0."""
    found = kinds(schema, schemas)
    if found is None or found & {t.Hash, t.Any}:
        return cbor.encode
    return _encode_with_bytes if found & {t.Bytes, t.Uuid} else encode_without_bytes


def decoder_for(schema: Schema, schemas: Schemas) -> Decode:
    """Return the fastest decoder of trusted bytes; bytes and links are told apart only if there are any."""
    found = kinds(schema, schemas)
    if found is None or found & {t.Hash, t.Any, t.Bytes, t.Uuid}:
        return cbor.decode_trusted
    return cbor.decode_linked


def kinds(schema: Schema, schemas: Schemas) -> set[type] | None:
    """Return the types that occur in `schema`; None if its values may nest without a fixed bound."""
    found: set[type] = set()
    return found if _depth(schema, schemas, found, {}) <= DEPTH_SURE else None


def _depth(schema: Schema, schemas: Schemas, found: set[type], known: dict[str, int]) -> int:
    """Return how deep values may nest, or more than `DEPTH_SURE`, and collect the types met."""
    if isinstance(schema, t.Ref):
        if schema.name not in known:
            known[schema.name] = DEPTH_SURE + 1  # what is met again while it is looked at, is recursive
            known[schema.name] = _depth(schemas[schema.name], schemas, found, known)
        return known[schema.name]
    found.add(type(schema))
    levels = 2 if isinstance(schema, t.Variant | t.Map) else 1
    return levels + max((_depth(child, schemas, found, known) for _, child in t.children(schema)), default=0)


def encode_without_bytes(value: Any) -> bytes:
    """Encode a value that is known to hold no byte strings, no links and no -0.0, and to be shallow."""
    try:
        data = cbor.write_unchecked(value)
    except Exception:  # noqa: BLE001 - whatever the driver refuses, the general encoder writes or explains
        return cbor.encode(value)
    return data if len(data) <= BYTES_MAX else cbor.encode(value)


def _encode_with_bytes(value: Any) -> bytes:
    data = encode_without_bytes(value)
    if _LINK_BYTE in data and _LINK_MARK in data:
        return cbor.encode(value)
    return data
