"""An exported world, brought into a universe: proven whole first, then written, and there in one batch.

A file is proven before anything is stored: blocks by their hashes, frames by their chain, snapshots part by
part, and the world by restoring it, which runs no code. Then the blocks are put, the frames as segments, and
one batch makes the world. Whatever stops it before leaves garbage, and no world.

The world keeps its id, because ids of effects are made of it, so it can be only once in a store. Its open
effects wait: `cellule effect repair` lets them go, which is right where the original is gone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from cellule.errors import Conflict, Corrupted, Rejected, Unavailable
from cellule.host.archive.car import CarFile
from cellule.host.archive.document import WorldDocument, read_page
from cellule.host.archive.key_file import leave_away
from cellule.host.archive.redacted_world import is_redacted_world, refuse_redacted_world
from cellule.host.cas_fetch import drive
from cellule.host.limits import ATTEMPTS_MAX, SEGMENT_BYTES
from cellule.host.own.directory import Directory, UniverseInfo, WorldInfo, baseline_row, id_of
from cellule.host.segments import Segment, segment_bytes
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.links import Links, links_of_block, links_of_frame
from cellule.kernel.need import Nodes
from cellule.kernel.program import Programs
from cellule.kernel.prove.check import Position, check_frames, check_snapshot
from cellule.kernel.state.module_cells import Budget
from cellule.kernel.world import World
from cellule.store import keys
from cellule.store.cas import OVERTAKEN_ROOT, Cas
from cellule.store.engine import Batch, Engine
from cellule.values.cbor import encode
from cellule.values.cid import Cid
from cellule.values.link import Link, Value
from cellule.values.sealed_value import key_ids_within


@dataclass(frozen=True, slots=True)
class _Proven:
    """A file that holds a whole world."""

    car: CarFile
    document: WorldDocument
    frames: list[tuple[int, Cid]]
    blocks: list[Cid]  # all but the frames and what lists them


@dataclass(slots=True)
class Importer:
    """Imports worlds into one universe."""

    engine: Engine
    cas: Cas
    directory: Directory
    universe: UniverseInfo
    programs: Programs
    budget: Budget

    async def import_file(self, path: Path, name: str | None = None, *, dry_run: bool = False) -> WorldInfo:
        """Make the world of a file; `Rejected` where it is damaged, or where the world is here already.

        A dry run proves the whole file, and makes nothing; the world may be here.
        """
        with CarFile(path) as car:
            if is_redacted_world(car.read(car.root)):
                raise refuse_redacted_world(car)
            document = WorldDocument.of_block(car.read(car.root))
            chosen = name or document.name
            if not dry_run:
                await self._check_new(document.world, chosen)
            proven = await self._proven(car, document)
            made = WorldInfo(document.world, self.universe.id, chosen, document.created_ns, document.origin)
            for _ in range(0 if dry_run else ATTEMPTS_MAX):
                since = await self.cas.generation()
                await put_all(self.cas, proven.car, proven.blocks)
                segments = await self._segments(proven)
                await leave_away(self.engine, self.universe.id, self._key_ids(proven))
                try:
                    parts = await self.cas.witness(since)
                    await self.engine.commit(parts.into(self._batch(proven, chosen, segments)))
                except Conflict:
                    await self._check_new(document.world, chosen)
                    continue
                except Unavailable as error:
                    if error.code != OVERTAKEN_ROOT:
                        raise
                    continue  # two collections began: all is put again
                return made
        if dry_run:
            return made
        raise Unavailable("archive.contended", "collections begin again and again during the import")

    async def _check_new(self, world: UUID, name: str) -> None:
        if id_of(name) is not None:
            raise Rejected(
                "host.world_name", "{name} reads as the id of a world, so it cannot be the name of one",
                name=name, hint="Choose another with --name.",
            )  # fmt: skip
        if await self.directory.find(self.universe, name) is not None:
            raise Rejected(
                "host.world_exists", "there is a world {name} in universe {universe} already",
                name=name, universe=self.universe.name, hint="Choose another name with --name.",
            )  # fmt: skip
        if await self.directory.leaving(self.universe, name) is not None:
            raise Rejected(
                "host.world_exists", "world {name} in universe {universe} is gone; its deletion did not end",
                name=name, universe=self.universe.name,
                hint="Delete it again, or choose another with --name.",
            )  # fmt: skip
        for universe in await self.directory.universes():
            [listed] = await self.engine.read([keys.universe_world(universe.id, world)])
            if listed is not None:
                raise Rejected(
                    "archive.world_here", "the world {world} of this file is in universe {universe} already",
                    world=world, universe=universe.name,
                    hint="A world is in a store once. Fork it for a second one, or delete it first.",
                )  # fmt: skip

    async def _proven(self, car: CarFile, document: WorldDocument) -> _Proven:
        """Prove the whole file."""
        frames = [each for _, page in document.pages for each in read_page(car.read(page))]
        try:
            found = _check_chain(car, document, frames)
            blocks = await _reached(car, document, found)
            await self._check_world(car, document, frames)
        except Corrupted as error:
            raise Rejected(
                "archive.world_broken", "the file holds no whole world: {why}", why=error,
                hint="Nothing was changed. Make the export again.",
            ) from error  # fmt: skip
        return _Proven(car, document, frames, blocks)

    async def _check_world(
        self, car: CarFile, document: WorldDocument, frames: list[tuple[int, Cid]]
    ) -> None:
        """Prove each snapshot, and restore the world from its baseline to its head."""
        blocks = cast("Cas", car)
        for _, cid in document.snapshots:
            nodes = Nodes(self.budget.nodes_bytes_max)
            await drive(check_snapshot(cid, nodes), nodes, blocks)
        baseline = dict(document.snapshots)[document.baseline]
        restoring = World.restore(
            baseline, document.world, self.programs, budget=self.budget, lineage=document.lineage
        )
        opened = await drive(restoring.open(), restoring.nodes, blocks)
        for last, cid in frames:
            if last > document.baseline:
                await drive(opened.apply(car.read(cid)), restoring.nodes, blocks)
        world = await drive(opened.world(), restoring.nodes, blocks)
        head = document.head
        if (world.ledger.height, world.ledger.beat, world.ledger.frame) != (
            head.height,
            head.beat,
            head.frame,
        ):
            raise Corrupted(
                "host.head_mismatch", "world {world}: the journal ends at {height}, its head says {head}",
                world=document.name, height=world.ledger.height, head=head.height,
            )  # fmt: skip

    def _key_ids(self, proven: _Proven) -> set[bytes]:
        """The ids of all erasure keys that its frames name."""
        found: set[bytes] = set()
        for _, cid in proven.frames:
            found |= key_ids_within(proven.car.read(cid))
        return found

    async def _segments(self, proven: _Proven) -> list[Segment]:
        """Put the frames as segments."""
        found: list[Segment] = []
        run: list[tuple[int, bytes]] = []
        size, first = 0, proven.document.first
        for last, cid in proven.frames:
            frame = proven.car.read(cid)
            run.append((last, frame))
            size += len(frame)
            if size >= SEGMENT_BYTES or last == proven.document.head.height:
                found.append(await self._segment(first, last, size, run))
                run, size, first = [], 0, last + 1
        return found

    async def _segment(self, first: int, last: int, size: int, run: list[tuple[int, bytes]]) -> Segment:
        block = await self.cas.put(segment_bytes(run), "raw")
        linked: set[Cid] = set()
        for _, frame in run:
            links = links_of_frame(frame)
            linked |= links.ours | links.users
        listed: list[Value] = [Link(cid) for cid in sorted(linked)]
        node = await self.cas.put(encode(listed), trusted=True) if listed else None
        return Segment(first, last, size, block, node)

    def _batch(self, proven: _Proven, name: str, segments: list[Segment]) -> Batch:
        """Everything that makes the world, at once."""
        document, universe = proven.document, self.universe.id
        owner = (universe, document.world)
        about: dict[str, Any] = {"created_ns": document.created_ns, "name": name}
        if document.origin is not None:
            about["from"] = document.origin.row()
        row = encode(about)
        named, second = keys.ref(universe, name), keys.ref_named(universe, name)
        listing, meta = keys.universe_world(*owner), keys.world_meta(*owner)
        snapshots = dict(document.snapshots)
        rows = {
            named: document.world.bytes, second: document.world.bytes, listing: row, meta: row,
            keys.world_head(*owner): document.head.row(),
            keys.world_epoch(*owner): encode({"n": 0, "node": b""}),
            keys.world_baseline(*owner): baseline_row(document.baseline, snapshots[document.baseline]),
            **{keys.snapshot(*owner, height): bytes(cid) for height, cid in snapshots.items()},
            **{keys.segment(*owner, each.last): each.row() for each in segments},
        }  # fmt: skip
        start = 0 if document.origin is None else document.origin.height
        if document.first > start + 1:
            rows[keys.segment(*owner, document.first - 1)] = Segment(start + 1, document.first - 1).row()
        if document.head.wake_ns is not None:
            shard = keys.shard_of(document.world)
            rows[keys.wake(shard, document.head.wake_ns, *owner)] = b""
        return Batch(
            expect={named: None, second: None, listing: None, meta: None}, set=rows,
            clear=[keys.world_gone(*owner)], add={keys.row_count("worlds", universe): 1},
        )  # fmt: skip


def _check_chain(car: CarFile, document: WorldDocument, frames: list[tuple[int, Cid]]) -> Links:
    """Prove that the frames follow each other from the first to the head; return what they link."""
    found = Links(set(), set())
    position: Position | None = None
    for last, cid in frames:
        data = car.read(cid)
        if position is None:
            position = _before(document, data)
        for frame in check_frames([data], position):
            if frame.header.last != last:
                raise Corrupted("host.frame_missing", "the frame of height {height} is another", height=last)
            position = Position(frame.header.last, frame.cid.digest)
        links = links_of_frame(data)
        found.ours.update(links.ours)
        found.users.update(links.users)
    head = document.head
    if position is None or (position.height, position.frame) != (head.height, head.frame):
        raise Corrupted("host.head_mismatch", "the frames do not end at height {head}", head=head.height)
    return found


def _before(document: WorldDocument, first: bytes) -> Position:
    """What the first frame follows: nothing, the fork, or history that is not in the file."""
    origin = document.origin
    start = 0 if origin is None else origin.height
    if document.first == start + 1:
        return Position(start, None if origin is None else origin.frame)
    return Position(document.first - 1, decode_frame(first, lazy=True).header.prev)


async def _reached(car: CarFile, document: WorldDocument, found: Links) -> list[Cid]:
    """Every block that the world needs; those that only users' values link may be absent."""
    needed = found.ours | document.needed
    waiting = [*needed, *found.users]
    seen = set(waiting)
    reached: list[Cid] = []
    while waiting:
        cid = waiting.pop()
        if cid not in car.places:
            if cid in needed:
                raise Corrupted("archive.block_missing", "the block {cid} is not in the file", cid=str(cid))
            continue
        reached.append(cid)
        if cid.codec == "dag-cbor":
            links = links_of_block(car.read(cid))
            needed |= links.ours
            fresh = [each for each in (*links.ours, *links.users) if each not in seen]
            seen.update(fresh)
            waiting += fresh
    return reached


async def put_all(cas: Cas, car: CarFile, cids: Sequence[Cid]) -> None:
    """Put blocks of a file; long ones as streams."""
    group: list[bytes] = []
    for cid in cids:
        if cid.codec == "raw":
            await cas.put_stream(_pieces(car, cid), expected=cid)
            continue
        group.append(car.read(cid))
        if sum(map(len, group)) > SEGMENT_BYTES:
            await cas.put_many(group)
            group = []
    await cas.put_many(group)


async def _pieces(car: CarFile, cid: Cid) -> AsyncIterator[bytes]:
    for piece in car.pieces(cid):
        yield piece
