"""Sales of many shops: the numbers of each shop and hour."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import msgspec

from cellule import App

app = App("shop")


@app.event(key="shop")
class Sold(msgspec.Struct, frozen=True):
    """One sale, at the time of the till."""

    shop: str
    amount: Decimal
    customer: str
    sold_at: datetime


@app.event(key="shop")
class ShopClosed(msgspec.Struct, frozen=True):
    """The shop is done for the day: its open hours are complete."""

    shop: str


sales = app.aggregate(
    "sales",
    Sold,
    measures={
        "orders": "count",
        "revenue": "sum(amount)",
        "average": "avg(amount)",
        "largest": "max(amount)",
        "customers": "distinct(customer)",
    },
    window=timedelta(hours=1),
    at="sold_at",
    grace=timedelta(minutes=5),
    closes=[ShopClosed],
)
