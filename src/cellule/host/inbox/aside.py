"""Items that a world could not take: kept beside its inbox until a person decides.

    w/<universe>/<world>/aside/<stamp>    {item: <the inbox row, in an envelope>, why, at_ns}

Each was refused in the journal, so nothing of the world waits for it. After an upgrade it can be put into the
inbox again, or it is dropped. Any process may do either: the world itself is not changed by it.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from cellule.errors import CelluleError, Conflict, Rejected
from cellule.host.inbox.item_fields import UNREADABLE, refusal_of
from cellule.store import keys
from cellule.store.engine import Batch, Engine, Stamp
from cellule.values.cbor import decode
from cellule.values.envelope import open_envelope

LIST_MAX = 1_000


class ItemAside(NamedTuple):
    """An inbox item that its world could not take: a schema, `control:<verb>` or `receipt`, and why."""

    id: str  # the stamp that its row had, in hex
    name: str
    event_id: str | bytes | None
    why: str
    at_ns: int


async def list_aside(engine: Engine, universe: UUID, world: UUID, limit: int) -> list[ItemAside]:
    """The items that were set aside, oldest first."""
    page = await engine.scan(*keys.aside_range(universe, world), limit=min(limit, LIST_MAX))
    return [_item(key, value) for key, value in page.items]


async def drop_aside(engine: Engine, universe: UUID, world: UUID, item: str) -> None:
    """Forget an item for good."""
    key, stored = await _found(engine, universe, world, item)
    await _commit(engine, Batch(expect={key: stored}, clear=[key]), item)


async def retry_aside(engine: Engine, universe: UUID, world: UUID, item: str, bell_id: bytes) -> None:
    """Put an item into the inbox again; it has its id still, and is applied once at most."""
    key, stored = await _found(engine, universe, world, item)
    row: Any = decode(stored)
    shard, inbox = keys.shard_of(world), keys.inbox_prefix(universe, world)
    batch = Batch(
        expect={key: stored}, clear=[key], set={keys.ready(shard, universe, world): bell_id + b"\1"},
        add={keys.bell(shard): 1}, ordered=[(inbox, open_envelope(row["item"]).data)],
    )  # fmt: skip
    await _commit(engine, batch, item)


async def _found(engine: Engine, universe: UUID, world: UUID, item: str) -> tuple[bytes, bytes]:
    try:
        key = keys.aside(universe, world, Stamp(bytes.fromhex(item)))
    except (ValueError, CelluleError) as error:
        raise _unknown(item) from error
    [stored] = await engine.read([key])
    if stored is None:
        raise _unknown(item)
    return key, stored


async def _commit(engine: Engine, batch: Batch, item: str) -> None:
    try:
        await engine.commit(batch)
    except Conflict as error:  # somebody else was faster
        raise _unknown(item) from error


def _unknown(item: str) -> Rejected:
    return Rejected(
        "host.no_item_aside", "no item {item} is set aside in this world", item=item,
        hint="List them: cellule item list.",
    )  # fmt: skip


def _item(key: bytes, value: bytes) -> ItemAside:
    stamp = keys.inbox_stamp(key).hex()
    try:
        kept: Any = decode(value)
        row: Any = decode(open_envelope(kept["item"]).data)
        what = refusal_of(row, ValueError())
        return ItemAside(stamp, what.name, what.id, kept["why"], kept["at_ns"])
    except (CelluleError, LookupError, TypeError) as error:
        return ItemAside(stamp, UNREADABLE, None, f"the row cannot be read: {error}", 0)
