"""What users hold: a world, and its cells.

A handle works the same whether this process owns the world or not. On the owner a send joins the next beat;
elsewhere it goes through the inbox, and `applied` and `reply` read the journal for the outcome.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from uuid import UUID

from cellule.errors import CelluleError, Gone, Rejected
from cellule.host.directory import WorldInfo
from cellule.host.following import Follower
from cellule.host.inbox import check_event_size, control_row, enqueue, event_row
from cellule.host.journal import Head, read_frames
from cellule.host.limits import HISTORY_MAX, SEND_SLICE
from cellule.host.loading import read_head
from cellule.host.node import Node
from cellule.host.reading import Reader, Version
from cellule.host.sends import Sent, Wait, check_steps, parked, readable
from cellule.host.times import height_at
from cellule.host.typing import Types
from cellule.kernel.frame import Frame, decode_frame
from cellule.kernel.items import ControlItem, EventItem, Stepped, Verb
from cellule.kernel.manifest.routes import Router
from cellule.sources import uuid7
from cellule.store import keys
from cellule.values.cid import Cid


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcome of an event: where it stands in the journal, and what its cells made of it."""

    height: int
    id: str | bytes | UUID | None
    duplicate: bool
    steps: tuple[Stepped, ...]
    reply: Any = None


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell as of one height."""

    state: Any
    version: int
    born: int
    era: int
    active_ns: int
    height: int
    status: str
    reason: str
    queue: int


class WorldHandle:
    """One world."""

    def __init__(self, node: Node, info: WorldInfo, types: Types, reader: Reader | None = None) -> None:
        self._node = node
        self.info = info
        self.types = types
        self._reader = reader or Reader(node, info)
        self._router: Router | None = None

    @property
    def name(self) -> str:
        """The world's name."""
        return self.info.name

    @property
    def id(self) -> UUID:
        """The world's id."""
        return self.info.id

    @property
    def follower(self) -> Follower:
        """A private copy of the world for readers; it is made when it is first asked for something."""
        return self._reader.follower

    # Sending

    async def send(
        self, event: Any, *, id: str | bytes | UUID | None = None, key: Any = None,
        expected_version: int | None = None, correlation: str | None = None, wait: Wait = "applied",
    ) -> Applied:  # fmt: skip
        """Send one event; wait until it is `durable`, `applied` by its cells, or for the `reply`."""
        _check_wait(wait)
        item = self._item(event, id, key, expected_version, correlation)
        if not self._node.is_owner:
            return await self._send_remote(item, wait)
        hosted = self._node.at_work(self.info.id) or await self._node.hosted(self.info)
        if wait == "reply":
            _check_reply(item, hosted.world.eras.current.router)
        sent = Sent(item)
        hosted.submit(sent)
        await sent.wait(wait)
        if sent.duplicate and wait != "durable":
            return await self._outcome_of(sent.height, item.id, duplicate=True)
        return self._applied(sent.height, item.id, sent.steps, duplicate=sent.duplicate)

    async def send_nowait(
        self, event: Any, *, id: str | bytes | UUID | None = None, key: Any = None,
        expected_version: int | None = None, correlation: str | None = None,
    ) -> Sent:  # fmt: skip
        """Hand one event over without waiting; `await sent.wait()` for its outcome.

        It waits only while very many items wait for the world. Only the owner of the folder can do this.
        """
        sent = Sent(self._item(event, id, key, expected_version, correlation))
        hosted = self._node.at_work(self.info.id) or await self._node.hosted(self.info)
        if hosted.is_full:
            await hosted.wait_room()
        hosted.submit(sent)
        return sent

    async def send_many(self, events: Iterable[Any], *, wait: Wait = "applied") -> list[Sent]:
        """Send many events and wait for all; each handle keeps what became of its event.

        Events are handed over in slices of a thousand; one that cannot be encoded raises, and nothing from
        its slice on is sent. Failures of single events do not raise here: ask each handle with `wait()`.
        """
        _check_wait(wait)
        sents: list[Sent] = []
        coming = iter(events)
        while part := [Sent(EventItem(*self.types.event(event))) for event in islice(coming, SEND_SLICE)]:
            hosted = self._node.at_work(self.info.id) or await self._node.hosted(self.info)
            if hosted.is_full:
                await hosted.wait_room()
            hosted.submit(*part)
            sents += part
        for sent in sents:
            if not sent.finished:
                with suppress(CelluleError):  # each handle keeps its own outcome
                    await sent.wait(wait)
        return sents

    async def control(self, verb: Verb, *, who: str, why: str, **arguments: Any) -> Applied:
        """An operator's verb, journaled with who and why."""
        item = ControlItem(verb, who, why, arguments)
        if not self._node.is_owner:
            return await self._control_remote(item)
        sent = Sent(item)
        (await self._node.hosted(self.info)).submit(sent)
        await sent.wait("durable")
        return Applied(sent.height, None, False, ())

    async def wait_applied(self, id: str | bytes | UUID) -> Applied:
        """Wait until an event sent before, with this id, is applied; for one that was kept, say."""
        height = await self._reader.find_event(id)
        return await self._outcome_of(height, id, duplicate=True)

    # Reading

    def cell(self, module: Any, key: Any = b"") -> CellHandle:
        """The handle of a cell, whether it exists or not."""
        base = self.types.module(module)
        return CellHandle(self, base, self.types.key(base, key))

    async def head(self) -> Head:
        """The newest durable frame."""
        return await read_head(self._node.engine, self.info)

    async def height_at(self, when: datetime) -> int:
        """The height of the last record made at or before an aware time; 0 before the first."""
        if when.tzinfo is None:
            raise Rejected(
                "host.naive_time", "{when} has no time zone", when=when, hint="Use an aware datetime."
            )
        since = when - datetime(1970, 1, 1, tzinfo=UTC)
        time_ns = (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000
        return await height_at(self._node.engine, self.info, time_ns)

    async def frames(self, first: int = 1, last: int | None = None) -> AsyncIterator[Frame]:
        """The frames that hold heights `first` to `last`, oldest first."""
        head = await self.head()
        last = head.height if last is None else min(last, head.height)
        if first > last:
            return
        async for _, data in read_frames(self._node.engine, self.info.universe, self.info.id, first, last):
            yield decode_frame(data)

    async def tail(self, after: int | None = None) -> AsyncIterator[Frame]:
        """Frames as they become durable, from behind height `after` (default: from now on); never ends."""
        key = keys.world_head(self.info.universe, self.info.id)
        height = (await self.head()).height if after is None else after
        while True:
            [stored] = await self._node.engine.read([key])
            if stored is None:
                raise Gone("host.world_gone", "world {world} was deleted", world=self.info.name)
            head = Head.of_row(stored)
            if head.height > height:
                async for frame in self.frames(height + 1, head.height):
                    yield frame
                height = head.height
            await self._node.engine.watch(key, stored)

    async def snapshot(self) -> tuple[int, Cid]:
        """Take a snapshot now, and return its height and root."""
        hosted = await self._node.hosted(self.info)
        return await hosted.snapshot_now()

    # Inside

    def _item(
        self, event: Any, given: str | bytes | UUID | None, key: Any, expected: int | None,
        correlation: str | None,
    ) -> EventItem:  # fmt: skip
        schema, value = self.types.event(event)
        check_event_size(schema, value)
        key = None if key is None else self._key(schema, key)
        if given is None:
            return EventItem(schema, value, key, expected_version=expected, correlation=correlation)
        if not given:
            raise Rejected(
                "host.empty_id", "an event's id cannot be empty", hint="Leave it out, or give one."
            )
        return EventItem(
            schema, value, key, given, explicit=True, expected_version=expected,
            issued_ns=self._node.clock.now_ns(), correlation=correlation,
        )  # fmt: skip

    def _key(self, schema: str, key: Any) -> bytes:
        """An explicit key as bytes: by the key of the first module that takes the event."""
        if isinstance(key, bytes):
            return key
        routes = self.types.manifest.routes.get(schema, ())
        keyed = [each.base for each in routes if self.types.manifest.modules[each.base].key is not None]
        if not keyed:
            raise Rejected("host.no_key", "no module takes {schema} by a key", schema=schema)
        return self.types.key(keyed[0], key)

    def _applied(self, height: int, given: Any, steps: tuple[Stepped, ...], *, duplicate: bool) -> Applied:
        reply = None
        for step in steps:
            if step.reply is not None:
                reply = self.types.reply(step.module, step.reply)
        return Applied(height, given, duplicate, steps, reply)

    async def _outcome_of(self, height: int, given: Any, *, duplicate: bool = False) -> Applied:
        """What the journal says became of the event at `height`; waits until every cell has stepped."""
        steps, parking = await self._reader.steps_of(height)
        check_steps(height, steps)
        if parking is not None:
            raise parked(height, *parking)
        return self._applied(height, given, tuple(steps), duplicate=duplicate)

    async def _send_remote(self, item: EventItem, wait: Wait) -> Applied:
        """Send through the inbox, and read the outcome from the journal."""
        if item.id is None:
            item.id, item.explicit = self._fresh_id(), True
            item.issued_ns = self._node.clock.now_ns()
        self._check_edge(item, wait)
        before = await self.head()
        cas = self._node.cas(self.info.universe)
        [row] = await enqueue(
            self._node.engine, self.info.universe, self.info.id, [await event_row(item, cas)],
            self._fresh_id().bytes,
        )  # fmt: skip
        if wait == "durable":
            return Applied(0, item.id, False, ())
        height, duplicate = await self._reader.await_event(item.id, before.height, row)
        return await self._outcome_of(height, item.id, duplicate=duplicate)

    def _check_edge(self, item: EventItem, wait: Wait) -> None:
        """Refuse here what the owner would refuse, without a record."""
        if self._router is None:
            self._router = Router(self.types.manifest)
        assert isinstance(item.value, bytes)
        targets = self._router.route(item.schema, item.value, item.key)
        if item.expected_version is not None and len(targets) != 1:
            raise Rejected(
                "host.expected_version_targets",
                "event {schema} has {count} targets; expected_version needs exactly one",
                schema=item.schema, count=len(targets),
            )  # fmt: skip
        if wait == "reply":
            _check_reply(item, self._router)

    async def _control_remote(self, item: ControlItem) -> Applied:
        before = await self.head()
        given = self._fresh_id().bytes
        [row] = await enqueue(
            self._node.engine, self.info.universe, self.info.id, [control_row(item, given)], given
        )
        height = await self._reader.await_control(item, before.height, row)
        return Applied(height, given, False, ())

    def _fresh_id(self) -> UUID:
        return uuid7(self._node.clock.now_ns(), self._node.entropy.bytes(10))


class CellHandle:
    """One cell of a world, by module and key."""

    def __init__(self, world: WorldHandle, base: str, key: bytes) -> None:
        self._world = world
        self.module = base
        self.key = key

    def __repr__(self) -> str:
        return f"<cell {self.module} {readable(self.key)} of world {self._world.name}>"

    async def view(self, *, at: int | datetime | None = None) -> CellView | None:
        """The cell now, or as of a height or an aware time; None where there is none."""
        if isinstance(at, datetime):
            at = await self._world.height_at(at)
        found = await self._world._reader.cell(self.module, self.key, at)  # noqa: SLF001 - one package, one reader
        if found is None:
            return None
        entry, era, data = found
        more: Mapping[str, Any] = entry[6] or {}
        state = None if data is None else self._world.types.state(self.module, era, data)
        return CellView(
            state, entry[1], entry[2], entry[3], entry[4], entry[5], more.get("status", "waiting"),
            more.get("text", "") or ("an event" if "status" not in more else ""), len(more.get("queue", ())),
        )  # fmt: skip

    async def state(self, *, at: int | datetime | None = None) -> Any:
        """The cell's state now, or as of a height or an aware time; None where there is none."""
        found = await self.view(at=at)
        return None if found is None else found.state

    async def history(self, *, limit: int = HISTORY_MAX) -> list[Version]:
        """The cell's steps, newest first."""
        return await self._world._reader.history(self.module, self.key, limit, self._world.types)  # noqa: SLF001


def _check_wait(wait: Wait) -> None:
    if wait not in ("durable", "applied", "reply"):
        raise Rejected(
            "host.wait", "wait is {wait!r}; it is durable, applied or reply", wait=wait
        )  # fmt: skip


def _check_reply(item: EventItem, router: Router) -> None:
    """A reply comes from exactly one cell."""
    assert isinstance(item.value, bytes)
    targets = router.route(item.schema, item.value, item.key)
    if len(targets) != 1:
        raise Rejected(
            "host.reply_targets", "event {schema} goes to {count} cells; a reply needs exactly one",
            schema=item.schema, count=len(targets), hint='Send it with wait="applied".',
        )  # fmt: skip
