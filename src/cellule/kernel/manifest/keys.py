"""The key of a cell at run time: from an event's value, or given by the sender as ABI bytes.

    text -> UTF-8        bytes -> as they are        anything else -> DAG-CBOR

A key is 1 to `KEY_BYTES_MAX` bytes: the empty key is the cell of an unkeyed module.
"""

from __future__ import annotations

from typing import Any

from cellule.errors import CelluleError, Rejected
from cellule.kernel.manifest.limits import KEY_BYTES_MAX
from cellule.values.cbor import decode, encode
from cellule.values.schema import types as t
from cellule.values.schema.codec import wire_codec
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema


class KeyForm:
    """One key schema: turns values into key bytes and checks key bytes that were given."""

    __slots__ = ("_check", "kind", "schema")

    def __init__(self, schema: Schema, schemas: Schemas) -> None:
        self.schema = schema
        self.kind: type = type(schemas.resolve(schema))
        self._check = wire_codec(schema, schemas).check

    def of(self, found: Any, event: str, field: str) -> bytes:
        """The key bytes of what stands at `field` of an event."""
        try:
            checked = self._check(found)
            if self.kind is t.Text:
                key = str(checked).encode()
            else:
                key = checked if self.kind is t.Bytes else encode(checked)
        except CelluleError as error:
            raise Rejected(
                "routing.key_type", "event {event}: {field} is no key: {problem}",
                event=event, field=field, problem=str(error),
            ) from error  # fmt: skip
        return check_length(key, event, field)

    def check(self, key: bytes, event: str) -> bytes:
        """Check key bytes that a sender gave; returns them."""
        if not isinstance(key, bytes):
            raise Rejected(
                "routing.key_type", "event {event}: the explicit key is {kind}, not bytes",
                event=event, kind=type(key).__name__, hint="Give the key as ABI bytes.",
            )  # fmt: skip
        check_length(key, event, "the explicit key")
        if self.of(self._value(key, event), event, "the explicit key") != key:
            raise Rejected(
                "routing.key_type", "event {event}: the explicit key {key} is not in canonical form",
                event=event, key=key,
            )  # fmt: skip
        return key

    def _value(self, key: bytes, event: str) -> Any:
        if self.kind is t.Bytes:
            return key
        try:
            return key.decode() if self.kind is t.Text else decode(key)
        except (UnicodeDecodeError, CelluleError) as error:
            form = "UTF-8 text" if self.kind is t.Text else "canonical DAG-CBOR"
            raise Rejected(
                "routing.key_type", "event {event}: the explicit key {key} is no {form}",
                event=event, key=key, form=form,
            ) from error  # fmt: skip


def check_length(key: bytes, event: str, field: str) -> bytes:
    """Return `key` if it may be a cell's key."""
    if not key:
        raise Rejected("routing.key_empty", "event {event}: {field} is empty", event=event, field=field)
    if len(key) > KEY_BYTES_MAX:
        raise Rejected(
            "routing.key_too_long", "event {event}: the key at {field} has {size} bytes; at most {most}",
            event=event, field=field, size=len(key), most=KEY_BYTES_MAX,
        )  # fmt: skip
    return key
