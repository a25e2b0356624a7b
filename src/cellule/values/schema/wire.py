"""Codecs of schemas without any Python class: what the edge does to foreign input.

`check` returns the canonical form of a valid value: null fields omitted, 1 as 1.0 in float fields, decimals
normalised, sets and pair lists sorted. Anything else is refused with the path. The result shares no list or
map with the input. How deep values may nest is checked by the encoder.
"""

from __future__ import annotations

from typing import Any

from cellule.errors import Rejected
from cellule.values import cbor
from cellule.values.schema import types as t
from cellule.values.schema.checks import Checks
from cellule.values.schema.fault import Fault
from cellule.values.schema.registry import NO_SCHEMAS, Schemas
from cellule.values.schema.types import Schema


class WireCodec:
    """Checks, encodes and decodes values of one schema; made by `wire_codec`."""

    __slots__ = ("_check", "name", "schema")

    def __init__(self, schema: Schema, schemas: Schemas, name: str) -> None:
        self.schema = schema
        self.name = name
        self._check = Checks(schemas).compile(schema)

    def check(self, value: object) -> Any:
        """Return the canonical form of `value`; raises `Rejected` naming the path."""
        try:
            return self._check(value)
        except Fault as fault:
            raise fault.rejected(self.name) from fault.__cause__
        except RecursionError:
            raise too_deep(self.name) from None

    def encode(self, value: object) -> bytes:
        """Check `value` and encode its canonical form."""
        return cbor.encode(self.check(value))

    def decode(self, data: bytes) -> Any:
        """Decode strictly and check; returns the canonical form."""
        return self.check(cbor.decode(data))


def wire_codec(schema: Schema, schemas: Schemas = NO_SCHEMAS) -> WireCodec:
    """Make the codec of `schema`; raises if it does not fit together with `schemas`."""
    schemas.check(schema)
    return WireCodec(schema, schemas, schema.name if isinstance(schema, t.Ref) else "")


def too_deep(name: str) -> Rejected:
    """Make the error of a value that nests too deeply, or contains itself."""
    return Rejected(
        "schema.too_deep",
        "The value{of} nests too deeply or contains itself.",
        of=f" of {name}" if name else "",
        hint="Values nest at most 128 levels.",
    )
