"""Typed values to canonical bytes and back, beside `cbor2` doing the same typed work.

Ours   `Codec.encode(object)`: checks every field, gives canonical DAG-CBOR.
       `Codec.decode_trusted(bytes)`: for stored states, whose checksum or CID was verified; checks types.
       `Codec.decode(bytes)`: for bytes from outside; proves canonicity as well.
cbor2  `dumps(msgspec.to_builtins(object), canonical=True)`: checks nothing; shortens floats, as its canonical
       mode does; writes times and UUIDs as text, and sets in hash order.
       `msgspec.convert(loads(bytes), Type)`: checks types; accepts bytes that are not canonical.

"libipld and msgspec alone" decodes with nothing of ours around them: no unknown field is found, no error
explained. It shows what is to be had.

All in CPU time, on one object many times. Targets are for the plain record. "Plain value" is the same record
as dicts and lists, without types: our strict decoder beside `loads`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import cbor2
import libipld
import msgspec

from bench.report import Row, measured, ratio
from bench.timing import ROUNDS, best_of, repeat
from cellule.values import cid_of, decode, encode
from cellule.values.schema import codec_for, derive

ENCODE_MIN, DECODE_MIN = 5.0, 2.0


class Line(msgspec.Struct, frozen=True):
    sku: str
    quantity: int
    price: float


class Order(msgspec.Struct, frozen=True):
    order_id: str
    customer: str
    status: str
    total: float
    paid: bool
    attempts: int
    lines: list[Line]


class Trip(msgspec.Struct, frozen=True):
    trip_id: UUID
    started: datetime
    lasted: timedelta
    tags: frozenset[str]
    stops: dict[int, str]
    note: str | None = None


ORDER = Order(
    "order-000017", "customer-42", "paid", 118.5, True, 2,
    [Line("apple", 3, 1.5), Line("pear", 2, 2.25), Line("book", 1, 109.5)],
)  # fmt: skip
TRIP = Trip(
    UUID(int=7), datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC), timedelta(minutes=90),
    frozenset(("red", "blue", "green")), {3: "north", 1: "south", 2: "east"},
)  # fmt: skip

_plain = partial(msgspec.to_builtins, builtin_types=(bytes,), str_keys=False)


def run(*, quick: bool) -> Iterator[Row]:
    """Typed records, then the same record untyped."""
    count, rounds = (50, 1) if quick else (20_000, ROUNDS)
    yield from _typed("plain record", Order, ORDER, count, rounds, targets=(ENCODE_MIN, DECODE_MIN))
    yield from _least(count, rounds)
    yield from _typed("record with sets, maps, times", Trip, TRIP, count, rounds, targets=(None, None))
    yield from _untyped(count, rounds)


def _typed(
    case: str, kind: Any, value: Any, count: int, rounds: int, *, targets: tuple[float | None, float | None]
) -> Iterator[Row]:
    codec = codec_for(derive(kind, namespace="bench", version=1))
    ours, theirs = codec.encode(value), _cbor2_encode(value)
    for decoded in (codec.decode(ours), codec.decode_trusted(ours), _cbor2_decode(theirs, kind)):
        assert decoded == value
    times = best_of(
        repeat(codec.encode, value, count=count),
        repeat(_cbor2_encode, value, count=count),
        repeat(codec.decode_trusted, ours, count=count),
        repeat(codec.decode, ours, count=count),
        repeat(_cbor2_decode, theirs, kind, count=count),
        rounds=rounds,
    )
    encode_s, encode_other, trusted_s, strict_s, decode_other = times
    yield ratio("values", case, "encode vs cbor2 canonical", encode_other / encode_s, targets[0])
    yield ratio("values", case, "decode of stored bytes vs cbor2", decode_other / trusted_s, targets[1])
    yield ratio("values", case, "strict decode vs cbor2", decode_other / strict_s)
    yield from _micros(
        case, count, {"encode": encode_s, "decode of stored bytes": trusted_s, "strict decode": strict_s}
    )


def _least(count: int, rounds: int) -> Iterator[Row]:
    """What is left of a decode when only the two libraries below it work: no typed decode can be faster."""
    theirs = _cbor2_encode(ORDER)
    data = encode(msgspec.to_builtins(ORDER))
    least_s, cbor2_s = best_of(
        repeat(_least_decode, data, Order, count=count),
        repeat(_cbor2_decode, theirs, Order, count=count),
        rounds=rounds,
    )
    yield ratio("values", "plain record", "libipld and msgspec alone, decode vs cbor2", cbor2_s / least_s)


def _least_decode(data: bytes, kind: Any) -> Any:
    return msgspec.convert(libipld.decode_dag_cbor(data), kind)


def _cbor2_encode(value: Any) -> bytes:
    return cbor2.dumps(_plain(value), canonical=True)


def _cbor2_decode(data: bytes, kind: Any) -> Any:
    return msgspec.convert(cbor2.loads(data), kind)


def _untyped(count: int, rounds: int) -> Iterator[Row]:
    value = msgspec.to_builtins(ORDER)
    data, other = encode(value), cbor2.dumps(value, canonical=True)
    times = best_of(
        repeat(encode, value, count=count),
        repeat(partial(cbor2.dumps, value, canonical=True), count=count),
        repeat(decode, data, count=count),
        repeat(cbor2.loads, other, count=count),
        repeat(cid_of, data, count=count),
        rounds=rounds,
    )
    encode_s, encode_other, decode_s, decode_other, cid_s = times
    case = "plain value"
    yield ratio("values", case, "encode vs cbor2 canonical", encode_other / encode_s)
    yield ratio("values", case, "strict decode vs cbor2", decode_other / decode_s)
    named = {"encode": encode_s, "strict decode": decode_s, f"CID of {len(data)} bytes": cid_s}
    yield from _micros(case, count, named)


def _micros(case: str, count: int, seconds: dict[str, float]) -> Iterator[Row]:
    for metric, total in seconds.items():
        yield measured("values", case, metric, total / count * 1e6, "us")
