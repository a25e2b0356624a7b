"""History that is dropped for ever, where a world is told to: what its oldest kept snapshot does not need.

    segments/<last> = {first, last}      heights that are gone, one row at the lower end

Dropped are whole segments below the oldest kept snapshot, below its horizon, and below every hold. The first
snapshot, of the empty world, goes with them: nothing can be replayed from it any more. One batch, which
expects the rows it read, sets the row of what is gone and clears those it covers; blocks are collected.
"""

from __future__ import annotations

from dataclasses import dataclass

from cellule.errors import Conflict, Rejected
from cellule.host.limits import ATTEMPTS_MAX, HOLDS_MAX
from cellule.host.own.counted_rows import clear_counted, set_counted, sound_rows
from cellule.host.own.directory import WorldInfo, lost_row, world_rows
from cellule.host.segments import Segment
from cellule.host.storage.policy import read_retention
from cellule.host.storage.snapshot_list import horizon_of
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Batch, Engine
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid

_SEGMENTS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Hold:
    """Somebody needs the history of a world from a height on."""

    name: str
    height: int


async def hold_history(engine: Engine, info: WorldInfo, name: str, height: int) -> None:
    """Keep the history from a height on; the same name again moves it. For projections and audits."""
    if height < 1:
        raise Rejected("host.hold_height", "a hold begins at a height from 1, not {height}", height=height)
    known = {each.name for each in await holds(engine, info)}
    if name not in known and len(known) >= HOLDS_MAX:
        raise Rejected("host.holds_max", "world {world} has {most} holds", world=info.name, most=HOLDS_MAX)
    listing = keys.universe_world(info.universe, info.id)
    [listed] = await engine.read([listing])
    if listed is None:
        raise await lost_row(engine, info, "its row in the list of worlds")
    key = keys.history_hold(info.universe, info.id, name)
    await set_counted(engine, key, encode(height), _count(info), {listing: listed})


async def release_history(engine: Engine, info: WorldInfo, name: str) -> None:
    """Remove a hold; `Rejected` where there is none of that name."""
    key = keys.history_hold(info.universe, info.id, name)
    await holds(engine, info)  # one that is hidden is damage, and not one that is not there
    if not await clear_counted(engine, key, _count(info)):
        raise Rejected("host.no_hold", "world {world} has no hold {name}", world=info.name, name=name)


async def holds(engine: Engine, info: WorldInfo) -> list[Hold]:
    """The holds of a world's history, by name; `Corrupted` where one is hidden, or is none."""
    bounds = keys.history_hold_range(info.universe, info.id)
    rows = await sound_rows(engine, bounds, _count(info), f"holds of world {info.name}")
    return [_hold(info, keys.history_hold_name(key), decode(value)) for key, value in rows]


def _hold(info: WorldInfo, name: str, height: object) -> Hold:
    if not isinstance(height, int):
        raise world_rows(info.name, f"the height of its hold {name}")
    return Hold(name, height)


def _count(info: WorldInfo) -> bytes:
    return keys.row_count("holds", info.universe, info.id)


async def drop_history(engine: Engine, cas: Cas, info: WorldInfo) -> int:
    """Drop what may go if the world is told to; returns the last height that is gone, 0 if none is."""
    owner = (info.universe, info.id)
    gone = 0
    for _ in range(ATTEMPTS_MAX):
        gone, rows = await _segments(engine, info)
        if (await read_retention(engine, *owner)).history == "keep":
            return gone
        snapshots, expect = await _snapshots(engine, info)
        floor = await _floor(engine, cas, info, snapshots)
        doomed = [each for each in rows if each.block is not None and each.last <= floor]
        if not doomed:
            return gone
        last = doomed[-1].last
        merged = Segment(rows[0].first, last)
        covered = [each for each in rows if each.last <= last]
        expect |= {keys.segment(*owner, each.last): each.row() for each in covered}
        clear = [keys.segment(*owner, each.last) for each in covered[:-1]]
        clear += [keys.snapshot(*owner, height) for height in snapshots if height < last]
        try:
            await engine.commit(
                Batch(expect=expect, set={keys.segment(*owner, last): merged.row()}, clear=clear)
            )
        except Conflict:
            continue
        return last
    return gone


async def _segments(engine: Engine, info: WorldInfo) -> tuple[int, list[Segment]]:
    """The last height that is gone, and the oldest rows of segments."""
    begin, end = keys.segment_range(info.universe, info.id)
    page = await engine.scan(begin, end, limit=_SEGMENTS_AT_ONCE)
    rows = [Segment.of_row(value) for _, value in page.items]
    gone = rows[0].last if rows and rows[0].block is None else 0
    return gone, rows


async def _snapshots(engine: Engine, info: WorldInfo) -> tuple[dict[int, Cid], dict[bytes, bytes | None]]:
    """The kept snapshots by height, and what a batch expects that relies on them."""
    begin, end = keys.snapshot_range(info.universe, info.id)
    page = await engine.scan(begin, end, limit=_SEGMENTS_AT_ONCE)
    found = {keys.snapshot_height(key): Cid.of_bytes(value) for key, value in page.items}
    baseline = keys.world_baseline(info.universe, info.id)
    [stored] = await engine.read([baseline])
    return found, {baseline: stored, **dict(page.items)}


async def _floor(engine: Engine, cas: Cas, info: WorldInfo, snapshots: dict[int, Cid]) -> int:
    """The last height that nobody needs any more."""
    later = sorted(height for height in snapshots if height > info.lineage.fork_height)
    if not later:
        return 0
    needed = [later[0] + 1, await horizon_of(cas, snapshots[later[0]])]
    needed += [each.height for each in await holds(engine, info)]
    return min(needed) - 1
