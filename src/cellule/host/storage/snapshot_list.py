"""The kept snapshots of a world: what each is of, and from which height on it needs history.

The horizon of a snapshot is the height of its oldest open intent, or the next height where none is open. What
settles an intent looks at the record that opened it, so history at or above the horizon of the oldest kept
snapshot is never dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cellule.errors import Corrupted, Rejected
from cellule.host.cas_fetch import fetch_block
from cellule.host.limits import SNAPSHOTS_KEPT_MAX
from cellule.host.own.directory import WorldInfo, baseline_of
from cellule.kernel.index.chunk import Chunk
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Engine
from cellule.values.cbor import decode_trusted
from cellule.values.cid import Cid

_HEIGHT_BYTES = 8  # an intent's key begins with its height


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    """A snapshot that a world keeps."""

    height: int
    cid: Cid
    beat: int
    now_ns: int
    horizon: int  # the oldest height that restoring from here may look at
    is_baseline: bool


async def kept_snapshots(engine: Engine, cas: Cas, info: WorldInfo) -> list[KeptSnapshot]:
    """All kept snapshots of a world, oldest first."""
    begin, end = keys.snapshot_range(info.universe, info.id)
    page = await engine.scan(begin, end, limit=SNAPSHOTS_KEPT_MAX * 2)
    [baseline] = await engine.read([keys.world_baseline(info.universe, info.id)])
    chosen = None if baseline is None else baseline_of(baseline)[0]
    found = []
    for key, value in page.items:
        height, cid = keys.snapshot_height(key), Cid.of_bytes(value)
        try:
            snapshot = await _snapshot(cas, cid)
            horizon = await _horizon(cas, snapshot)
        except (Corrupted, Rejected):
            if await engine.read([key]) == [value]:
                raise
            continue  # another one took its place, and it was collected, while they were listed
        found.append(
            KeptSnapshot(height, cid, snapshot["beat"], snapshot["now_ns"], horizon, height == chosen)
        )
    return found


async def horizon_of(cas: Cas, cid: Cid) -> int:
    """The oldest height that restoring from a snapshot may look at."""
    return await _horizon(cas, await _snapshot(cas, cid))


async def _snapshot(cas: Cas, cid: Cid) -> Any:
    try:
        return decode_trusted(await cas.get(cid))
    except Rejected as error:
        raise Corrupted(
            "host.snapshot_missing", "a kept snapshot is not stored: {why}", why=error,
            hint="Run `cellule check`, and restore a backup.",
        ) from error  # fmt: skip


async def _horizon(cas: Cas, snapshot: Any) -> int:
    intents = snapshot["intents"]
    if intents is None:
        return int(snapshot["height"]) + 1
    cid: Cid = intents[0].cid
    while True:
        chunk = Chunk(cid, await fetch_block(cas, cid), None, None)
        if not chunk.level:
            return int.from_bytes(chunk.keys[0][:_HEIGHT_BYTES], "big")
        cid = chunk.child(0)
