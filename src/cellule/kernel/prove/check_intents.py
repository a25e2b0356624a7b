"""Whether the parts of a snapshot that tell of intents fit each other: for `check`.

Each part is proven on its own before (`saved.py`). Here: every timer of an intent has its intent and the
other way round, idempotency keys know the intents that stand for them and those that wait, the counts count
what is there. What is wrong is answered as a text; nothing is read and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cellule.kernel.index.keys import pair_key, pair_of
from cellule.kernel.state import intent_book as books
from cellule.kernel.state.intent_book import Book
from cellule.kernel.state.intent_id import idempotency_hash

Row = list[Any]
Life = tuple[str, bytes, int]
"""A cell's incarnation: module, key, born."""


@dataclass(frozen=True, slots=True)
class BookRows:
    """The rows of a snapshot's indexes, by their keys; intents by the height of their record."""

    intents: Mapping[int, Row]
    timers: Mapping[bytes, Row]
    keys: Mapping[bytes, Row]
    ages: Mapping[bytes, bytes]

    def of_lives(self) -> dict[Life, list[int]]:
        """The open intents of each cell that asked, in their order."""
        found: dict[Life, list[int]] = {}
        for height, (_, base, key, born, _, _, _) in self.intents.items():
            found.setdefault((base, key, born), []).append(height)
        return found


def wrong_book(book: Book, rows: BookRows) -> str | None:
    """The first thing that does not fit, or None."""
    parts = (
        _counts(book, rows),
        _timers(rows),
        _schedules(book, rows),
        _keys(rows),
        _keyed(rows),
        _ages(rows),
    )
    return next((wrong for part in parts for wrong in part), None)


def _counts(book: Book, rows: BookRows) -> Iterator[str]:
    counts: dict[str, int] = {}
    numbers = {books.PARKED: 0, books.TIMER: 0}
    for height, (_, base, _, _, _, status, _) in rows.intents.items():
        if status == books.DENIED:
            yield f"intent {height} is denied and has no receipt"
        if status == books.OPEN:
            counts[base] = counts.get(base, 0) + 1
        elif status in numbers:
            numbers[status] += 1
    if counts != book.counts or numbers != {books.PARKED: book.parked, books.TIMER: book.timers}:
        yield "the counts of open intents are not those of the intents"
    if not book.over <= set(counts):
        yield "a module without open intents is at its limit of them"


def _timers(rows: BookRows) -> Iterator[str]:
    due = {}
    for height, entry in rows.intents.items():
        if "due" in entry[6]:
            what = "intent" if entry[5] == books.TIMER else "approval"
            due[entry[6]["due"]] = [what, entry[1], entry[2], height]
        if ("due" in entry[6]) != (entry[5] == books.TIMER) and entry[5] != books.PARKED:
            yield f"intent {height} is {entry[5]}, which does not fit its timer"
    armed = {key: row for key, row in rows.timers.items() if row[0] in ("intent", "approval")}
    if armed != due:
        yield "the timers of intents are not those of the intents"


def _schedules(book: Book, rows: BookRows) -> Iterator[str]:
    armed = sorted((row[1], pair_of(key)[0]) for key, row in rows.timers.items() if row[0] == "schedule")
    due = sorted((name, row[1]) for name, row in book.schedules.items() if row[1])
    if armed != due:
        yield "the timers of schedules are not those of the schedules"
    if any(row[1] and row[2] for row in book.schedules.values()):
        yield "a schedule is paused and armed"


def _keys(rows: BookRows) -> Iterator[str]:
    """Every idempotency key knows intents that are there."""
    for place, (height, _, receipt, waiters) in rows.keys.items():
        if receipt is not None:
            if waiters:
                yield f"intent {waiters[0]} waits for a receipt that has come"
            continue
        first = rows.intents.get(height)
        if first is None or first[5] == books.WAITING or _place(first) != place:
            yield f"intent {height} does not stand for its idempotency key"
        for waiter in waiters:
            entry = rows.intents.get(waiter)
            if entry is None or entry[5] != books.WAITING or _place(entry) != place:
                yield f"intent {waiter} does not wait for intent {height}"


def _keyed(rows: BookRows) -> Iterator[str]:
    """Every intent with an idempotency key is known to it."""
    for height, entry in rows.intents.items():
        place = _place(entry)
        if place is None:
            if entry[5] == books.WAITING:
                yield f"intent {height} waits and has no idempotency key"
            continue
        known = rows.keys.get(place)
        is_known = known is not None and known[2] is None
        if not is_known or height not in (known[3] if entry[5] == books.WAITING else known[:1]):  # type: ignore[index]
            yield f"intent {height} is not known to its idempotency key"


def _place(entry: Row) -> bytes | None:
    key = entry[6].get("key")
    return None if key is None else idempotency_hash(entry[4], key)


def _ages(rows: BookRows) -> Iterator[str]:
    ages = {pair_key(known[1], known[0]): place for place, known in rows.keys.items()}
    if any(ages.get(age) != place for age, place in rows.ages.items()):
        yield "an idempotency key is remembered for another time"
    if any(
        known[2] is not None and pair_key(known[1], known[0]) not in rows.ages for known in rows.keys.values()
    ):
        yield "an idempotency key would never be forgotten"
