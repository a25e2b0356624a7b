"""The module that the kernel benchmark runs: an order of seven fields, moved by an event of four."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from cellule.kernel.items import EventItem, Pace
from cellule.modules.python import PythonPrograms, describe, manifest_document
from cellule.values.schema import codec_for, derive
from tests.support.kernel_world import KernelWorld

BASE = "bench/order"
EVENT = "bench/Paid@1"


class Paid(msgspec.Struct, frozen=True):
    order_id: str
    amount: float
    method: str
    at_ns: int


class Order(msgspec.Struct, frozen=True):
    order_id: str
    status: str
    method: str
    paid: float
    payments: int
    is_open: bool
    at_ns: int


def order(state: Order | None, event: Paid) -> Order:
    """Count one payment."""
    if state is None:
        return Order(event.order_id, "paying", event.method, event.amount, 1, True, event.at_ns)
    paid = state.paid + event.amount
    status = "paid" if paid > 100.0 else "paying"
    return Order(state.order_id, status, event.method, paid, state.payments + 1, paid < 1e6, event.at_ns)


PAID_CODEC = codec_for(derive(Paid, namespace="bench", version=1))


def key_of(number: int) -> str:
    return f"order-{number:08d}"


def event_bytes(number: int, turn: int) -> bytes:
    """The encoded event of one order in one turn."""
    return PAID_CODEC.encode(Paid(key_of(number), 1.0 + number % 7, "card", 1_700_000_000_000_000_000 + turn))


def event_items(numbers: Iterator[int] | range, turn: int) -> list[EventItem]:
    """What a host hands to a beat: one event for each order."""
    return [EventItem(EVENT, event_bytes(number, turn)) for number in numbers]


@contextmanager
def new_world(steps_max: int = 100_000) -> Iterator[KernelWorld]:
    """An empty world of orders, whose beats take `steps_max` steps."""
    description: Any = describe(order, namespace="bench", key="order_id", live=True)
    programs = PythonPrograms(live=[description])
    try:
        yield KernelWorld(manifest_document([description]), programs, pace=Pace(steps_max, steps_max))
    finally:
        programs.close()
