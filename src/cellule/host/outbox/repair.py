"""`effect repair`: compares a world's open intents with its rows, and makes them agree.

Rows change in the batches of frames and receipts, so there is nothing to repair unless rows were lost or
copied: after an import, a fork, a damaged store, a lost node key. An open intent without row, and without a
receipt in the inbox, gets its row again and is performed again, with the same key; but not if the grant that
allowed it was withdrawn meanwhile: it stays without row, and the report says so. Rows, places, markers of
intents that are not open are removed; so the end of a world is a repair with no intents at all.

A row that is damaged or cannot be read is removed by the world whose intent its key names; what no world
claims stays, is told by the log, and stops nobody. Every write expects what was read, but for damaged rows,
which nobody can change: beside a running pool a repair may lose, and says so as `skipped`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from cellule.errors import Conflict, Corrupted, OutcomeUnknown, Rejected
from cellule.host.cas_fetch import put_blocks
from cellule.host.limits import ATTEMPTS_MAX
from cellule.host.outbox.limits import REPAIR_PAGE
from cellule.host.outbox.receipts import KIND
from cellule.host.outbox.rows import (
    Opened,
    Stored,
    intent_of,
    marker_ids,
    marker_range,
    opening_rows,
    place_of,
    place_range,
    read_row,
    shard_range,
)
from cellule.kernel.items import Opening
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Batch, Engine
from cellule.store.sound_scan import sound_scan
from cellule.values.cbor import decode


class Wanted(NamedTuple):
    """The intents that are open and dispatched; for `withheld` ones, each with a reason, no row is made."""

    openings: Iterable[Opening]
    withheld: Mapping[bytes, str] = {}


OpenIntents = Callable[[], Awaitable[Wanted]]


@dataclass(slots=True)
class Report:
    """What was found, and changed unless it was a dry run: intents, and the keys of unreadable rows."""

    dry_run: bool
    open: int = 0  # intents that are open and dispatched
    missing: list[bytes] = field(default_factory=list)  # open, without row or receipt: written again
    orphans: list[bytes] = field(default_factory=list)  # rows of intents that are not open, or second rows
    unreadable: list[bytes] = field(default_factory=list)
    places: list[bytes] = field(default_factory=list)  # `at` rows that name no row, or not theirs
    markers: list[bytes] = field(default_factory=list)
    withheld: dict[bytes, str] = field(default_factory=dict)  # without row, and not granted any more: why
    skipped: int = 0  # changes that somebody else was faster with

    @property
    def is_clean(self) -> bool:
        """Tell whether intents and rows agreed."""
        wrong = (self.missing, self.orphans, self.unreadable, self.places, self.markers, self.withheld)
        return not any(wrong)


async def repair(
    engine: Engine, cas: Cas, world: UUID, openings: OpenIntents, now_ns: int, *, dry_run: bool = False
) -> Report:
    """Make the outbox rows of a world agree with its open, dispatched intents.

    `openings` is asked after rows and inbox were read, so what is settled meanwhile is not open in it. Rows
    written again are found by the pool's next search. May be repeated at will.
    """
    found = await _Found.read(engine, cas.universe, world)
    # A receipt in the inbox means that the row went as it should.
    answered = {intent async for intent in _answered(engine, cas.universe, world)}
    asked = await openings()
    wanted = {opening.intent: opening for opening in asked.openings}
    found.claim(wanted)
    report = Report(dry_run, len(wanted))
    changes = list(_changes(found, wanted, report))
    lost = [intent for intent in wanted if intent not in found.rows and intent not in answered]
    report.withheld = {intent: asked.withheld[intent] for intent in lost if intent in asked.withheld}
    report.missing = [intent for intent in lost if intent not in asked.withheld]
    missing = [wanted[intent] for intent in report.missing]
    if not dry_run:
        for batch in changes:
            report.skipped += not await _committed(engine, batch)
        await _write(engine, cas, opening_rows(cas.universe, world, missing, now_ns), report)
    return report


class _Found:
    """All outbox rows of one world, and what stands beside them."""

    def __init__(self) -> None:
        self.rows: dict[bytes, Stored] = {}
        self.second: list[Stored] = []
        self.unreadable: dict[bytes, bytes | None] = {}  # None where the row is damaged
        self.unclaimed: dict[bytes, bytes | None] = {}  # unreadable ones, maybe of other worlds
        self.foreign: set[bytes] = set()  # rows of other worlds in the same shard
        self.places: dict[bytes, bytes | None] = {}
        self.markers: dict[bytes, bytes | None] = {}
        self.lost_markers: set[bytes] = set()  # damaged ones, maybe of other worlds

    @classmethod
    async def read(cls, engine: Engine, universe: UUID, world: UUID) -> _Found:
        """Read everything of a world's shard."""
        found, shard = cls(), keys.shard_of(world)
        async for key, at in _scanned(engine, place_range()):
            if at is None or _shard_in(at) in (shard, None):
                found.places[intent_of(key)] = at
        async for at, value in _scanned(engine, shard_range(shard)):
            found._sort(at, value, universe, world)
        async for key, marker in _scanned(engine, marker_range()):
            if marker is None:
                found.lost_markers.add(intent_of(key))
            elif marker_ids(marker) == (universe, world):
                found.markers[intent_of(key)] = marker
        return found

    def claim(self, wanted: Collection[bytes]) -> None:
        """Of what is damaged, that is ours whose key names an intent of ours, or none at all."""
        for at, value in self.unclaimed.items():
            intent = _intent_in(at)
            if intent is None or intent in wanted:
                self.unreadable[at] = value
            else:
                self.foreign.add(at)
        for intent in self.lost_markers:
            if intent in wanted or intent in self.rows:
                self.markers[intent] = None

    def _sort(self, at: bytes, value: bytes | None, universe: UUID, world: UUID) -> None:
        owner = None if value is None else _world_in(value)
        try:
            stored = None if value is None else read_row(at, value)
        except Corrupted:
            stored = None
        if stored is None and owner is None:
            self.unclaimed[at] = value
            return
        if stored is None:
            if owner == world:
                self.unreadable[at] = value
            else:
                self.foreign.add(at)
            return
        intent = stored.row.intent
        if (stored.row.universe, stored.row.world) != (universe, world):
            self.foreign.add(at)
        elif intent not in self.rows:
            self.rows[intent] = stored
        elif self.places.get(intent) == at:
            self.second.append(self.rows[intent])
            self.rows[intent] = stored
        else:
            self.second.append(stored)


