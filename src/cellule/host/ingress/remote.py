"""Sends and verbs of a process that does not own the world: through its inbox, outcomes from its journal.

What the owner would refuse without a record is refused here already. An item in the inbox is not lost,
whoever owns the world by then; every item has an id, so after an unknown outcome it is put once more.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from cellule.errors import Rejected
from cellule.host.inbox.inbox import NOTHING_BESIDE, enqueue, enqueue_rows
from cellule.host.inbox.item_rows import control_row, event_row, signal_row
from cellule.host.inbox.requests import Request
from cellule.host.inbox.sends import Wait
from cellule.host.journal import Head
from cellule.host.limits import INBOX_CONTROL_BYTES_MAX
from cellule.host.node import Node
from cellule.host.own.counted_rows import check_counted
from cellule.host.own.directory import WorldInfo, lost_row
from cellule.host.read.reader import Reader
from cellule.host.storage.quotas import QUOTAS
from cellule.kernel.items import BareEvent, ControlItem, EventItem, SignalItem
from cellule.kernel.journal.records import ControlRecord
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.manifest.routes import Router
from cellule.sources import uuid7
from cellule.store import keys
from cellule.values.cbor import encode
from cellule.values.cid import Cid
from cellule.values.link import Link


class Remote:
    """The way to a world that another process owns."""

    def __init__(self, node: Node, info: WorldInfo, reader: Reader) -> None:
        self._node = node
        self._info = info
        self._reader = reader
        self._router: Router | None = None

    async def send(self, item: EventItem, manifest: Manifest, wait: Wait) -> tuple[int, bool]:
        """Enqueue an event; where it was admitted, and whether its id was there before; 0 if only durable."""
        if item.id is None:
            item.id, item.explicit = self._fresh_id(), True
        if item.issued_ns is None:
            item.issued_ns = self._node.clock.now_ns()
        self._check_edge(item, manifest, wait)
        cas = self._node.cas(self._info.universe)
        height, row = await self._put(await event_row(item, cas), self._fresh_id().bytes, events=1)
        if wait == "durable":
            return 0, False
        return await self._reader.await_event(item.id, height, row)

    async def control(self, item: ControlItem) -> tuple[int, bool]:
        """Enqueue an operator's verb; the height at which it is journaled, and whether it was before."""
        for name, value in item.arguments.items():
            if isinstance(value, Link) and not await self._node.cas(self._info.universe).has(value.cid):
                raise Rejected(
                    "host.link_missing", "`{name}` is {cid}, and no such block is stored", name=name,
                    cid=str(value.cid), hint="Put it into the store first.",
                )  # fmt: skip
        if item.id is None:
            item.id = self._fresh_id()
        row_of_item = control_row(item)
        size = len(encode(row_of_item))
        if size > INBOX_CONTROL_BYTES_MAX:
            raise Rejected(
                "host.control_size", "{verb} has {size} bytes with its reason; from here at most {most}",
                verb=item.verb, size=size, most=INBOX_CONTROL_BYTES_MAX,
                hint="Shorten it, do it in parts, or do it in the process that owns the world.",
            )  # fmt: skip
        height, row = await self._put(row_of_item, self._fresh_id().bytes)
        return await self._reader.await_control(item.id, height, row)

    async def signal(self, item: SignalItem) -> tuple[int, bool]:
        """Enqueue an impulse; the height of its record, and whether its id was there before."""
        if item.id is None:
            item.id = self._fresh_id()
        row_of_item = await signal_row(item, self._node.cas(self._info.universe))
        height, row = await self._put(row_of_item, self._fresh_id().bytes, events=1)
        return await self._reader.await_signal(item.id, height, row)

    async def snapshot(self, who: str, why: str) -> tuple[int, Cid]:
        """Ask the owner for a snapshot; its height and root, from the control that notes it."""
        given = self._fresh_id().bytes
        before, row = await self._put(Request(who, why, given).row(), given)
        height, _ = await self._reader.await_control(given, before, row)
        frame = await self._reader.frame(height)
        arguments = frame.expect(height, ControlRecord).arguments
        return arguments["height"], arguments["snapshot"].cid

    async def _put(self, item: dict[str, Any], ready: bytes, events: int = 0) -> tuple[int, bytes]:
        """Put an item into the inbox of the store at the address: the height before it, and its row.

        As many `events` count for the quota of the universe; `Rejected` where it allows no more.
        """
        self._node.check_loop()
        self._node.ownership.check_store()
        engine, universe, world = self._node.engine, self._info.universe, self._info.id
        head, quotas, quotas_count, *seen = await engine.read(
            [
                keys.world_head(universe, world),
                keys.universe_quotas(universe),
                keys.row_count("quotas", universe),
                *enqueue_rows(universe, world),
            ]
        )
        if head is None:
            raise await lost_row(engine, self._info, "its head")
        check_counted(quotas, quotas_count, QUOTAS)
        beside = NOTHING_BESIDE
        if events and quotas is not None:
            beside = await self._node.storage.counted_events(universe, quotas, events)
        cas = self._node.cas(universe)
        [row] = await enqueue(engine, universe, world, [item], ready, seen, cas, beside)
        self._node.ownership.check_store()
        return Head.of_row(head).height, row

    def _check_edge(self, item: EventItem, manifest: Manifest, wait: Wait) -> None:
        if self._router is None:
            self._router = Router(manifest)
        assert isinstance(item.value, bytes)
        if upcasts_of(manifest, item.schema):
            return  # of an older version: the owner finds its cells
        targets = self._router.route(item.schema, item.value, item.key)
        if item.expected_version is not None and len(targets) != 1:
            raise Rejected(
                "host.expected_version_targets",
                "event {schema} has {count} targets; expected_version needs exactly one",
                schema=item.schema, count=len(targets),
            )  # fmt: skip
        if wait == "reply":
            check_reply(item, self._router)

    def _fresh_id(self) -> UUID:
        return uuid7(self._node.clock.now_ns(), self._node.entropy.bytes(10))


def upcasts_of(manifest: Manifest, schema: str) -> bool:
    """Tell whether a schema without subscribers is an older version of one that may have some."""
    return schema not in manifest.routes and schema in manifest.upcasters


def check_reply(given: EventItem | BareEvent, router: Router) -> None:
    """A reply comes from exactly one cell."""
    item = EventItem(*given[:2]) if isinstance(given, tuple) else given
    assert isinstance(item.value, bytes)
    if not router.has_route(item.schema):
        return  # of an older version, or nobody's: the world says which
    targets = router.route(item.schema, item.value, item.key)
    if len(targets) != 1:
        raise Rejected(
            "host.reply_targets", "event {schema} goes to {count} cells; a reply needs exactly one",
            schema=item.schema, count=len(targets), hint='Send it with wait="applied".',
        )  # fmt: skip
