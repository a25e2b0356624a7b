"""The roots of a universe: everything stored that links a block, and so keeps it and what it links.

    pins that did not expire | rows of the outbox
    of each world: its own row, items in the inbox and aside, frames in rows, segments, kept
    snapshots, the baseline

What moves is looked for where it comes from first: an item is read before the frame that admits it, a frame
in rows before the segment that it goes to. A world that is deleted meanwhile has no roots.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID

from cellule.errors import CelluleError
from cellule.host.limits import ATTEMPTS_MAX, ROOTS_PAGE
from cellule.host.outbox.rows import place_range
from cellule.host.own.directory import WorldInfo, baseline_of
from cellule.host.storage.pins import stored_pins
from cellule.host.storage.tail import tail_frames
from cellule.kernel.journal.links import Links, links_given, links_of_block, links_of_frame
from cellule.store import keys
from cellule.store.engine import Engine
from cellule.store.keys import Range
from cellule.values.cbor import decode
from cellule.values.cid import Cid


@dataclass(frozen=True, slots=True)
class Root:
    """One place that keeps blocks: what it is, and what it links."""

    what: str
    links: Links


async def universe_roots(engine: Engine, universe: UUID, now_ns: int) -> AsyncIterator[Root]:
    """The roots that belong to no world: pins, and effects that wait to be performed."""
    for pin in await stored_pins(engine, universe):
        if pin.until_ns > now_ns:
            yield Root(f"pin {pin.id} ({pin.why})", Links(set(), set(pin.cids)))
    async for value in _outbox(engine):
        if universe.bytes in value:  # rows of all universes stand there
            yield Root("an effect in the outbox", links_of_block(value))


async def world_roots(engine: Engine, universe: UUID, info: WorldInfo) -> AsyncIterator[Root]:
    """The roots of one world."""
    owner = (universe, info.id)
    name = f"world {info.name}"
    [row] = await engine.read([keys.world_meta(*owner)])
    if row is not None:
        yield Root(f"{name}, what it was forked with", links_of_block(row))
    for what, place in (("inbox", keys.inbox_range(*owner)), ("items set aside", keys.aside_range(*owner))):
        async for _, value in _rows(engine, place):
            yield Root(f"{name}, {what}", _links_of_row(value))
    async for height, frame in tail_frames(engine, *owner):
        yield Root(f"{name}, journal, frame {height}", links_of_frame(frame))
    async for _, value in _rows(engine, keys.segment_range(*owner)):
        yield Root(f"{name}, a segment of the journal", links_of_block(value))
    async for key, value in _rows(engine, keys.snapshot_range(*owner)):
        height = keys.snapshot_height(key)
        yield Root(f"{name}, snapshot {height}", Links({Cid.of_bytes(value)}, set()))
    baseline, own = await engine.read([keys.world_baseline(*owner), keys.world_meta(*owner)])
    if own is not None:  # the answers of a fork, until its first frame links them
        yield Root(f"{name}, its own row", links_of_block(own))
    if baseline is not None:
        height, cid = baseline_of(baseline)
        yield Root(f"{name}, baseline {height}", Links({cid}, set()))


def _links_of_row(value: bytes) -> Links:
    """What a row of the inbox links, whoever wrote it: it may be no value, and name what was never stored."""
    try:
        return Links(set(), links_given(decode(value)))
    except CelluleError:
        return Links(set(), set())


async def _outbox(engine: Engine) -> AsyncIterator[bytes]:
    """The rows of the outbox, found by their places: the rows themselves move, even to the front."""
    begin, end = place_range()
    while True:
        page = await engine.scan(begin, end, limit=ROOTS_PAGE)
        places, rows = [key for key, _ in page.items], [row for _, row in page.items]
        for _ in range(ATTEMPTS_MAX):
            values = await engine.read(rows) if rows else []
            for value in values:
                if value is not None:
                    yield value
            moved = [place for place, value in zip(places, values, strict=True) if value is None]
            found = await engine.read(moved) if moved else []
            places = [place for place, row in zip(moved, found, strict=True) if row is not None]
            rows = [row for row in found if row is not None]
        if not page.more:
            return
        begin = page.items[-1][0] + b"\0"


async def _rows(engine: Engine, place: Range) -> AsyncIterator[tuple[bytes, bytes]]:
    begin, end = place
    while True:
        page = await engine.scan(begin, end, limit=ROOTS_PAGE)
        for row in page.items:
            yield row
        if not page.more:
            return
        begin = page.items[-1][0] + b"\0"
