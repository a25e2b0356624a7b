"""Checking a stored world without running anything: its frames, and every block they and its snapshots need.

Frames must be canonical, contiguous and chained from the first that the world wrote, or still keeps, to the
head; a fork's first follows the frame it was forked at. The parts of each kept snapshot are proven, and every
block that frames, snapshots and manifests need must be in the CAS and be what it says. What only values of
users link is read where it is there, and counted where it is not: a link is no promise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cellule.errors import Corrupted
from cellule.host.cas_fetch import drive, fetch_block
from cellule.host.erasure_keys import ErasureKeys
from cellule.host.journal import Journal, Progress
from cellule.host.limits import KEY_ROWS_TOGETHER
from cellule.host.own.directory import WorldInfo, baseline_of, read_head, world_rows
from cellule.host.run.loader import Loader
from cellule.host.storage.history import holds
from cellule.host.storage.policy import read_retention
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import ManifestRecord
from cellule.kernel.key_ring import NO_ROW
from cellule.kernel.need import Nodes
from cellule.kernel.prove.check import Position, check_frames, check_snapshot, needed_links, reachable
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.values.cbor import decode, links_of
from cellule.values.cid import Cid
from cellule.values.sealed_value import key_ids_within


@dataclass(frozen=True, slots=True)
class CheckedWorld:
    """What was proven of one world; `cells` counts those of its newest kept snapshot."""

    frames: int
    height: int
    snapshots: int
    nodes: int
    cells: int
    absent: int = 0  # links in values of users to what is not stored


async def check_world(
    loader: Loader, info: WorldInfo, cas: Cas, progress: Progress | None = None
) -> CheckedWorld:
    """Prove one world; raises `Corrupted` at the first thing that is wrong."""
    nodes = Nodes(loader.budget.nodes_bytes_max)
    await _check_rows(loader, info)
    await holds(loader.engine, info)
    await read_retention(loader.engine, info.universe, info.id)
    journal = await _check_journal(loader, info, cas, progress)
    snapshots = await _snapshots(loader, info)
    await _check_baseline(loader, info, snapshots, journal.oldest)
    counts: dict[str, int] = {}
    for _, cid in snapshots:
        counts = await drive(check_snapshot(cid, nodes), nodes, cas)
    manifests = journal.manifests | await _manifests(cas, snapshots)
    await drive(reachable(manifests, nodes), nodes, cas)  # all of their code is needed
    absent: set[Cid] = set()
    needed = journal.needed | manifests | {cid for _, cid in snapshots}
    seen = await drive(reachable(needed, nodes, absent), nodes, cas)
    linked = journal.linked - seen - absent
    present = set(await cas.present(tuple(linked)))
    seen |= await drive(reachable(present, nodes, absent), nodes, cas)
    absent |= linked - present
    return CheckedWorld(
        journal.frames, journal.height, len(snapshots), len(seen), sum(counts.values()), len(absent)
    )


@dataclass(slots=True)
class _JournalContents:
    """What the frames of a world need, and mention in values."""

    frames: int = 0
    height: int = 0
    oldest: int = 0
    needed: set[Cid] = field(default_factory=set)
    manifests: set[Cid] = field(default_factory=set)
    linked: set[Cid] = field(default_factory=set)


class _Keys:
    """The erasure keys that frames name: each of the world's own has a row, be it that it was erased."""

    def __init__(self, loader: Loader, info: WorldInfo) -> None:
        self._keys = ErasureKeys(loader.engine, info.universe)
        self._info = info
        self._ids: set[bytes] = set()

    async def note(self, frame: bytes) -> None:
        """Look at the keys of a frame."""
        own = self._info.id.bytes
        self._ids.update(each for each in key_ids_within(frame) if each.startswith(own))
        if len(self._ids) >= KEY_ROWS_TOGETHER:
            await self.end()

    async def end(self) -> None:
        """Prove those that were noted."""
        for each, row in (await self._keys.rows(self._ids)).items():
            if row == NO_ROW:
                raise Corrupted(
                    "host.key_missing", "world {world}: the row of erasure key {id} is missing",
                    world=self._info.name, id=each,
                    hint="Nobody erased it. Restore the row from a backup: what it sealed cannot be read.",
                )  # fmt: skip
        self._ids.clear()


