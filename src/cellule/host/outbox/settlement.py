"""Writing outcomes: receipts, moves and removals of rows, those of one world together in one batch.

A receipt is appended to its world's inbox in the batch that clears its row and expects the row's bytes, so an
intent gets one receipt from here however often a commit is repeated. `Unavailable`: the same again.
`Conflict` or an unknown outcome: the rows are read; what no longer has its row was written, by us or by
somebody else, and the rest goes again. A damaged row cannot be expected: its outcome is written without that,
and the row goes; the world settles an intent once, however often it hears of it. One batch a world is under
way; what finishes meanwhile shares the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal
from uuid import UUID

from cellule.errors import Conflict, Corrupted, OutcomeUnknown, Unavailable
from cellule.host.outbox.kind_queue import Entry
from cellule.host.outbox.limits import CHANGES_BYTES_MAX, CHANGES_MAX, GATHER_TURNS
from cellule.host.outbox.receipts import Rows
from cellule.host.outbox.rows import Stored
from cellule.host.own.ready_row import unshared
from cellule.host.store_retry import StoreRetry
from cellule.kernel.items import ReceiptItem
from cellule.sources import Entropy
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Batch, Engine
from cellule.store.sound_scan import damaged_key, sound_read
from cellule.values.cbor import links_of

READY_BYTES = 16
ATTEMPT_NUMBERS = 256

Arrived = Callable[[UUID, UUID, Rows, bytes], None]
"""Gets the universe, the world, the inbox rows written there, and what its `ready` row holds since."""


class Change:
    """What becomes of one row: cleared with a receipt, moved, or removed.

    Without `stored` only a marker is cleared. `entry` is for whoever asked for the change. `receipt` is what
    the inbox reads from the bytes of `item`, if that takes no look elsewhere.
    """

    __slots__ = ("entry", "intent", "item", "moved", "receipt", "size", "stored", "unmark")

    def __init__(
        self, intent: bytes, stored: Stored | None, entry: Entry | None = None, *, item: bytes | None = None,
        receipt: ReceiptItem | None = None, moved: Stored | None = None, unmark: bool = False,
    ) -> None:  # fmt: skip
        self.intent = intent
        self.stored = stored
        self.entry = entry
        self.item = item
        self.receipt = receipt
        self.moved = moved
        self.unmark = unmark
        self.size = 500 + len(item or b"")
        if stored is not None:
            self.size += len(stored.value) * (1 if moved is None else 2)

    @property
    def world(self) -> UUID | None:
        """Whose row it is; None for a mere marker."""
        return None if self.stored is None else self.stored.row.world


OnSettled = Callable[[Change, bool], None]
"""Gets a change and whether it was written from here; False means that the row was not there any more."""
Fate = Literal["open", "written", "lost"]


class Settler:
    """Writes changes; each is told about once, when it is durable or lost."""

    def __init__(
        self,
        engine: Engine,
        entropy: Entropy,
        patience: StoreRetry,
        on_settled: OnSettled,
        arrived: Arrived | None,
        cas_of: Callable[[UUID], Cas],
    ) -> None:
        self._engine = engine
        self._cas_of = cas_of
        self._entropy = entropy
        self._patience = patience
        self._on_settled = on_settled
        self._arrived = arrived
        self._waiting: dict[UUID | None, deque[Change]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, change: Change, tasks: asyncio.TaskGroup) -> None:
        """Write a change soon."""
        world = change.world
        queue = self._waiting.get(world)
        if queue is not None:
            queue.append(change)
            return
        self._waiting[world] = deque((change,))
        task = tasks.create_task(self._drain(world))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_idle(self) -> None:
        """Wait until everything is written; raises what made it impossible."""
        while self._tasks:
            tasks = list(self._tasks)
            await asyncio.gather(*tasks)  # does not let the loop turn if all are done: nobody discards them
            self._tasks.difference_update(tasks)

    async def _drain(self, world: UUID | None) -> None:
        queue = self._waiting[world]
        try:
            while queue:
                await _gather(queue)
                await self._write(_group(queue))
        except Unavailable:
            if not self._patience.is_ending:
                raise
            # The rows stay: what they ask for is done again when a pool finds them.
        finally:
            del self._waiting[world]

    async def _write(self, group: list[Change]) -> None:
        attempt = 0
        damaged: set[bytes] = set()
        while group:
            attempt += 1
            batch = self._batch(group, attempt, damaged)
            try:
                batch = await self._rooted(group, batch)
                stamps = await self._engine.commit(batch)
            except (Conflict, OutcomeUnknown) as error:
                left = await self._left(group)
                # Nothing came of it: without a pause, a store that is not sure would be asked again and
                # again.
                if len(left) == len(group):
                    await self._patience.pause(_as_unavailable(error))
                group = left
            except Unavailable as error:
                await self._patience.pause(error)
            except Corrupted as error:
                if (key := damaged_key(error)) is None or key not in batch.expect:
                    raise
                # One damaged row must not hold back the others: the next batch goes without it.
                damaged.add(key)
            else:
                self._patience.over()
                self._announce(group, batch, stamps)
                for change in group:
                    self._on_settled(change, True)
                return

    async def _rooted(self, group: list[Change], batch: Batch) -> Batch:
        """The same batch, safe from a collection that begins between the puts of a receipt and its row."""
        links = {cid for change in group if change.item is not None for cid in links_of(change.item)}
        if not links:
            return batch
        row = next(change.stored.row for change in group if change.stored is not None)
        return (await self._cas_of(row.universe).roots((), optional=links)).into(batch)

    async def _left(self, group: list[Change]) -> list[Change]:
        """After an unclear outcome: tell about what is decided, return the rest."""
        olds = [change.stored.at for change in group if change.stored is not None]
        news = [change.moved.at for change in group if change.moved is not None]
        held, damaged = await self._patience.call(lambda: sound_read(self._engine, [*olds, *news]))
        found = dict(zip([*olds, *news], held, strict=True))
        left: list[Change] = []
        for change in group:
            fate = _fate(change, found, damaged)
            if fate == "open":
                left.append(change)
            elif change.unmark and change.stored is not None:
                left.append(
                    Change(change.intent, None, change.entry, unmark=True)
                )  # the row is gone, the marker is not
            else:
                self._on_settled(change, fate == "written")
        return left

    def _batch(self, group: list[Change], attempt: int, damaged: Collection[bytes]) -> Batch:
        expect: dict[bytes, bytes | None] = {}
        rows: dict[bytes, bytes] = {}
        clear: list[bytes] = []
        ordered: list[tuple[bytes, bytes]] = []
        add: dict[bytes, int] = {}
        inbox = b""
        for change in group:
            stored, moved = change.stored, change.moved
            if change.unmark:
                clear.append(keys.effect_cancel(change.intent))
            if stored is None:
                continue
            if stored.at not in damaged:
                expect[stored.at] = stored.value
            clear.append(stored.at)
            if moved is not None:
                rows[moved.at] = moved.value
                rows[moved.place] = moved.at
            else:
                clear.append(stored.place)
            if change.item is not None:
                inbox = inbox or keys.inbox_prefix(stored.row.universe, stored.row.world)
                ordered.append((inbox, change.item))
        row = next((each.stored.row for each in group if each.stored is not None and each.item), None)
        if row is not None:
            shard = keys.shard_of(row.world)
            # Each try has a value of its own: one that arrives late must be told from the one that was seen.
            number = bytes((attempt % ATTEMPT_NUMBERS,))
            value = unshared(self._entropy.bytes(READY_BYTES) + number)
            rows[keys.ready(shard, row.universe, row.world)] = value
            add[keys.bell(shard)] = 1
        return Batch(expect=expect, set=rows, clear=clear, add=add, ordered=ordered)

    def _announce(self, group: list[Change], batch: Batch, stamps: Sequence[bytes]) -> None:
        if self._arrived is None or not stamps:
            return
        receipts = [
            change.receipt for change in group if change.stored is not None and change.item is not None
        ]
        keys_of = [prefix + stamp for (prefix, _), stamp in zip(batch.ordered, stamps, strict=True)]
        rows = list(zip(keys_of, receipts, strict=True))
        row = next(each.stored.row for each in group if each.stored is not None)
        ready = batch.set[keys.ready(keys.shard_of(row.world), row.universe, row.world)]
        self._arrived(row.universe, row.world, rows, ready)


async def _gather(queue: deque[Change]) -> None:
    """Let what finishes now join the batch: wait a turn of the loop, and more as long as more comes."""
    seen = 0
    for _ in range(GATHER_TURNS):
        if seen == len(queue) or seen >= CHANGES_MAX:
            return
        seen = len(queue)
        await asyncio.sleep(0)


def _group(queue: deque[Change]) -> list[Change]:
    group = [queue.popleft()]
    size = group[0].size
    while queue and len(group) < CHANGES_MAX and size + queue[0].size <= CHANGES_BYTES_MAX:
        group.append(queue.popleft())
        size += group[-1].size
    return group


def _fate(change: Change, found: Mapping[bytes, bytes | None], damaged: Collection[bytes]) -> Fate:
    old = change.stored
    if old is None or old.at in damaged or found[old.at] == old.value:
        return "open"
    if change.moved is not None and found[change.moved.at] == change.moved.value:
        return "written"
    return "lost"


def _as_unavailable(error: Conflict | OutcomeUnknown) -> Unavailable:
    if isinstance(error, Unavailable):
        return error
    return Unavailable("effects.pool_contended", "outbox rows keep changing: {why}", why=error)
