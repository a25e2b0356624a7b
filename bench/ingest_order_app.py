"""The app of the typical record in `ingest`: orders of a dozen fields with lines, a time and a map."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from cellule import App, Step

app = App("benchorders")

START = datetime(2026, 1, 1, tzinfo=UTC)


class Line(msgspec.Struct, frozen=True):
    sku: str
    quantity: int
    price_cents: int


@app.event(key="order_id")
class Placed(msgspec.Struct, frozen=True):
    order_id: str
    customer: str
    placed_at: datetime
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


class Order(msgspec.Struct, frozen=True):
    customer: str
    placed_at: datetime
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


@app.reducer
def order(state: Order | None, event: Placed) -> Step[Order]:
    """Keep the newest lines, and add up."""
    total, tax, revision = event.total_cents, event.tax_cents, 1
    if state is not None:
        total, tax, revision = state.total_cents + total, state.tax_cents + tax, state.revision + 1
    return Step(
        Order(
            event.customer, event.placed_at, event.channel, event.currency, total, tax, event.weight_kg,
            event.is_express, event.note, event.lines, event.labels, revision, event.coupon,
        )
    )  # fmt: skip


def key_of(number: int) -> str:
    """The id of an order."""
    return f"order-{number:08d}"


def placed(order_id: str, number: int) -> Placed:
    """The event of that number."""
    lines = [Line(f"sku-{(number + at) % 997:05d}", 1 + at, 250 + number % 5_000) for at in range(3)]
    total = sum(line.quantity * line.price_cents for line in lines)
    return Placed(
        order_id, f"customer-{number % 311:04d}", START + timedelta(seconds=number), "web", "EUR", total,
        total // 5, 0.25 + number % 40, number % 7 == 0, "leave it at the door", lines,
        {"campaign": "spring", "warehouse": f"w{number % 9}"}, "WELCOME" if number % 3 == 0 else None,
    )  # fmt: skip
