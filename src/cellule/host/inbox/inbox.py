"""The inbox: durable items from other processes, taken by the owner in order of their stamps.

    inbox item = {kind: "event", schema, value, key?, id, expected?, expected_born?, issued_ns,
                  correlation?}   the value is an envelope, or a link
               | {kind: "signal", signal?, target?, payload?, beat?, id}   the payload like a value
               | {kind: "control", verb, who, why, arguments, id}
               | {kind: "receipt", ...}   see `outbox/receipts.py`
               | {kind: "request", ...}   see `requests.py`

A row is cleared in the commit of the frame that admitted or refused it, so nothing is lost or applied twice;
its id is deduplicated by the kernel besides. `ready` is cleared in the same or a later commit, and only if it
holds what it held before the inbox was found empty, so a world with items always has its `ready` row. A value
that enqueuers share (see `ready.py`) is first replaced by one they do not, and the inbox looked at again. A
smaller stamp may become visible after a larger one, so every look starts from the front and skips what is
taken. A row that cannot be read becomes a refusal too, and so does a receipt that this node did not sign.

Receipts of this node's own pool are brought by it when their rows are durable, and taken without a look. The
look that clears `ready` behind them waits until their rows are gone; what others put meanwhile is looked for
after some beats at the latest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from cellule.errors import Conflict, Corrupted, Fenced, OutcomeUnknown, Rejected, Unavailable
from cellule.host.inbox.item_fields import item_of, refusal_of
from cellule.host.inbox.local_receipts import LocalReceipts
from cellule.host.inbox.requests import Request
from cellule.host.inbox.sends import Sent
from cellule.host.limits import (
    ATTEMPTS_MAX,
    BEAT_BYTES_MAX,
    INBOX_PAGE,
    LOOK_PASSES,
)
from cellule.host.outbox.receipts import Rows, inbox_item, read_receipt, trusted_receipt
from cellule.host.outbox.signatures import NodeKey
from cellule.host.own.directory import WorldInfo, lost_row
from cellule.host.own.ready_row import SHARED, is_shared
from cellule.kernel.items import (
    EventItem,
    Item,
    ReceiptItem,
    RefusalItem,
    SignalItem,
)
from cellule.kernel.state.intent_id import intent_text
from cellule.store import keys
from cellule.store.cas import NOTHING, Cas
from cellule.store.engine import Batch, Engine
from cellule.values.cbor import decode, encode, links_of
from cellule.values.link import Link

NOTHING_BESIDE = Batch()


class Row(NamedTuple):
    """A taken row: its key, and the handle it travels with."""

    key: bytes
    sent: Sent


class Taken(NamedTuple):
    """Rows for a beat; `ready` is what the `ready` row held if nothing is left behind them."""

    rows: list[Row]
    ready: bytes | None


class Inbox:
    """The inbox of one hosted world."""

    def __init__(
        self, engine: Engine, cas: Cas, universe: UUID, world: UUID, key: NodeKey | None = None
    ) -> None:
        self._engine = engine
        self._cas = cas
        self._owner = (universe, world)
        self._key = key
        self._ready = keys.ready(keys.shard_of(world), universe, world)
        self._range = keys.inbox_range(universe, world)
        self._taken: set[bytes] = set()
        self._back: deque[Row] = deque()
        self._brought = LocalReceipts(None if key is None else key.id)
        self._passed = 0  # takes without a look since brought rows wait for one
        self._owed = False  # a look is, when no taken row is left
        self._own_ready = b""  # what `ready` held when rows were last brought
        self._gone: set[bytes] | None = None  # rows forgotten while a look is under way
        self._rung = True

    @property
    def has_items(self) -> bool:
        """Tell whether taking is worth it, or under way."""
        if self._rung or self._back or self._brought or self._gone is not None:
            return True
        return self._owed and not self._taken

    @property
    def waits(self) -> bool:
        """Tell whether a look follows when the rows that were taken are gone."""
        return self._owed and bool(self._taken)

    def ring(self, ready: bytes | None = None) -> None:
        """Something may have arrived; what `ready` holds tells whether it is only what was brought."""
        if ready is None or ready != self._own_ready:
            self._rung = True

    def bring(self, rows: Rows, ready: bytes) -> None:
        """This node's pool has written these rows, and `ready`; those that are not at hand are looked for."""
        if not self._brought.add(rows):
            self._rung = True
        self._own_ready, self._owed = ready, True

    async def take(self, limit: int) -> Taken:
        """Take up to `limit` items; what fails underway takes nothing."""
        if self._back:
            rows = [self._back.popleft() for _ in range(min(limit, len(self._back)))]
            return Taken(rows, None)
        # Items that are brought need no look, but may not keep those in the store waiting for ever.
        if self._brought and self._passed < LOOK_PASSES:
            self._passed += 1
            rows = [Row(key, Sent(item)) for key, item in self._brought.take(limit)]
            self._taken.update(row.key for row in rows)
            return Taken(rows, None)
        if not self.has_items:
            return Taken([], None)
        self._gone, self._rung = set(), False
        try:
            return await self._look(limit)
        except BaseException:
            self._rung = True
            raise
        finally:
            self._gone = None

    async def _look(self, limit: int) -> Taken:
        """Take what the store holds, oldest first; behind brought rows `ready` is left for a later look."""
        own_ready = self._own_ready
        [ready] = await self._engine.read([self._ready])
        found: list[tuple[bytes, bytes]] = []
        begin, end = self._range
        size = 0
        while True:
            page = await self._engine.scan(begin, end, limit=INBOX_PAGE)
            for key, value in page.items:
                if len(found) < limit and size < BEAT_BYTES_MAX and self._is_new(key):
                    found.append((key, value))
                    size += len(value)
            if not page.more or len(found) >= limit or size >= BEAT_BYTES_MAX:
                break
            begin = page.items[-1][0] + b"\0"
        rows = [Row(key, Sent(self._brought.find(key) or await self._item(value))) for key, value in found]
        self._brought.looked([row.key for row in rows if isinstance(row.sent.item, ReceiptItem)])
        waits = self.waits or self._own_ready is not own_ready  # or rows were brought meanwhile
        self._taken.update(row.key for row in rows)
        self._rung = self._rung or page.more or len(found) >= limit or size >= BEAT_BYTES_MAX
        self._owed, self._passed = waits, 0
        return Taken(rows, None if self._rung or waits else ready)

    def _is_new(self, key: bytes) -> bool:
        """Tell whether a row was never taken; one cleared meanwhile is still seen by a look begun before."""
        return key not in self._taken and (self._gone is None or key not in self._gone)

    def put_back(self, sent: Sent, key: bytes) -> None:
        """A taken row did not fit the frame."""
        self._back.appendleft(Row(key, sent))
        self._rung = True

    def forget(self, rows: list[bytes]) -> None:
        """The commit that cleared these rows is durable."""
        self._taken.difference_update(rows)
        if self._gone is not None:
            self._gone.update(rows)

    async def _item(self, stored: bytes) -> Item | Request:
        """What a row holds; whatever is wrong with it, the row alone is refused."""
        row: Any = None
        try:
            row = decode(stored)
            kind = row.get("kind") if isinstance(row, dict) else None
            if kind == "receipt":
                return await self._receipt(row, stored)
            if kind == "request":
                return Request.of_row(row)
            item = item_of(row)
            if isinstance(item, EventItem) and isinstance(item.value, Link):
                item.value = await self._cas.get(item.value.cid)
            if isinstance(item, SignalItem):
                payload: Any = item.payload
                item.payload = await self._cas.get(payload.cid) if isinstance(payload, Link) else payload
        except (Unavailable, Fenced):  # the store failed, and not the row
            raise
        except Exception as error:  # noqa: BLE001 - the row was written by somebody else
            return refusal_of(row, error)
        return item

    async def _receipt(self, row: Any, stored: bytes) -> Item:
        if self._key is None or not self._key.vouches(*self._owner, stored):
            intent = intent_text(read_receipt(row).intent)
            text = f"the receipt of {intent} is not signed by this node's key"
            return RefusalItem("receipt", "host.receipt_forged", text, intent)
        receipt = trusted_receipt(row)
        value: bytes | None
        if isinstance(receipt.value, Link):
            try:
                value = await self._cas.get(receipt.value.cid)
            except (Rejected, Corrupted):  # a receipt without its value: the intent ends as failed
                value = None
        else:
            value = receipt.value
        return inbox_item(receipt, receipt.by, value)


