"""Whether the parts of a snapshot that tell of intents fit each other: for `check`.

Each part is proven on its own before (`saved.py`). Here: every timer of an intent has its intent and the
other way round, idempotency keys know the intents that stand for them and those that wait, the counts count
what is there. What is wrong is answered as a text; nothing is read and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cellule.kernel.index.keys import pair_key, pair_of
from cellule.kernel.state.intent_book import Book
from cellule.kernel.state.intent_id import idempotency_hash, params_digest
from cellule.kernel.state.rows import (
    DENIED,
    HELD,
    OPEN,
    OUTSIDE,
    PARKED,
    TIMER,
    WAITING,
    KnownKey,
    OpenIntent,
    TimerRow,
)

_OF_INTENTS = ("intent", "approval", "outside")
Life = tuple[str, bytes, int]
"""A cell's incarnation: module, key, born."""


@dataclass(frozen=True, slots=True)
class BookRows:
    """The rows of a snapshot's indexes, by their keys; intents by the height of their record."""

    intents: Mapping[int, OpenIntent]
    timers: Mapping[bytes, TimerRow]
    keys: Mapping[bytes, KnownKey]
    ages: Mapping[bytes, bytes]

    def of_lives(self) -> dict[Life, list[int]]:
        """The open intents of each cell that asked, in their order."""
        found: dict[Life, list[int]] = {}
        for height, intent in self.intents.items():
            found.setdefault((intent.module, intent.key, intent.born), []).append(height)
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
    numbers = {PARKED: 0, TIMER: 0}
    for height, intent in rows.intents.items():
        status, base = intent.status, intent.module
        if status == DENIED:
            yield f"intent {height} is denied and has no receipt"
        if status in (OPEN, HELD):
            counts[base] = counts.get(base, 0) + 1
        elif status in (TIMER, OUTSIDE):
            numbers[TIMER] += 1
        elif status == PARKED:
            numbers[PARKED] += 1
    if counts != book.counts or numbers != {PARKED: book.parked, TIMER: book.timers}:
        yield "the counts of open intents are not those of the intents"
    if not book.over <= set(counts):
        yield "a module without open intents is at its limit of them"


def _timers(rows: BookRows) -> Iterator[str]:
    due = {}
    for height, intent in rows.intents.items():
        if "due" in intent.extras:
            what = {TIMER: "intent", OUTSIDE: "outside"}.get(intent.status, "approval")
            due[intent.extras["due"]] = TimerRow(what, intent.module, intent.key, height)
        if ("due" in intent.extras) != (intent.status in (TIMER, OUTSIDE)) and intent.status != PARKED:
            yield f"intent {height} is {intent.status}, which does not fit its timer"
    armed = {key: row for key, row in rows.timers.items() if row.what in _OF_INTENTS}
    if armed != due:
        yield "the timers of intents are not those of the intents"


def _schedules(book: Book, rows: BookRows) -> Iterator[str]:
    armed = sorted(
        (row.module, pair_of(key)[0]) for key, row in rows.timers.items() if row.what == "schedule"
    )
    due = sorted((name, row.due_ns) for name, row in book.schedules.items() if row.due_ns)
    if armed != due:
        yield "the timers of schedules are not those of the schedules"
    if any(row.paused and (row.due_ns or row.waiting_ns) for row in book.schedules.values()):
        yield "a schedule is paused, and armed or waiting"


def _keys(rows: BookRows) -> Iterator[str]:
    """Every idempotency key knows intents that are there."""
    answered = {row.key for row in rows.timers.values() if row.what == "answer"}
    for place, (height, _, receipt, waiters, params) in rows.keys.items():
        first = rows.intents.get(height)
        if receipt is not None:
            # Those who wait for an answered key are told over several beats; a timer stands for them.
            if waiters and place not in answered:
                yield f"intent {waiters[0]} waits for a receipt that has come"
        elif first is None or first.status == WAITING or _place(first) != place:
            yield f"intent {height} does not stand for its idempotency key"
        elif params_digest(first.extras["params"]) != params:
            yield f"intent {height} asks for something else than its idempotency key stands for"
        for waiter in waiters:
            other = rows.intents.get(waiter)
            if other is None or other.status != WAITING or _place(other) != place:
                yield f"intent {waiter} does not wait for intent {height}"
            elif params_digest(other.extras["params"]) != params:
                yield f"intent {waiter} waits for the receipt of other params"


def _keyed(rows: BookRows) -> Iterator[str]:
    """Every intent with an idempotency key is known to it."""
    for height, intent in rows.intents.items():
        place = _place(intent)
        if place is None:
            if intent.status == WAITING:
                yield f"intent {height} waits and has no idempotency key"
            continue
        known = rows.keys.get(place)
        heights: Sequence[int] = ()
        if known is not None and intent.status == WAITING:
            heights = known.waiters
        elif known is not None and known.receipt is None:
            heights = (known.height,)
        if height not in heights:
            yield f"intent {height} is not known to its idempotency key"


def _place(intent: OpenIntent) -> bytes | None:
    key = intent.extras.get("key")
    return None if key is None else idempotency_hash(intent.module, intent.kind, key)


def _ages(rows: BookRows) -> Iterator[str]:
    ages = {pair_key(known.since_ns, known.height): place for place, known in rows.keys.items()}
    if any(ages.get(age) != place for age, place in rows.ages.items()):
        yield "an idempotency key is remembered for another time"
    if any(
        known.receipt is not None and pair_key(known.since_ns, known.height) not in rows.ages
        for known in rows.keys.values()
    ):
        yield "an idempotency key would never be forgotten"