def _changes(found: _Found, wanted: Mapping[bytes, Opening], report: Report) -> Iterator[Batch]:
    """What removes everything that should not be there."""
    for intent, stored in found.rows.items():
        if intent not in wanted:
            report.orphans.append(intent)
            yield Batch(expect={stored.at: stored.value}, clear=[stored.at, stored.place])
        # The row is right, but who looks for it by its id would not find it.
        elif found.places.get(intent) != stored.at:
            report.places.append(intent)
            yield Batch(expect={stored.at: stored.value}, set={stored.place: stored.at})
    for stored in found.second:
        report.orphans.append(stored.row.intent)
        yield Batch(expect={stored.at: stored.value}, clear=[stored.at])
    for at, value in found.unreadable.items():
        report.unreadable.append(at)
        yield _cleared(at, value)
    for intent, place in found.places.items():
        if intent not in found.rows and place not in found.foreign:
            report.places.append(intent)
            yield _cleared(keys.effect_at(intent), place)
    for intent, marker in found.markers.items():
        report.markers.append(intent)
        yield _cleared(keys.effect_cancel(intent), marker)


def _cleared(key: bytes, value: bytes | None) -> Batch:
    """Clear a row that holds this; a damaged one cannot be compared."""
    return Batch(expect={} if value is None else {key: value}, clear=[key])


async def _write(engine: Engine, cas: Cas, opened: Opened, report: Report) -> None:
    since = await cas.generation()
    await put_blocks(cas, opened.blocks)
    for stored in opened.stored:
        parts = await cas.witness(since)
        rows = {stored.at: stored.value, stored.place: stored.at}
        batch = parts.into(Batch(expect={stored.place: None}, set=rows))
        report.skipped += not await _committed(engine, batch)


async def _committed(engine: Engine, batch: Batch) -> bool:
    """Commit a batch that may be repeated; False if what it expects is not there any more."""
    unknown: OutcomeUnknown | None = None
    for _ in range(ATTEMPTS_MAX):
        try:
            await engine.commit(batch)
        except OutcomeUnknown as error:
            unknown = error
        except Conflict:
            return unknown is not None
        else:
            return True
    assert unknown is not None
    raise unknown


async def _answered(engine: Engine, universe: UUID, world: UUID) -> AsyncIterator[bytes]:
    """The intents whose receipts wait in the inbox."""
    async for _, value in _scanned(engine, keys.inbox_range(universe, world)):
        try:
            item: Any = None if value is None else decode(value)
        except Rejected:
            continue
        if isinstance(item, dict) and item.get("kind") == KIND and isinstance(item.get("intent"), bytes):
            yield item["intent"]


async def _scanned(engine: Engine, wanted: keys.Range) -> AsyncIterator[tuple[bytes, bytes | None]]:
    """Rows in order; without a value where they are damaged."""
    begin, end = wanted
    while True:
        page, damaged = await sound_scan(engine, begin, end, limit=REPAIR_PAGE)
        rows = sorted({**dict(page.items), **dict.fromkeys(damaged)}.items())
        for row in rows:
            yield row
        if not page.more:
            return
        begin = rows[-1][0] + b"\0"


def _shard_in(at: bytes) -> int | None:
    try:
        return place_of(at)[0]
    except (Rejected, ValueError):
        return None


def _intent_in(at: bytes) -> bytes | None:
    try:
        return place_of(at)[3]
    except (Rejected, ValueError):
        return None


def _world_in(value: bytes) -> UUID | None:
    """Whose row an unreadable one is, if that can still be told."""
    try:
        row: Any = decode(value)
        return UUID(bytes=row["world"])
    except (Rejected, LookupError, TypeError, ValueError):
        return None
