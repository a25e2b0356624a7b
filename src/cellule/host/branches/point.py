"""A point of a world for comparing: the root of its state, and the records that led there.

A kept snapshot is read as it is. Otherwise the world is restored in memory up to there; the blocks that only
its root needs stay in memory, too, and nothing is written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cellule.errors import Corrupted
from cellule.host.branches.fork import At, height_of
from cellule.host.cas_fetch import drive, fetch_block, fetch_present
from cellule.host.journal import Journal, Progress
from cellule.host.node import Node
from cellule.host.own.directory import WorldInfo
from cellule.host.read.reader import Reader
from cellule.kernel.journal.frame import Frame
from cellule.kernel.key_ring import KeyRing
from cellule.kernel.lineage import Lineage
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.need import Need, Nodes, Pause
from cellule.kernel.state.cells import Entry
from cellule.kernel.state.log_state import joined
from cellule.store.cas import Cas
from cellule.values.cbor import decode
from cellule.values.cid import Cid
from cellule.values.link import Link

T = TypeVar("T")


@dataclass(slots=True)
class WorldPoint:
    """A world at a height. `blocks` are in memory only, and so are `made`, its newest frames."""

    name: str
    lineage: Lineage
    height: int
    root: Cid
    cas: Cas
    reader: Reader
    blocks: dict[Cid, bytes] = field(default_factory=dict)
    made: Sequence[Frame] = ()
    ring: KeyRing | None = None  # keys that are in memory only
    _manifests: dict[Cid, Manifest] = field(default_factory=dict)
    _snapshot: Any = None

    async def snapshot(self) -> Any:
        """The root of its state, decoded."""
        if self._snapshot is None:
            self._snapshot = decode(await self.bytes_of(self.root))
        return self._snapshot

    async def manifest(self, era: int = -1) -> Manifest:
        """The manifest of an era; by default of the newest."""
        eras = (await self.snapshot())["eras"]
        cid = eras[era][0].cid
        if cid not in self._manifests:
            self._manifests[cid] = load_manifest(await self.bytes_of(cid))
        return self._manifests[cid]

    async def bytes_of(self, cid: Cid) -> bytes:
        """A block, from memory or the store."""
        found = self.blocks.get(cid)
        return await fetch_block(self.cas, cid) if found is None else found

    async def state_of(self, entry: Entry) -> bytes | None:
        """The state of an entry as it was written; of a log, all of it. One that is erased stays sealed."""
        data = await self.stored_state(entry)
        return None if data is None else await self.opened(data)

    async def opened(self, data: bytes) -> bytes:
        """What a sealed value hides; it stays sealed where nobody can read it."""
        return await self.reader.keys.opened_state(data, None if self.ring is None else self.ring.unsaved)

    async def stored_state(self, entry: Entry) -> bytes | None:
        """The state of an entry as it is stored."""
        data = entry.state
        if isinstance(data, Link):
            data = await self.bytes_of(data.cid)
        sealed = entry.get("log", ())
        if sealed and data is not None:
            data = joined([*[await self.bytes_of(link.cid) for link in sealed], data])
        return data

    async def frames(self, above: int) -> AsyncIterator[Frame]:
        """The frames above a height, up to the point."""
        last = self.made[0].header.first - 1 if self.made else self.height
        if above < last:
            async for frame in self.reader.journal.frames(above + 1, last):
                yield frame
        for frame in self.made:
            if frame.header.first > above:
                yield frame


async def point_of(node: Node, info: WorldInfo, at: At, progress: Progress | None = None) -> WorldPoint:
    """A stored world at a height, a time, or as it is."""
    cas, reader = node.cas(info.universe), Reader(node, info)
    height = await height_of(reader, at)
    kept = await Journal(node.engine, cas, info.lineage).snapshot_at(height)
    if kept is not None and kept.height == height:
        return WorldPoint(info.name, info.lineage, height, kept.root, cas, reader)
    world, _, _ = await node.loader.restore(info, cas, progress, upto=height, fast=False)
    job: Any = world.snapshot()
    root = await drive(job.run(), world.ledger.nodes, cas)
    return WorldPoint(info.name, info.lineage, world.ledger.height, root, cas, reader, job.blocks)


async def driven(
    generator: Generator[Need | Pause, None, T], nodes: Nodes, points: Sequence[WorldPoint]
) -> T:
    """Run a kernel generator to its end, with what is in the memory of some points, and what is stored."""
    blocks = {cid: data for point in points for cid, data in point.blocks.items()}
    return await with_blocks(generator, nodes, blocks, points[0].cas)


async def with_blocks(
    generator: Generator[Need | Pause, None, T], nodes: Nodes, blocks: dict[Cid, bytes], cas: Cas
) -> T:
    """The same with blocks at hand."""
    try:
        while True:
            need = next(generator)
            if isinstance(need, Pause):
                continue
            made = {cid: blocks[cid] for cid in need.cids if cid in blocks}
            rest = tuple(cid for cid in need.cids if cid not in made)
            stored = await fetch_present(cas, rest) if rest else {}
            missing = set(rest) - set(stored)
            if missing and not need.is_optional:
                raise Corrupted("host.node_missing", "a node of the world is missing: {why}", why=missing)
            nodes.add({**made, **stored})
    except StopIteration as stop:
        result: T = stop.value
        return result


def common_height(left: WorldPoint, right: WorldPoint) -> int:
    """The last height that both histories have in common; 0 where they have nothing in common."""
    common = 0
    pairs = zip(left.lineage.stretches(), right.lineage.stretches(), strict=False)
    for one, other in pairs:
        if one.world != other.world:
            break
        ends = [
            point.height if each.last is None else min(each.last, point.height)
            for each, point in ((one, left), (other, right))
        ]
        common = min(ends)
        if one.last != other.last:
            break
    return common
