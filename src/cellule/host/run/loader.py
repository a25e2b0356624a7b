"""Opening a world: take it over, restore it from its baseline and the frames above, make it ready to work.

The epoch is committed first, then the head is read: no frame of a former owner can appear after that. An
owner that let a world go in peace finds its own epoch, and needs no other. The restored world must be exactly
where the head says, or the store contradicts itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from cellule.errors import Corrupted, Fenced, Gone, Rejected, ensure
from cellule.host.cas_fetch import drive
from cellule.host.inbox.inbox import Inbox
from cellule.host.inbox.sends import Sent
from cellule.host.journal import Head, Journal, Progress
from cellule.host.limits import ATTEMPTS_MAX, BEAT_INTERVAL_S_MIN, STALL_S
from cellule.host.outbox.signatures import NodeKey
from cellule.host.own.directory import WorldInfo, baseline_of, lost_row, world_rows
from cellule.host.own.ownership import Claim
from cellule.host.run.commits import Committer
from cellule.host.run.outgoing import Dispatch
from cellule.host.run.snapshots import Snapshots, Tail
from cellule.host.run.world_runner import WorldRunner
from cellule.host.storage.policy import StoragePolicy
from cellule.host.store_retry import settle
from cellule.kernel.index.live import Spill
from cellule.kernel.items import Pace
from cellule.kernel.key_ring import KeyRing
from cellule.kernel.limits import BURST_DEFAULT, QUOTA_DEFAULT
from cellule.kernel.program import Programs
from cellule.kernel.state.module_cells import Budget
from cellule.kernel.world import Restoring, World
from cellule.sources import Clock, Entropy
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Batch, Engine
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid
from cellule.values.cipher import KEY_BYTES


@dataclass(slots=True)
class Loader:
    """Everything that opening worlds needs."""

    engine: Engine
    programs: Programs
    clock: Clock
    entropy: Entropy
    budget: Budget
    pace: Pace | None
    spill: Callable[[], Spill] | None
    policy: StoragePolicy
    stall_s: float = STALL_S
    key: NodeKey | None = None  # what receipts in inboxes are proven by; without one none is believed
    dispatch: Dispatch | None = None
    saved: Callable[[WorldInfo], None] = lambda _info: None  # what a new snapshot makes due
    _unsure: set[UUID] = field(default_factory=set)  # worlds of which a commit may still be under way

    async def open(
        self, info: WorldInfo, cas: Cas, claim: Claim, progress: Progress | None = None
    ) -> WorldRunner:
        """Take the world over and restore it."""
        epoch = await self._take(info, claim)
        world, head, tail = await self.restore(info, cas, progress)
        world.eras.check_code(world.eras.current.manifest)
        committer = Committer(self.engine, cas, info.universe, info.id, epoch, head)
        snapshots = Snapshots(
            self.engine, cas, info.universe, info.id, epoch, self.clock,
            tail=tail, policy=self.policy, first=info.lineage.fork_height, name=info.name,
            saved=lambda: self.saved(info),
        )  # fmt: skip
        inbox = Inbox(self.engine, cas, info.universe, info.id, self.key)
        hosted = WorldRunner(
            world, info.universe, committer, cas, inbox, snapshots, self.clock, self.entropy,
            stall_s=self.stall_s, dispatch=self.dispatch, is_valid=claim.is_valid,
            restore=lambda: self._again(info, cas), name=info.name,
        )  # fmt: skip
        if info.origin is not None and head.height == info.origin.height:
            await hosted.beat_quietly([Sent(info.origin.item())], {})  # before anything else
            ensure(world.ledger.branch is not None, "host.fork_begins", "a fork did not begin as one")
        if not head.height:
            hosted.submit(Sent(World.started()))
        return hosted

    async def _again(self, info: WorldInfo, cas: Cas) -> World:
        """The world as its journal says, for its owner, who dropped it; it goes the general way."""
        world, _, _ = await self.restore(info, cas, fast=False)
        return world

    async def restore(
        self, info: WorldInfo, cas: Cas, progress: Progress | None = None, upto: int | None = None, *,
        fast: bool = True,
    ) -> tuple[World, Head, Tail]:  # fmt: skip
        """Restore to the head, or to the last whole beat at `upto`; also says which tail it read."""
        journal = Journal(self.engine, cas, info.lineage)
        head, height, snapshot = await self._start(info, journal, upto)
        spill = self.spill() if self.spill is not None else None
        restoring = World.restore(
            snapshot,
            info.id,
            self.programs,
            budget=self.budget,
            pace=self.pace,
            spill=spill,
            fast=fast,
            lineage=info.lineage,
            keys=KeyRing(lambda: self.entropy.bytes(KEY_BYTES)),
        )
        opened = await drive(restoring.open(), restoring.nodes, cas)
        last = head.height if upto is None else min(upto, head.height)
        size = 0
        async for found, frame in journal.frames(height + 1, last):
            await drive(opened.apply(frame), restoring.nodes, cas)
            size += len(frame)
            if progress is not None:
                progress(found, last)
        world = await drive(opened.world(), restoring.nodes, cas)
        if upto is None and (world.ledger.height, world.ledger.frame) != (head.height, head.frame):
            raise Corrupted(
                "host.head_mismatch", "world {world}: the journal ends at {height}, its head says {head}",
                world=info.name, height=world.ledger.height, head=head.height,
                hint="Run `cellule check` on the folder.",
            )  # fmt: skip
        return world, head, Tail(size, height)

    async def restoring(self, info: WorldInfo, cas: Cas) -> tuple[int, Restoring]:
        """The baseline's height and a restore that starts there, for readers that follow the journal."""
        _, height, snapshot = await self._start(info, Journal(self.engine, cas, info.lineage), None)
        return height, World.restore(
            snapshot, info.id, self.programs, budget=self.budget, pace=self.pace, lineage=info.lineage
        )

    def leave(self, info: WorldInfo, hosted: WorldRunner) -> None:
        """The world leaves memory; one with a commit under way is fenced off by a new epoch when it opens."""
        hosted.world.eras.forget(info.id.bytes)
        if hosted.was_cut_off:
            self._unsure.add(info.id)

    async def _take(self, info: WorldInfo, claim: Claim) -> bytes:
        """The epoch of this owner, committed unless it is there; tried again where an older try arrives."""
        key, listing = keys.world_epoch(info.universe, info.id), keys.universe_world(info.universe, info.id)
        head = keys.world_head(info.universe, info.id)
        for _ in range(ATTEMPTS_MAX):
            stored, listed, newest = await self.engine.read([key, listing, head])
            if listed is None or newest is None:
                raise await lost_row(self.engine, info, "its head or its row in the list of worlds")
            if stored is None and Head.of_row(newest).height > info.lineage.fork_height:
                raise world_rows(info.name, "the row of its owner")
            row: Any = {"n": 0, "node": b""} if stored is None else decode(stored)
            # Ours, and for certain: a world that leaves memory and returns needs no new epoch.
            if stored is not None and row["node"] == claim.node.bytes and info.id not in self._unsure:
                return stored
            epoch = encode({"n": row["n"] + 1, "node": claim.node.bytes})
            expect = {**claim.witness, key: stored, listing: listed}
            if await settle(self.engine, Batch(expect=expect, set={key: epoch}), key, epoch):
                self._unsure.discard(info.id)
                return epoch
        raise Fenced("host.fenced", "world {world} is being taken by another node", world=info.name)

    async def _start(self, info: WorldInfo, journal: Journal, upto: int | None) -> tuple[Head, int, Cid]:
        """The head, and where restore starts: the baseline, or the newest kept snapshot at or below a height.

        Head and baseline are of one moment: another owner may move both while this one restores.
        """
        head_key, baseline_key = (
            keys.world_head(info.universe, info.id),
            keys.world_baseline(info.universe, info.id),
        )
        head, baseline = await self.engine.read([head_key, baseline_key])
        if head is None or baseline is None:
            raise await lost_row(self.engine, info, "its head or its baseline")
        height, cid = baseline_of(baseline)
        if upto is None or height <= upto:
            return Head.of_row(head), height, cid
        found = await journal.snapshot_at(upto)
        if found is None:
            raise no_snapshot(info, upto)
        return Head.of_row(head), found.height, found.root


def no_snapshot(info: WorldInfo, height: int) -> Gone:
    """The error of a height that cannot be restored, because no snapshot at or below it is kept."""
    return Gone(
        "host.no_snapshot", "no snapshot of world {world} at or below height {height} is kept",
        world=info.name, height=height, hint="`cellule world show` says from where its history is kept.",
    )  # fmt: skip


def pace_of(beat_interval_s: float) -> Pace:
    """How much a beat does, and how long it is between those that only count."""
    if not beat_interval_s >= BEAT_INTERVAL_S_MIN:
        raise Rejected(
            "host.option", "beat_interval_s is {given}; it is a number of seconds from {least} on",
            given=beat_interval_s, least=BEAT_INTERVAL_S_MIN,
        )  # fmt: skip
    return Pace(QUOTA_DEFAULT, BURST_DEFAULT, int(beat_interval_s * 1e9))
