"""What a world takes on disk: its frames, the nodes of its newest snapshot, and the whole file."""

from __future__ import annotations

from pathlib import Path

import cellule
from bench.growth_child import WORLD
from bench.report import Row, measured
from cellule.host.journal import Journal
from cellule.host.own.directory import baseline_of
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.store import DATABASE
from cellule.values.cbor import links_of
from cellule.values.cid import Cid

FETCH = 500


async def disk_rows(folder: Path, case: str, cells: int) -> list[Row]:
    """Bytes by event and by dormant cell of a world that got one event a cell."""
    async with cellule.open(folder, options=cellule.Options(own=False)) as node:
        world = await node.world(WORLD)
        engine = node.node.engine
        head = await world.head()
        frames = Journal(engine, node.node.cas(world.info.universe), world.info.lineage)
        journal = sum([len(data) async for _, data in frames.frames(1, head.height)])
        [stored] = await engine.read([keys.world_baseline(world.info.universe, world.id)])
        assert stored is not None
        snapshot = await _size(node.node.cas(world.info.universe), baseline_of(stored)[1])
    return [
        measured("growth", case, "journal, an event", journal / cells, "bytes"),
        measured("growth", case, "snapshot, a dormant cell", snapshot / cells, "bytes"),
        measured("growth", case, "file, a cell with its one event", _file(folder) / cells, "bytes"),
    ]


async def _size(cas: Cas, root: Cid) -> int:
    """The bytes of everything a node leads to, each object once."""
    seen = {root}
    waiting = [root]
    size = 0
    while waiting:
        group, waiting = waiting[-FETCH:], waiting[:-FETCH]
        for cid, data in (await cas.get_many(group)).items():
            size += len(data)
            if cid.codec == "dag-cbor":
                found = [link for link in links_of(data) if link not in seen]
                seen.update(found)
                waiting.extend(found)
    return size


def _file(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(f"{DATABASE}*"))