def enqueue_rows(universe: UUID, world: UUID) -> list[bytes]:
    """The rows that `enqueue` looks at: the world's in the list of worlds, and its `ready`."""
    return [keys.universe_world(universe, world), keys.ready(keys.shard_of(world), universe, world)]


async def enqueue(
    engine: Engine, universe: UUID, world: UUID, rows: list[dict[str, Any]], bell_id: bytes,
    seen: Sequence[bytes | None] = (), cas: Cas | None = None, beside: Batch = NOTHING_BESIDE,
) -> list[bytes]:  # fmt: skip
    """Put items into a world's inbox from anywhere, durably, and ring the bell of its shard.

    Returns the keys of their rows, which go in the commit that admits or refuses them. After an unknown
    outcome they are put once more: items have ids, and the second is a duplicate. Where `ready` says that
    others put items, it is only expected: many do that at once, and the bell has been rung. `seen` is what
    the rows `enqueue_rows` hold, if the caller has just read them. `cas` is of the universe, for items that
    link something: from then on the inbox keeps it. What `beside` adds and clears goes in the same batch.
    """
    shard = keys.shard_of(world)
    listing, ready = enqueue_rows(universe, world)
    prefix = keys.inbox_prefix(universe, world)
    ordered = [(prefix, encode(row)) for row in rows]
    links = {cid for _, item in ordered for cid in links_of(item)} if cas is not None else set()
    unknown = attempt = 0
    while True:
        attempt += 1
        parts = await cas.roots((), optional=links) if cas is not None and links else NOTHING
        listed, held = seen or await engine.read([listing, ready])
        seen = ()
        if listed is None:
            raise await lost_row(engine, WorldInfo(world, universe, str(world), 0), "its row in the list")
        expect: dict[bytes, bytes | None] = {listing: listed}
        if is_shared(held) and attempt <= ATTEMPTS_MAX:
            batch = replace(beside, expect={ready: held}, ordered=ordered)  # deleting the world clears it
        else:
            # Each attempt has a value of its own: one that arrives late must be told from the one seen.
            value = SHARED + bell_id + bytes((attempt % 256,))
            if attempt <= ATTEMPTS_MAX:
                expect[ready] = held
            add = {**beside.add, keys.bell(shard): 1}
            batch = replace(beside, expect=expect, set={ready: value}, add=add, ordered=ordered)
        try:
            stamps = await engine.commit(parts.into(batch))
        except Conflict:
            continue  # `ready` has changed, or a collection has begun; after some tries it is set anyway
        except OutcomeUnknown:
            unknown += 1
            if unknown >= ATTEMPTS_MAX:
                raise
        else:
            return [keys.inbox(universe, world, stamp) for stamp in stamps]
