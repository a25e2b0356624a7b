"""`Codec`: from objects of one Python type to canonical bytes and back, checked both ways.

Encoding checks everything a constructor does not: an object built with a text in an int field, a subclass
with more fields, or a list where a tuple belongs is refused with its path. Decoding constructs the classes
anew. `encode` and `decode` are the hot path; `to_wire` and `from_wire` also canonicalise, for all other
uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import convert

from cellule.errors import Rejected
from cellule.values import cbor
from cellule.values.cbor import read_unchecked
from cellule.values.schema.annotations import shown_type
from cellule.values.schema.decoding import Decoding
from cellule.values.schema.derive import Derived
from cellule.values.schema.direct import holds_bytes, is_direct
from cellule.values.schema.encoding import Encoding
from cellule.values.schema.fault import Fault
from cellule.values.schema.source import Source
from cellule.values.schema.traits import decoder_for, encoder_for
from cellule.values.schema.wire import WireCodec, too_deep, wire_codec

T = TypeVar("T")


class Codec(Generic[T]):
    """Encodes and decodes one Python type; made by `codec_for`, immutable, safe to share between threads."""

    __slots__ = (
        "_encode", "_from", "_read", "_to", "decode_trusted", "derived", "encode", "name", "source", "wire",
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
        self.decode_trusted: Callable[[bytes], T] = self._trusted()
        """Decode bytes whose CID or checksum was verified: types are checked, canonicity is not.

        They were made by a codec, so a record of plain values is not searched for unknown fields again.
        """

    def _encoder(self) -> Callable[[T], bytes]:
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


def codec_for(derived: Derived[T]) -> Codec[T]:
    """Make the codec of a derived type; takes some milliseconds, so make it once."""
    return Codec(derived)
