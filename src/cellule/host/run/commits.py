"""Commits of one world: finished beats become one batch, and every outcome of a batch has one meaning.

The batch expects the world's epoch and previous head. `Unavailable`: the same bytes again, with backoff.
`OutcomeUnknown` or `Conflict`: read epoch and head; the head is ours = done, the previous head = again, else
the world is `Fenced`. A submitted frame is never recomputed; what travels with it is: the rows of its blocks
(another writer may have put one) and the clearing of `ready` (something may have arrived since).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from cellule.errors import Conflict, Fenced, OutcomeUnknown, Rejected, Unavailable
from cellule.host.cas_fetch import fetch_present, put_blocks
from cellule.host.erasure_keys import ErasureKeys, key_rows
from cellule.host.inbox.sends import Sent, release_batch
from cellule.host.journal import Head, frame_rows
from cellule.host.limits import PARTS_BYTES_MAX, PARTS_MAX
from cellule.host.own.ready_row import is_shared, unshared
from cellule.host.run.beat_log import Line, write_lines
from cellule.host.run.outgoing import Outgoing
from cellule.host.store_retry import StoreRetry
from cellule.kernel.items import BatchResult
from cellule.kernel.journal.links import LINK_BYTES, links_of_block, links_of_frame
from cellule.kernel.key_ring import KeyChanges, KeyRing
from cellule.kernel.need import Need
from cellule.store import keys
from cellule.store.cas import NOTHING, Cas
from cellule.store.engine import Batch, Engine
from cellule.values.cbor import encode
from cellule.values.cid import Cid
from cellule.values.envelope import seal
from cellule.values.link import Value

_NO_BLOCKS = Batch()


@dataclass(slots=True)
class Finished:
    """A beat on its way to the disk, and who waits for it.

    `frame` is None when all its items were duplicates or refusals: nothing is written for it, but what it
    tells may be no more durable than the beats before it, so it goes the same way. `ready` is what that
    row held before the inbox was found empty. `outgoing` are the rows of its intents. `batch` is what became
    of events that were all plain. `lines` are for the log. `keys` are erasure keys it made or destroyed.
    """

    frame: bytes | None
    head: Head
    blocks: Mapping[Cid, bytes]
    settled: list[Sent]
    completed: list[Sent] = field(default_factory=list)
    inbox: list[bytes] = field(default_factory=list)
    ready: bytes | None = None
    outgoing: Outgoing | None = None
    batch: BatchResult | None = None
    lines: Sequence[Line] = ()
    keys: KeyChanges | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        if self.outgoing is not None and self.outgoing.blocks:
            self.blocks = {**self.blocks, **self.outgoing.blocks}
        self.size = len(self.frame or b"") + sum(map(len, self.blocks.values()))
        if self.outgoing is not None:
            self.size += self.outgoing.size

    def release(self) -> None:
        """It is durable: tell those who wait for it."""
        if self.keys is not None:
            self.keys.saved()
        if self.batch is not None and self.batch.records is not None:
            release_batch(self.batch, self.settled)
            self.settled = []
        for sent in self.settled:
            if sent.left >= 0:  # a refused item is nowhere
                sent.durable = True
            if sent.left <= 0:
                sent.finished = True
            sent.wake()
        for sent in self.completed:
            sent.finished = True
            sent.wake()
        if self.lines:
            write_lines(self.lines)


def _linked_by_users(group: list[Finished]) -> set[Cid]:
    """What values of users link in these frames and their blocks."""
    found: set[Cid] = set()
    for each in group:
        if each.frame is not None and LINK_BYTES in each.frame:
            found |= links_of_frame(each.frame).users
        for data in each.blocks.values():
            if LINK_BYTES in data:
                found |= links_of_block(data).users
    return found


class Committer:
    """Makes the beats of one world durable, in order, one batch at a time."""

    def __init__(
        self, engine: Engine, cas: Cas, universe: UUID, world: UUID, epoch: bytes, head: Head
    ) -> None:
        self._engine = engine
        self._cas = cas
        self._keys = ErasureKeys(engine, universe)
        self._universe = universe
        self._world = world
        self._epoch_key = keys.world_epoch(universe, world)
        self._head_key = keys.world_head(universe, world)
        self._ready_key = keys.ready(keys.shard_of(world), universe, world)
        self._epoch = epoch
        self._head_row = head.row()
        self.head = head

    async def bring(self, need: Need, ring: KeyRing) -> dict[Cid, bytes]:
        """What the world asks for: nodes of the CAS that are there; keys go to its ring."""
        await self._keys.feed(ring, need)
        return await fetch_present(self._cas, need.cids)

    async def commit(self, group: list[Finished], patience: StoreRetry) -> bool:
        """Make these beats durable; raises `Fenced` when they never will be.

        Returns whether the inbox may have news: the `ready` row changed, or its value was shared until now.
        """
        head = group[-1].head
        ready = next((each.ready for each in reversed(group) if each.ready is not None), None)
        # Beats without a frame that took nothing from the inbox have nothing to write.
        if head is self.head and ready is None and not any(each.inbox for each in group):
            return False
        has_news = False
        row = self._head_row if head is self.head else head.row()
        linked = _linked_by_users(group)
        has_blocks = bool(linked) or any(each.blocks for each in group)
        while True:
            try:
                blocks = await self._block_rows(group, linked) if has_blocks else _NO_BLOCKS
                await self._engine.commit(self._batch(group, head, row, ready, blocks))
                break
            except (OutcomeUnknown, Conflict) as error:
                # The head in the store tells: under this epoch nobody else can have written it.
                if await self._is_applied(head, patience):
                    break
                # Somebody put an item behind `ready` since it was read: leave it there, and look again.
                if isinstance(error, Conflict) and ready is not None:
                    has_news, ready = True, None
                else:
                    await patience.pause(_as_unavailable(error))
            except Unavailable as error:
                await patience.pause(error)
        patience.over()
        self.head, self._head_row = head, row
        return has_news or is_shared(ready)

    def _batch(
        self, group: list[Finished], head: Head, row: bytes, ready: bytes | None, blocks: Batch
    ) -> Batch:
        """Everything that makes these beats durable; `row` is the stored form of their head."""
        rows, expect = dict(blocks.set), dict(blocks.expect)
        clear = [key for each in group for key in each.inbox]
        expect[self._epoch_key] = self._epoch
        if ready is not None:
            expect[self._ready_key] = ready
            if is_shared(ready):
                rows[self._ready_key] = unshared(ready)
            else:
                clear.append(self._ready_key)
        if head is self.head:
            return Batch(expect=expect, set=rows, clear=clear)
        for each in group:
            if each.frame is not None:
                rows.update(frame_rows(self._universe, self._world, each.head.height, each.frame))
            if each.keys is not None:
                rows.update(key_rows(self._universe, each.keys.rows))
            if each.outgoing is not None:
                rows.update(each.outgoing.set)
        rows[self._head_key] = row
        # A new owner has another epoch, and an older try of our own another head: both keep others out.
        expect[self._head_key] = self._head_row
        if head.wake_ns != self.head.wake_ns:
            shard = keys.shard_of(self._world)
            if self.head.wake_ns is not None:
                clear.append(keys.wake(shard, self.head.wake_ns, self._universe, self._world))
            if head.wake_ns is not None:
                rows[keys.wake(shard, head.wake_ns, self._universe, self._world)] = b""
        return Batch(expect=expect, set=rows, clear=clear)

    async def _block_rows(self, group: list[Finished], linked: set[Cid]) -> Batch:
        """What stores the blocks of the frames: rows of the batch, or nothing if they were put before.

        Objects that users' values link are renewed, those that are there: from this frame on they are kept,
        even if a collection that began before is about to sweep.
        """
        blocks: dict[Cid, bytes] = {}
        for each in group:
            blocks.update(each.blocks)
        since: int | None = None
        is_much = len(blocks) > PARTS_MAX or sum(map(len, blocks.values())) > PARTS_BYTES_MAX
        largest = 0 if is_much else self._cas.batch_block_max
        large = {cid: data for cid, data in blocks.items() if len(data) > largest}
        if large:  # they are in the store before the frame that names them
            since = await self._cas.generation()
            await put_blocks(self._cas, large)
        parts = await self._cas.batch_parts({cid: blocks[cid] for cid in blocks if cid not in large}, since)
        kept = await self._cas.roots((), optional=linked - blocks.keys()) if linked else NOTHING
        return kept.into(Batch(expect=parts.expect, set=parts.set))

    async def keep_aside(self, row: bytes, why: str, now_ns: int) -> None:
        """Copy an inbox row to where a person finds it; the row itself goes with the record of its refusal.

        Doing it twice is doing it once.
        """
        [stored] = await self._engine.read([row])
        if stored is None:
            return
        kept = encode({"item": _enveloped(stored), "why": why, "at_ns": now_ns})
        key = keys.aside(self._universe, self._world, keys.inbox_stamp(row))
        try:
            await self._engine.commit(Batch(expect={self._epoch_key: self._epoch}, set={key: kept}))
        except Conflict as error:
            raise fenced(self._world) from error

    async def _is_applied(self, head: Head, patience: StoreRetry) -> bool:
        """After an unclear outcome: True if this commit is there, False if it may be made again."""
        found: list[bytes | None] | None = None
        while found is None:
            try:
                found = await self._engine.read([self._epoch_key, self._head_key])
            except Unavailable as error:
                await patience.pause(error)
        epoch, stored = found
        if epoch == self._epoch and stored == head.row() and head is not self.head:
            return True
        if epoch == self._epoch and stored == self._head_row:
            return False
        raise fenced(self._world)


def _enveloped(stored: bytes) -> Value:
    """A row as a value; one that is no canonical value has no links that anybody could follow."""
    try:
        return seal(stored)
    except Rejected:
        return [stored]


def fenced(world: object) -> Fenced:
    """The error of a world that another node has taken."""
    return Fenced(
        "host.fenced", "world {world} has another owner now", world=world,
        hint="It stops here; events that were not acknowledged can be sent again with the same id.",
    )  # fmt: skip


def _as_unavailable(error: OutcomeUnknown | Conflict) -> Unavailable:
    if isinstance(error, Unavailable):
        return error
    return Unavailable("host.contended", "the rows beside a frame keep changing: {why}", why=error)
