"""The two records of `ingest`, each with the bare loop that its floor does per event.

The small one has the targets. What Cellule adds to an event costs the same whatever the record, so it
shows the worst ratio to the floor; an order, most of whose time is conversion on all sides, shows the
worst to the other library.

Both loops decode with `libipld`, convert with `msgspec`, and by hand what `msgspec` has no wire form for
(a time is an int of ns), call the same reducer, and encode to the bytes of Cellule, which the benchmark
checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import libipld
import msgspec

from bench import ingest_app, ingest_order_app
from bench.ingest_app import Account, Added
from bench.ingest_order_app import Line, Order, Placed
from cellule import App

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

States = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Job:
    """One record: its app, its events, how one is encoded, and the floor's loop over encoded events."""

    name: str
    app: App
    key: Callable[[int], str]
    event: Callable[[str, int], Any]
    encode: Callable[[Any], bytes]
    step: Callable[[Sequence[bytes], States], None]
    has_targets: bool


class _WirePlaced(msgspec.Struct, omit_defaults=True):
    order_id: str
    customer: str
    placed_at: int
    channel: str
    currency: str
    total_cents: int
    tax_cents: int
    weight_kg: float
    is_express: bool
    note: str
    lines: list[Line]
    labels: dict[str, str]
    coupon: str | None = None


class _WireOrder(msgspec.Struct, omit_defaults=True):
    customer: str
    placed_at: int
    channel: str
    currency: str
    total_cents: int
    tax_cents: int
    weight_kg: float
    is_express: bool
    note: str
    lines: list[Line]
    labels: dict[str, str]
    revision: int
    coupon: str | None = None


def _encode_small(event: Added) -> bytes:
    encoded: bytes = libipld.encode_dag_cbor(msgspec.to_builtins(event))
    return encoded


def _step_small(events: Sequence[bytes], states: States) -> None:
    read, write = libipld.decode_dag_cbor, libipld.encode_dag_cbor
    convert, to_builtins, step = msgspec.convert, msgspec.to_builtins, ingest_app.account
    for value in events:
        event = convert(read(value), Added)
        stored = states.get(event.account)
        state = None if stored is None else convert(read(stored), Account)
        states[event.account] = write(to_builtins(step(state, event).state))


def _encode_order(event: Placed) -> bytes:
    e = event
    wire = _WirePlaced(
        e.order_id, e.customer, _ns(e.placed_at), e.channel, e.currency, e.total_cents, e.tax_cents,
        e.weight_kg, e.is_express, e.note, e.lines, e.labels, e.coupon,
    )  # fmt: skip
    encoded: bytes = libipld.encode_dag_cbor(msgspec.to_builtins(wire))
    return encoded


def _step_order(events: Sequence[bytes], states: States) -> None:
    read, write = libipld.decode_dag_cbor, libipld.encode_dag_cbor
    convert, to_builtins, step = msgspec.convert, msgspec.to_builtins, ingest_order_app.order
    for value in events:
        e = convert(read(value), _WirePlaced)
        event = Placed(
            e.order_id, e.customer, _time(e.placed_at), e.channel, e.currency, e.total_cents, e.tax_cents,
            e.weight_kg, e.is_express, e.note, e.lines, e.labels, e.coupon,
        )  # fmt: skip
        stored = states.get(event.order_id)
        state = None
        if stored is not None:
            s = convert(read(stored), _WireOrder)
            state = Order(
                s.customer, _time(s.placed_at), s.channel, s.currency, s.total_cents, s.tax_cents,
                s.weight_kg, s.is_express, s.note, s.lines, s.labels, s.revision, s.coupon,
            )  # fmt: skip
        n = step(state, event).state
        wire = _WireOrder(
            n.customer, _ns(n.placed_at), n.channel, n.currency, n.total_cents, n.tax_cents, n.weight_kg,
            n.is_express, n.note, n.lines, n.labels, n.revision, n.coupon,
        )  # fmt: skip
        states[event.order_id] = write(to_builtins(wire))


def _time(ns: int) -> datetime:
    return EPOCH + timedelta(microseconds=ns // 1_000)


def _ns(time: datetime) -> int:
    return (time - EPOCH) // MICROSECOND * 1_000


SMALL = Job("small record", ingest_app.app, ingest_app.key_of, Added, _encode_small, _step_small, True)
ORDER = Job(
    "order record", ingest_order_app.app, ingest_order_app.key_of, ingest_order_app.placed, _encode_order,
    _step_order, False,
)  # fmt: skip
JOBS = (SMALL, ORDER)
