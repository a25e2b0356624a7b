"""A world as the outbox sees it: it opens and closes intents in batches, and reads receipts from its inbox.

For tests of pools and adapters without a kernel. `check_left_nothing` is the proof at the end: whatever a
test did, every intent has exactly one receipt that this node signed, and no row, place or marker is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID

from cellule.errors import InvariantBroken
from cellule.host.outbox.receipts import Receipt, read_receipt
from cellule.host.outbox.rows import (
    Opened,
    closing_rows,
    marker_range,
    opening_rows,
    place_range,
    rows_range,
)
from cellule.host.outbox.signatures import NodeKey
from cellule.host.store_retry import settle
from cellule.kernel.items import Opening
from cellule.kernel.state.intent_id import intent_text
from cellule.store import keys
from cellule.store.engine import Batch, Engine
from cellule.values.cbor import decode, encode

UNIVERSE, WORLD = UUID(int=1), UUID(int=2)
PAGE = 10_000


def opening(
    number: int, kind: str = "test.work", params: Mapping[str, Any] | None = None, *, priority: int = 5,
    timeout_ns: int = 10_000_000_000, attempts: int = 5, grant: Mapping[str, Any] | None = None,
    key: str | None = None, label: str = "",
) -> Opening:  # fmt: skip
    """An intent, told by its number (and label) from all others."""
    intent = sha256(f"{label}{number}".encode()).digest()
    data = encode(dict({"number": number} if params is None else params))
    return Opening(
        intent, number + 1, kind, data, key or intent_text(intent), priority, timeout_ns, attempts, grant,
        "test/Module", b"cell", 1,
    )  # fmt: skip


class OutboxWorld:
    """The part of a world that an outbox deals with."""

    def __init__(self, engine: Engine, key: NodeKey, universe: UUID = UNIVERSE, world: UUID = WORLD) -> None:
        self.engine = engine
        self.key = key
        self.universe = universe
        self.id = world

    async def open(self, openings: Sequence[Opening], now_ns: int) -> Opened:
        """Write the rows of intents, as a frame's batch does; to be offered to a pool afterwards."""
        opened = opening_rows(self.universe, self.id, openings, now_ns)
        if opened.blocks:
            raise InvariantBroken("testing.outbox_blocks", "long params need a CAS: put opened.blocks first")
        for first in range(0, len(opened.stored), 1_000):
            some = opened.stored[first : first + 1_000]
            rows = {each.at: each.value for each in some}
            rows |= {each.place: each.at for each in some}
            await settle(self.engine, Batch(set=rows), some[0].at, some[0].value)
        return opened

    async def close(self, intents: Sequence[bytes]) -> None:
        """Mark intents as settled, as a frame's batch does; to be told to a pool afterwards."""
        markers = closing_rows(self.universe, self.id, intents)
        await self.engine.commit(Batch(set=markers))

    async def receipts(self) -> list[Receipt]:
        """The receipts in the inbox, oldest first; raises where one was not signed by this node."""
        found: list[Receipt] = []
        for value in (await _all(self.engine, keys.inbox_range(self.universe, self.id))).values():
            item: Any = decode(value)
            if not self.key.verify(self.universe, self.id, item):
                raise InvariantBroken("testing.outbox_forged", "a receipt has a wrong mac: {item}", item=item)
            found.append(read_receipt(item))
        return found


async def check_left_nothing(world: OutboxWorld, intents: Sequence[bytes]) -> dict[bytes, Receipt]:
    """Each intent has one receipt, and nothing else is left of it; returns the receipts."""
    receipts = await world.receipts()
    by_intent = {receipt.intent: receipt for receipt in receipts}
    if len(by_intent) != len(receipts):
        raise InvariantBroken("testing.outbox_twice", "an intent has more than one receipt")
    if set(by_intent) != set(intents):
        raise InvariantBroken(
            "testing.outbox_lost", "{missing} intents have no receipt, {more} receipts belong to no intent",
            missing=len(set(intents) - set(by_intent)), more=len(set(by_intent) - set(intents)),
        )  # fmt: skip
    left = [
        key
        for wanted in (rows_range(), place_range(), marker_range())
        for key in await _all(world.engine, wanted)
    ]
    if left:
        raise InvariantBroken(
            "testing.outbox_left", "{count} rows are left: {key}", count=len(left), key=left[0]
        )
    if receipts:
        ready = keys.ready(keys.shard_of(world.id), world.universe, world.id)
        if (await world.engine.read([ready]))[0] is None:
            raise InvariantBroken("testing.outbox_unheard", "the world has receipts but no `ready` row")
    return by_intent


async def _all(engine: Engine, wanted: keys.Range) -> dict[bytes, bytes]:
    begin, end = wanted
    found: dict[bytes, bytes] = {}
    while True:
        page = await engine.scan(begin, end, limit=PAGE)
        found.update(page.items)
        if not page.more:
            return found
        begin = page.items[-1][0] + b"\0"
