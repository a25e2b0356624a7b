"""Schemas: what values may be, as data; derived from Python types, checked, compared and compiled to codecs.

Reading order: `types` (the closed union), `document` (its stored form), `registry` (a closed set of names),
`derive` (from Python), `codec` (objects to bytes and back), `compatibility`.
"""

from __future__ import annotations

from cellule.values.schema import types
from cellule.values.schema.codec import Codec, WireCodec, codec_for, wire_codec
from cellule.values.schema.compatibility import Change, Comparison, compare, project
from cellule.values.schema.derive import Derived, derive
from cellule.values.schema.document import load, to_document
from cellule.values.schema.keys import check_key_path, key_bytes, read_path
from cellule.values.schema.registry import NO_SCHEMAS, Schemas, identity, identity_bytes
from cellule.values.schema.shape import DurationNs, TimeNs
from cellule.values.schema.types import Schema

__all__ = [
    "NO_SCHEMAS",
    "Change",
    "Codec",
    "Comparison",
    "Derived",
    "DurationNs",
    "Schema",
    "Schemas",
    "TimeNs",
    "WireCodec",
    "check_key_path",
    "codec_for",
    "compare",
    "derive",
    "identity",
    "identity_bytes",
    "key_bytes",
    "load",
    "project",
    "read_path",
    "to_document",
    "types",
    "wire_codec",
]
