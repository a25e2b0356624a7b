"""`Codec`: from objects of one Python type to canonical bytes and back, checked both ways.

Encoding checks everything a constructor does not: an object built with a text in an int field, a subclass
with more fields, or a list where a tuple belongs is refused with its path. Decoding constructs the classes
anew. `encode` and `decode` are the hot path; `to_wire` and `from_wire` also canonicalise, for all other
uses. `WireCodec` is for schemas without any Python class: what the edge does to foreign input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import convert

from cellule.errors import Rejected
from cellule.values import cbor
from cellule.values.cbor import read_unchecked
from cellule.values.limits import BYTES_MAX
from cellule.values.schema import types as t
from cellule.values.schema.annotations import shown_type
from cellule.values.schema.checks import Checks
from cellule.values.schema.decoder import Decoding
from cellule.values.schema.derive import Derived
from cellule.values.schema.direct import holds_bytes, is_direct, is_made_anew
from cellule.values.schema.encoder import Encoding
from cellule.values.schema.fault import Fault
from cellule.values.schema.registry import NO_SCHEMAS, Schemas
from cellule.values.schema.source import Source
from cellule.values.schema.traits import decoder_for, encode_without_bytes, encoder_for
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


T = TypeVar("T")


class Codec(Generic[T]):
    """Encodes and decodes one Python type; made by `codec_for`, immutable, safe to share between threads."""

    __slots__ = (
        "_encode",
        "_from",
        "_read",
        "_to",
        "decode_trusted",
        "derived",
        "encode",
        "encode_with_fields",
        "name",
        "source",
        "to_plain",
        "wire",
    )  # fmt: skip

    def __init__(self, derived: Derived[T]) -> None:
        self.derived = derived
        self.name = derived.name or shown_type(derived.python)
        self.wire: WireCodec = wire_codec(derived.schema, derived.schemas)
        source = Source(derived.schemas)
        to_name = Encoding(source).function(derived.shape)
        from_name = Decoding(source).function(derived.shape)
        functions = source.compile(self.name)
        self.source = "\n".join(source.lines)
        self._to: Callable[[Any], Any] = functions[to_name]
        self._from: Callable[[Any], T] = functions[from_name]
        self._encode = encoder_for(derived.schema, derived.schemas)
        self._read = decoder_for(derived.schema, derived.schemas)
        self.encode: Callable[[T], bytes] = self._encoder()
        """Check a value and return its canonical bytes; raises `Rejected` naming the path."""
        self.to_plain = self._to if self._encode is encode_without_bytes else None
        """What makes the wire value that `cbor.write_unchecked` writes exactly; None where it may not."""
        self.encode_with_fields: Callable[[T], tuple[str, bytes, Any]] = self._decoded_encoder()
        """Check a value, and return the codec's name, the canonical bytes, and what those decode to.

        The last is None where it would share something with the value that can change, or is dear to tell.
        """
        self.decode_trusted: Callable[[bytes], T] = self._trusted()
        """Decode bytes whose CID or checksum was verified: types are checked, canonicity is not.

        They were made by a codec, so a record of plain values is not searched for unknown fields again.
        """

    def _encoder(self) -> Callable[[T], bytes]:
        return self._plain_encoder() if self._encode is encode_without_bytes else self._exact_encoder()

    def _exact_encoder(self) -> Callable[[T], bytes]:
        to, write = self._to, self._encode

        def encode(value: T) -> bytes:
            try:
                return write(to(value))
            except Fault as fault:
                raise fault.rejected(self.name) from fault.__cause__
            except Rejected:
                self._explain(value)
                raise
            except AttributeError as error:
                raise self._incomplete(error) from error
            except RecursionError:
                raise too_deep(self.name) from None

        return encode

    def _plain_encoder(self) -> Callable[[T], bytes]:
        """Encode values without byte strings and links: what is in doubt goes the general way."""
        to, write = self._to, cbor.write_unchecked
        exact = self._exact_encoder()

        def encode(value: T) -> bytes:
            try:
                data = write(to(value))
            except Exception:  # noqa: BLE001 - whatever is wrong, the general way says what and where
                return exact(value)
            return data if len(data) <= BYTES_MAX else exact(value)

        return encode

    def _decoded_encoder(self) -> Callable[[T], tuple[str, bytes, Any]]:
        name, encode, to, write = self.name, self.encode, self._to, cbor.write_unchecked
        if not is_made_anew(self.derived.shape):
            return lambda value: (name, encode(value), None)

        def encode_with(value: T) -> tuple[str, bytes, Any]:
            try:
                wire = to(value)
                data = write(wire)  # what is made anew holds nothing that this writes in another way
            except Exception:  # noqa: BLE001 - whatever is wrong, `encode` says what and where
                return name, encode(value), None
            return (name, data, wire) if len(data) <= BYTES_MAX else (name, encode(value), None)

        return encode_with

    def decode(self, data: bytes) -> T:
        """Return the object of canonical bytes; refuses other bytes, naming the path or the offset."""
        try:
            return self._from(cbor.decode(data))
        except Fault as fault:
            raise fault.rejected(self.name) from fault.__cause__
        except RecursionError:
            raise too_deep(self.name) from None

    def _trusted(self) -> Callable[[bytes], T]:
        """The quickest way to read verified bytes: two native calls for records of plain values."""
        exact = self._decode_trusted
        if not is_direct(self.derived.shape, {}) or holds_bytes(self.derived.shape):
            return exact
        python: Any = self.derived.python

        def plain(data: bytes) -> T:
            try:
                return convert(read_unchecked(data), python)  # type: ignore[no-any-return]
            except Exception:  # noqa: BLE001 - whatever is wrong, the exact reader says what and where
                return exact(data)

        return plain

    def _decode_trusted(self, data: bytes) -> T:
        try:
            return self._from(self._read(data))
        except Fault as fault:
            raise fault.rejected(self.name) from fault.__cause__
        except RecursionError:
            raise too_deep(self.name) from None

    def to_wire(self, value: T) -> Any:
        """Return the canonical wire value of an object."""
        try:
            return self.wire.check(self._to(value))
        except Fault as fault:
            raise fault.rejected(self.name) from fault.__cause__
        except AttributeError as error:
            raise self._incomplete(error) from error
        except RecursionError:
            raise too_deep(self.name) from None

    def from_wire(self, value: object) -> T:
        """Return the object of a wire value, which need not be canonical."""
        try:
            return self._from(self.wire.check(value))
        except Fault as fault:
            raise fault.rejected(self.name) from fault.__cause__

    def _explain(self, value: T) -> None:
        """Raise the error that names the place of what the encoder refused, if the schema knows it."""
        self.wire.check(self._to(value))

    def _incomplete(self, error: AttributeError) -> Rejected:
        return Rejected("schema.mismatch", "{what}: {problem}.", what=self.name, problem=str(error))


def exact_writer(derived: Derived[Any]) -> Callable[[Any], Any]:
    """Like `Codec.to_plain`, but raises where an object holds anything that is not read back as itself.

    A codec takes an `IntEnum` in a field of integers, and reads an integer: to keep the object in place of
    its bytes would show the next step something that a restarted process does not have.
    """
    source = Source(derived.schemas)
    name = Encoding(source, exact=True).function(derived.shape)
    found: Callable[[Any], Any] = source.compile(derived.name or shown_type(derived.python))[name]
    return found


def codec_for(derived: Derived[T]) -> Codec[T]:
    """Make the codec of a derived type; takes some milliseconds, so make it once."""
    return Codec(derived)
