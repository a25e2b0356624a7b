"""The same job with the `eventsourcing` library: SQLite, its cache on, everything else as it comes."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event


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


class Accounts:
    """An application of the library with one aggregate for each key; saved = durable."""

    def __init__(self, path: Path, count: int) -> None:
        self._app = Application[UUID](
            env={
                "PERSISTENCE_MODULE": "eventsourcing.sqlite",
                "SQLITE_DBNAME": str(path),
                "AGGREGATE_CACHE_MAXSIZE": str(2 * count),
            }
        )
        made = [Account() for _ in range(count)]
        self._app.save(*made)
        self._ids = [each.id for each in made]
        for each in self._ids:
            self._app.repository.get(each)  # all of them are in its cache

    def run(self, numbers: range) -> None:
        """Add to one account after another."""
        get, save, ids = self._app.repository.get, self._app.save, self._ids
        for number in numbers:
            found: Account = get(ids[number % len(ids)])
            found.add(number)
            save(found)

    def close(self) -> None:
        """Let the file go."""
        self._app.close()