async def _manifests(cas: Cas, snapshots: list[tuple[int, Cid]]) -> set[Cid]:
    """The manifests of all eras that the snapshots know."""
    found: set[Cid] = set()
    for _, cid in snapshots:
        snapshot: Any = decode(await fetch_block(cas, cid))
        found.update(link.cid for link, _ in snapshot["eras"])
    return found


async def _check_journal(
    loader: Loader, info: WorldInfo, cas: Cas, progress: Progress | None
) -> _JournalContents:
    """Prove the frames that the world wrote and keeps, and gather what they link."""
    head = await read_head(loader.engine, info)
    frames = Journal(loader.engine, cas, info.lineage)
    oldest = await frames.oldest()
    journal = _JournalContents(height=head.height, oldest=oldest)
    found_keys = _Keys(loader, info)
    position = Position(info.lineage.fork_height, None if info.origin is None else info.origin.frame)
    async for last, data in frames.frames(oldest, head.height):
        if position.height + 1 < oldest:  # what it follows was dropped: the first that is kept is believed
            position = Position(oldest - 1, decode_frame(data, lazy=True).header.prev)
        await found_keys.note(data)
        for frame in check_frames([data], position):
            position = Position(frame.header.last, frame.cid.digest)
            links = set(links_of(data))
            if links:
                journal.needed.update(needed_links(frame))
                journal.manifests.update(record.manifest.cid for _, record in frame.of(ManifestRecord))
                journal.linked |= links
        journal.frames += 1
        if progress is not None:
            progress(last, head.height)
    await found_keys.end()
    if (position.height, position.frame) != (head.height, head.frame):
        raise Corrupted(
            "host.head_mismatch", "world {world}: the journal ends at {height}, its head says {head}",
            world=info.name, height=position.height, head=head.height,
            hint="Keep a copy of the folder before anything else.",
        )  # fmt: skip
    return journal


async def _check_rows(loader: Loader, info: WorldInfo) -> None:
    """Prove that the rows are there which every world has, and that its name leads to it."""
    wanted = {
        "its own row": keys.world_meta(info.universe, info.id),
        "its row in the list of worlds": keys.universe_world(info.universe, info.id),
        "its head": keys.world_head(info.universe, info.id),
        "its baseline": keys.world_baseline(info.universe, info.id),
        "its name": keys.ref(info.universe, info.name),
        "the second row of its name": keys.ref_named(info.universe, info.name),
    }
    found = dict(zip(wanted, await loader.engine.read(list(wanted.values())), strict=True))
    for what, row in found.items():
        if row is None and "name" not in what:
            raise world_rows(info.name, what)
    if found["its name"] != found["the second row of its name"]:  # it may be another world's now
        raise world_rows(info.name, "its name" if found["its name"] is None else "the second row of its name")
    [epoch] = await loader.engine.read([keys.world_epoch(info.universe, info.id)])
    if epoch is None and (await read_head(loader.engine, info)).height > info.lineage.fork_height:
        raise world_rows(info.name, "the row of its owner")


async def _check_baseline(
    loader: Loader, info: WorldInfo, snapshots: list[tuple[int, Cid]], oldest: int
) -> None:
    """Prove that the baseline is one of the kept snapshots, and that all history has one to begin with."""
    [stored] = await loader.engine.read([keys.world_baseline(info.universe, info.id)])
    if stored is None or baseline_of(stored) not in snapshots:
        raise world_rows(info.name, "the snapshot that its baseline names")
    first = info.lineage.fork_height
    if oldest == first + 1 and first not in {height for height, _ in snapshots}:
        raise world_rows(info.name, "its first snapshot")


async def _snapshots(loader: Loader, info: WorldInfo) -> list[tuple[int, Cid]]:
    begin, end = keys.snapshot_range(info.universe, info.id)
    page = await loader.engine.scan(begin, end, limit=1_000)
    return [(keys.snapshot_height(key), Cid.of_bytes(value)) for key, value in page.items]
