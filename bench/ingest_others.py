"""The same jobs with the `eventsourcing` library: SQLite, its cache on, everything else as it comes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

from bench.ingest_jobs import SMALL, Job
from bench.ingest_order_app import placed


class Account(Aggregate):
    """An account that adds up what comes in."""

    def __init__(self) -> None:
        self.balance = 0
        self.times = 0

    @event("Added")
    def add(self, amount: int) -> None:
        """Read, add, write."""
        self.balance += amount
        self.times += 1


class Order(Aggregate):
    """An order that keeps the newest fields, and adds up."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.total_cents = self.tax_cents = self.revision = 0

    @event("Placed")
    def place(self, fields: dict[str, Any]) -> None:
        """Keep the newest lines, and add up."""
        self.fields = fields
        self.total_cents += fields["total_cents"]
        self.tax_cents += fields["tax_cents"]
        self.revision += 1


def _add(found: Account, number: int) -> None:
    found.add(number)


def _place(found: Order, number: int) -> None:
    found.place(msgspec.to_builtins(placed("", number), builtin_types=[_TIME]))


_TIME = type(placed("", 0).placed_at)  # stays what it is: that library writes times by itself


class Others:
    """An application of the library with one aggregate for each key; saved = durable."""

    def __init__(self, path: Path, count: int, job: Job) -> None:
        self._app = Application[UUID](
            env={
                "PERSISTENCE_MODULE": "eventsourcing.sqlite",
                "SQLITE_DBNAME": str(path),
                "AGGREGATE_CACHE_MAXSIZE": str(2 * count),
            }
        )
        kind: Callable[[], Aggregate] = Account if job is SMALL else Order
        self._change: Callable[[Any, int], None] = _add if job is SMALL else _place
        made = [kind() for _ in range(count)]
        self._app.save(*made)
        self._ids = [each.id for each in made]
        for each in self._ids:
            self._app.repository.get(each)  # all of them are in its cache

    def run(self, numbers: range) -> None:
        """Change one aggregate after another."""
        get, save, ids, change = self._app.repository.get, self._app.save, self._ids, self._change
        for number in numbers:
            found: Any = get(ids[number % len(ids)])
            change(found, number)
            save(found)

    def close(self) -> None:
        """Let the file go."""
        self._app.close()
