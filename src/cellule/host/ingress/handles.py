"""What users hold: a world, and its cells.

A handle works the same whether this process owns the world or not. On the owner a send joins the next beat;
elsewhere it goes through the inbox, and `applied` and `reply` read the journal for the outcome.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar, overload
from uuid import UUID

from cellule.errors import CelluleError
from cellule.host.branches.answers import Script
from cellule.host.branches.fork import At, ForkOptions, fork_codecs, fork_world
from cellule.host.codecs import WorldCodecs
from cellule.host.inbox.item_rows import check_event_size
from cellule.host.inbox.sends import Sent, Wait, check_steps, parked
from cellule.host.ingress import arguments as edge
from cellule.host.ingress.arguments import Id, check_id, check_name, check_who_and_why
from cellule.host.ingress.cell_handle import CellHandle, S
from cellule.host.ingress.checked_calls import checked_calls
from cellule.host.ingress.controls import Controls, control_all
from cellule.host.ingress.heartbeat import Heartbeat
from cellule.host.ingress.operations import Operations
from cellule.host.ingress.operator import Operator
from cellule.host.ingress.outcomes import Applied, check_reply_type
from cellule.host.ingress.remote import Remote, check_reply
from cellule.host.ingress.waits import idle_timed_out, send_timed_out, within
from cellule.host.ingress.world_effects import WorldEffects
from cellule.host.journal import Head, Progress
from cellule.host.limits import EVENT_INLINE_MAX, SEND_SLICE
from cellule.host.node import Node, unless_lost
from cellule.host.outbox.repair import Report
from cellule.host.own.directory import WorldInfo, lost_row
from cellule.host.read.cell_list import CellPage, KeyRange, read_cells
from cellule.host.read.effects.model import EffectDetail, EffectRef, EffectView, Letter, ScheduleView
from cellule.host.read.effects.schedules import check_schedule, list_schedules, preview_schedule
from cellule.host.read.follower import Follower
from cellule.host.read.journal_reader import nanoseconds_of
from cellule.host.read.reader import Reader
from cellule.host.read.rest import RestWait
from cellule.host.run.world_runner import WorldRunner
from cellule.kernel.items import EventItem, Stepped, Verb
from cellule.kernel.journal.frame import Frame
from cellule.kernel.state.branch import DROP
from cellule.store import keys
from cellule.values.calendar import Upcoming
from cellule.values.cid import Cid
from cellule.values.records import EventLike, StepOf

R = TypeVar("R")


@checked_calls("send", "send_nowait", "send_many", "control", "module")
class WorldHandle:
    """One world."""

    def __init__(self, node: Node, info: WorldInfo, types: WorldCodecs, reader: Reader | None = None) -> None:
        self._node = node
        self.info = info
        self.types = types
        self.reader: Reader = reader or Reader(node, info)
        self._remote = Remote(node, info, self.reader)
        self._controlled = Controls(node, info, self._remote)
        self._effects = WorldEffects(node, info, self.reader, lambda: self.types, self._controlled)
        self._at_work: WorldRunner | None = None
        self._gates = node.storage.gates

    @property
    def name(self) -> str:
        """The world's name."""
        return self.info.name

    @property
    def id(self) -> UUID:
        """The world's id."""
        return self.info.id

    @property
    def op(self) -> Operations:
        """Operations: long work with a state, watchers and an end."""
        return Operations(self._controlled, self.reader)

    @property
    def heartbeat(self) -> Heartbeat:
        """Signals, the enzymes that they run, the tree, and the beats."""
        return Heartbeat(self._node, self.info, self._remote, self._controlled, self.reader, self.tail)

    @property
    def follower(self) -> Follower:
        """A private copy of the world for readers; it is made when it is first asked for something."""
        return self.reader.follower

    # Sending

    @overload
    async def send(
        self, event: EventLike, *, reply: type[R], id: Id | None = None, key: Any = None,
        expected_version: int | str | None = None, correlation: str | None = None,
        issued: datetime | None = None, timeout: float | None = None,
    ) -> Applied[R]: ...  # fmt: skip

    @overload
    async def send(
        self, event: EventLike, *, id: Id | None = None, key: Any = None,
        expected_version: int | str | None = None, correlation: str | None = None, wait: Wait = "applied",
        reply: type[Any] | None = None, issued: datetime | None = None, timeout: float | None = None,
    ) -> Applied[Any]: ...  # fmt: skip

    async def send(
        self, event: EventLike, *, id: Id | None = None, key: Any = None,
        expected_version: int | str | None = None, correlation: str | None = None, wait: Wait = "applied",
        reply: type[Any] | None = None, issued: datetime | None = None, timeout: float | None = None,
    ) -> Applied[Any]:  # fmt: skip
        """Send one event; wait until it is `durable`, `applied` by its cells, or for the `reply`.

        `reply=Balance` waits for a reply of that class: `applied.reply` has its type. After `timeout` seconds
        it raises `OutcomeUnknown`: the event is on its way, and is applied once if it is sent again with its
        id. Without a timeout it waits for as long as the store is there.

        `expected_version` is the etag of what you read (`view.etag`, `applied.etag`): another state since, or
        another cell of that key, is a `VersionConflict`. A bare number compares the version only: it cannot
        know whether the cell was deleted and made anew meanwhile; 0 says that there must be none. A conflict
        changes nothing and leaves the id unused.

        `issued` is when an event with this id was first sent, for senders that repeat themselves for long:
        what the world may have forgotten by now is refused as `TooOld`, and not applied twice.
        """
        edge.check_wait(wait)
        needed: Wait = wait if reply is None else edge.check_reply_class(reply)
        if timeout is None and self._node.is_owner:
            sent = self._sent(event, id, key, expected_version, correlation, issued)
            applied = await self._send(sent, id, needed)
        else:
            self._node.storage.check_events(self.info.universe, 1)
            item = self._item(event, id, key, expected_version, correlation, issued)
            async with within(timeout, lambda: send_timed_out(self.name, item, timeout)):
                own = self._node.is_owner
                sending = self._send(Sent(item), id, needed) if own else self._send_remote(item, needed)
                applied = await sending
        return applied if reply is None else check_reply_type(applied, reply)

    async def _send(self, sent: Sent, id: Id | None, wait: Wait) -> Applied[Any]:
        if wait == "reply":
            check_reply(sent.item, (await self._hosted()).world.eras.current.router)
        hosted = self._at_work
        if hosted is None or not hosted.offer(sent):
            (await self._hosted()).submit(sent)
        await sent.wait(wait)
        if sent.duplicate and wait != "durable":
            return await self._outcome_of(sent.height, id, duplicate=True)
        return self._applied(sent.height, id, sent.steps, duplicate=sent.duplicate)

    async def send_nowait(
        self, event: EventLike, *, id: Id | None = None, key: Any = None,
        expected_version: int | str | None = None, correlation: str | None = None,
        issued: datetime | None = None,
    ) -> Sent:  # fmt: skip
        """Hand one event over without waiting; `await sent.wait()` for its outcome.

        It waits only while very many items wait for the world. Only the owner of the folder can do this.
        """
        sent = self._sent(event, id, key, expected_version, correlation, issued)
        hosted = self._at_work
        if hosted is None or not hosted.offer(sent):
            await self._hand_over(sent)
        return sent

    async def send_many(self, events: Iterable[EventLike], *, wait: Wait = "applied") -> list[Sent]:
        """Send many events and wait for all; each handle keeps what became of its event.

        Events are handed over in slices of a thousand; one that cannot be encoded raises, and nothing from
        its slice on is sent. Failures of single events do not raise here: ask each handle with `wait()`.
        """
        edge.check_wait(wait)
        sents: list[Sent] = []
        coming = edge.check_list("events", events, "a list of events")
        while part := self._sents(list(islice(coming, SEND_SLICE))):
            await self._hand_over(*part)
            sents += part
        for sent in sents:
            if not sent.finished:
                with suppress(CelluleError):  # each handle keeps its own outcome
                    await sent.wait(wait)
        return sents

    async def control(
        self, verb: Verb, *, who: str, why: str, id: Id | None = None, **arguments: Any
    ) -> Applied[Any]:
        """An operator's verb, journaled with who and why.

        With an `id` it may be asked for again after `OutcomeUnknown`: it is done once, and answered again.
        """
        return await control_all(self.reader, self._controlled, verb, who, why, id, arguments)

    def operator(self, who: str) -> Operator:
        """What a person does to cells, dead letters, schedules, by this name: `world.operator("ada")`."""
        return Operator(who, lambda: self.types, self._controlled, self.reader)

    async def wait_applied(self, id: Id, *, timeout: float | None = None) -> Applied[Any]:
        """Wait until an event sent before, with this id, is applied; for one that was kept, say."""
        id = check_id(id)
        height = await self.reader.find_event(id)
        waiting = EventItem("the event", b"", id=id)
        async with within(timeout, lambda: send_timed_out(self.name, waiting, timeout)):
            return await self._outcome_of(height, id, duplicate=True)

    async def wait_idle(self, *, timeout: float | None = None) -> None:
        """Wait until the world has nothing to do: no event waits, no timer is due, no effect is open.

        Stopped cells, effects that wait for an approval and timers of a later time do not count. Raises
        `TimedOut`, which says what is left to do.
        """
        rest = RestWait(self._node, self.info, self.reader)
        async with within(timeout, lambda: idle_timed_out(self.info, rest.busy, timeout)):
            await rest.until_idle()

    async def find_event(self, id: Id) -> int:
        """The height of an event that was sent with this id, as long as the world remembers it."""
        return await self.reader.find_event(check_id(id))

    # Reading

    @overload
    def cell(self, module: StepOf[S], key: Any = b"") -> CellHandle[S]: ...

    @overload
    def cell(self, module: str, key: Any = b"") -> CellHandle[Any]: ...

    def cell(self, module: StepOf[Any] | str, key: Any = b"") -> CellHandle[Any]:
        """The handle of a cell, whether it exists or not."""
        base = self.types.module(module)
        return CellHandle(self, base, self.types.key(base, key))

    @overload
    async def cells(
        self, module: StepOf[S], *, prefix: str | bytes | None = None, start: Any = None, end: Any = None,
        after: Any = None, where: str | None = None, limit: int = 100,
    ) -> CellPage[S]: ...  # fmt: skip

    @overload
    async def cells(
        self, module: str, *, prefix: str | bytes | None = None, start: Any = None, end: Any = None,
        after: Any = None, where: str | None = None, limit: int = 100,
    ) -> CellPage[Any]: ...  # fmt: skip

    async def cells(
        self, module: StepOf[Any] | str, *, prefix: str | bytes | None = None, start: Any = None,
        end: Any = None, after: Any = None, where: str | None = None, limit: int = 100,
    ) -> CellPage[Any]:  # fmt: skip
        """A module's cells in the order of their keys, a page at a time, as of what is durable.

        `prefix` is of text or bytes, as the keys are; `start` and `end` are keys, the first in the range and
        the first beyond it. `where` is CEL over `state`, `key`, `version`, `status`, `size`, `queue`, `born`,
        `era`, `height` and `active_ns`: `where="state.paid < state.total"`. `after=page.next` gives the page
        that follows, until `next` is None; a page of few matches may be short.
        """
        within = KeyRange(prefix, start, end, after)
        return await read_cells(self.reader, self.types, self.types.module(module), within, limit, where)

    async def head(self) -> Head:
        """The newest durable frame."""
        return await self.reader.journal.head()

    async def height_at(self, when: datetime) -> int:
        """The height of the last record made at or before an aware time; 0 before the first."""
        return await self.reader.journal.height_at(nanoseconds_of(when))

    async def frames(self, first: int = 1, last: int | None = None) -> AsyncIterator[Frame]:
        """The frames that hold heights `first` to `last`, oldest first."""
        head = await self.head()
        last = head.height if last is None else min(last, head.height)
        async for frame in self.reader.journal.frames(first, last):
            yield frame

    async def tail(self, after: int | None = None) -> AsyncIterator[Frame]:
        """Frames as they become durable, from behind height `after` (default: from now on); never ends."""
        key = keys.world_head(self.info.universe, self.info.id)
        height = (await self.head()).height if after is None else after
        while True:
            [stored] = await self._node.engine.read([key])
            self._node.ownership.check_store()
            if stored is None:
                raise await lost_row(self._node.engine, self.info, "its head")
            head = Head.of_row(stored)
            if head.height > height:
                async for frame in self.frames(height + 1, head.height):
                    yield frame
                height = head.height
            await self._node.engine.watch(key, stored)

    async def snapshot(self, *, who: str = "cellule", why: str = "asked for") -> tuple[int, Cid]:
        """Take a snapshot now, and return its height and root.

        Where another process owns the folder it is asked to: then who and why are journaled.
        """
        who, why = check_who_and_why(who, why)
        if self._node.is_owner:
            with unless_lost(self.info):
                return await (await self._hosted()).snapshot_now(who, why)
        return await self._remote.snapshot(who, why)

    # Effects

    async def effects(
        self, *, status: str | None = None, kind: str | None = None, cause: int | None = None,
        limit: int = 100, after: int = 0,
    ) -> list[EffectView]:  # fmt: skip
        """The open effects, oldest first, and what each waits for; the next page is `after` the last height.

        `status` is open, parked, timer or waiting. With `cause`, instead, all effects that the record at that
        height led to, settled ones too.
        """
        if cause is not None:
            return await self._effects.caused_by(cause, status, kind, limit)
        return await self._effects.listed(status, kind, limit, after)

    async def effect(self, intent: EffectRef, *, progress: Progress | None = None) -> EffectDetail:
        """One effect by its id or the height of its intent: params, decisions, attempts and receipt.

        A settled one of which only the id is known is looked for in the journal, which may take long.
        """
        return await self._effects.find(intent, progress)

    async def approve(self, intent: EffectRef, *, who: str, why: str, id: Id | None = None) -> Applied[Any]:
        """Let a parked effect happen."""
        return await self._effects.perform("effect.approve", intent, who, why, id)

    async def deny(self, intent: EffectRef, *, who: str, why: str, id: Id | None = None) -> Applied[Any]:
        """Refuse a parked effect: its cell gets a `denied` receipt."""
        return await self._effects.perform("effect.deny", intent, who, why, id)

    async def cancel(self, intent: EffectRef, *, who: str, why: str, id: Id | None = None) -> Applied[Any]:
        """Settle an open effect as cancelled; an attempt that runs is stopped."""
        return await self._effects.perform("effect.cancel", intent, who, why, id)

    async def retry(self, intent: EffectRef, *, who: str, why: str, id: Id | None = None) -> Applied[Any]:
        """Request an effect again that failed for good, or make the next attempt of an open one due now.

        A dead letter is named by its height, or by the id or height of its intent. Making an attempt due
        changes nothing in the world and is not journaled: the height is 0 then.
        """
        return await self._effects.retry(intent, who, why, id)

    async def dead_letters(self, *, limit: int = 100, after: int = 0) -> list[Letter]:
        """Messages and effects that were given up, oldest first."""
        return await self._effects.letters(limit, after)

    async def inject_receipt(
        self, intent: EffectRef, status: str = "ok", value: Any = None, *, who: str, why: str,
        code: str = "", text: str = "",
    ) -> Applied[Any]:  # fmt: skip
        """Settle an open effect by hand; the receipt says who gave it and why.

        `value` is what the effect would have given, where the status is ok: an object of the receipt's class,
        or JSON data. The height is that of the receipt.
        """
        height = await self._effects.inject(intent, status, value, code, text, who, why)
        return Applied(height, None, False, (), None)

    async def complete(
        self, token: str, value: Any = None, *, who: str = "outside", why: str = "completed from outside"
    ) -> Applied[Any]:
        """Complete an effect whose adapter raised `Later`, by its attempt's token; `value` as in a receipt.

        A token that was used before, whose time is over, or of another world is refused and recorded.
        """
        return await self._effects.complete(token, "ok", value, "", "", who, why)

    async def fail(
        self, token: str, code: str, text: str = "", *, who: str = "outside", why: str = "failed outside"
    ) -> Applied[Any]:
        """End an effect whose adapter raised `Later` as failed; see `complete`."""
        return await self._effects.complete(token, "failed", None, code, text, who, why)

    async def notes(self, intent: EffectRef) -> AsyncIterator[object]:
        """The progress notes of an open effect, until it is settled; only in the process that performs it."""
        async for note in self._effects.notes(intent):
            yield note

    async def repair_effects(self, *, dry_run: bool = False) -> Report:
        """Compare open effects with the outbox, and make them agree."""
        return await self._effects.repair(dry_run=dry_run)

    # Schedules

    async def schedules(self) -> list[ScheduleView]:
        """The schedules of the manifest, and when each is next due."""
        return await list_schedules(self.reader)

    async def preview_schedule(
        self, name: str, count: int = 10, *, after: datetime | None = None
    ) -> list[Upcoming]:
        """The next times at which a schedule is due, from now or from an aware time on."""
        after_ns = self._node.clock.now_ns() if after is None else nanoseconds_of(after)
        return await preview_schedule(self.reader, check_name("name", name), count, after_ns)

    async def pause_schedule(self, name: str, *, who: str, why: str, id: Id | None = None) -> Applied[Any]:
        """Send nothing by a schedule until it is resumed."""
        return await self._control_schedule("schedule.pause", name, who, why, id)

    async def resume_schedule(self, name: str, *, who: str, why: str, id: Id | None = None) -> Applied[Any]:
        """Let a paused schedule go on from its next due time; what it missed is not made up for."""
        return await self._control_schedule("schedule.resume", name, who, why, id)

    async def wait_reason(self, module: str, key: bytes) -> str:
        """What a cell waits for, in words; empty where there is none."""
        return await self._effects.reason(self.types.module(module), key)

    async def fork(
        self, name: str, *, at: At = None, effects: str = DROP, live: bool = False,
        script: Script | None = None, who: str = "world.fork", why: str = "asked for",
    ) -> WorldHandle:  # fmt: skip
        """Make a world that begins where this one stands, or stood after the last whole beat at `at`."""
        options = ForkOptions(effects, live, script, *check_who_and_why(who, why))
        made = await fork_world(self._node, self.info, self.types, name, at, options)
        return WorldHandle(self._node, made, await fork_codecs(Reader(self._node, made), self.types))

    async def _control_schedule(
        self, verb: Verb, name: str, who: str, why: str, id: Id | None
    ) -> Applied[Any]:
        who, why = check_who_and_why(who, why)
        check_schedule(await self.reader.manifest(), check_name("name", name))
        return await self.control(verb, who=who, why=why, id=id, name=name)

    async def _hosted(self) -> WorldRunner:
        """The world at work here; it is remembered, because every event asks."""
        self._at_work = found = await self._node.hosted(self.info)
        return found

    def _sents(self, events: list[Any]) -> list[Sent]:
        """The handles of many events, which are mostly of one class that was sent before."""
        self._node.storage.check_events(self.info.universe, len(events))
        classes = set(map(type, events))
        make = self.types.encoders.get(classes.pop()) if len(classes) == 1 else None
        return list(map(Sent, map(make or self.types.item, events)))

    async def _hand_over(self, *sents: Sent) -> None:
        hosted = await self._hosted()
        await hosted.wait_room()
        hosted.submit(*sents)

    def _sent(
        self, event: Any, event_id: Id | None, key: Any, expected: int | str | None, correlation: str | None,
        issued: datetime | None,
    ) -> Sent:  # fmt: skip
        """The handle of an event, which is mostly plain and of a class that was sent before."""
        if self._gates:  # empty without quotas: a look costs an event less than a call
            self._node.storage.check_events(self.info.universe, 1)
        if (event_id is not None or key is not None or expected is not None or correlation is not None
                or issued is not None):  # fmt: skip
            return Sent(self._item(event, event_id, key, expected, correlation, issued))
        make = self.types.encoders.get(event.__class__)
        item = self.types.item(event) if make is None else make(event)
        if len(item[1]) > EVENT_INLINE_MAX:
            check_event_size(*item[:2])
        return Sent(item)

    def _item(
        self, event: Any, event_id: Id | None, key: Any, expected: int | str | None, correlation: str | None,
        issued: datetime | None,
    ) -> EventItem:  # fmt: skip
        event_id = None if event_id is None else check_id(event_id)
        version, born = edge.check_expected(expected)
        correlation, issued_ns = edge.check_correlation(correlation), edge.check_issued(issued, event_id)
        schema, value = self.types.event(event)
        check_event_size(schema, value)
        key = None if key is None else edge.event_key(self.types, schema, key)
        return EventItem(
            schema, value, key, event_id, explicit=event_id is not None, expected_version=version,
            expected_born=born, issued_ns=issued_ns, correlation=correlation,
        )  # fmt: skip

    def _applied(
        self, height: int, event_id: Any, steps: tuple[Stepped, ...], *, duplicate: bool
    ) -> Applied[Any]:
        reply = None
        for step in steps:
            if step.reply is not None:
                reply = self.types.reply(step.module, step.reply)
        return Applied(height, event_id, duplicate, steps, reply)

    async def _outcome_of(self, height: int, event_id: Any, *, duplicate: bool = False) -> Applied[Any]:
        """What the journal says became of the event at `height`; waits until every cell has stepped."""
        steps, parking = await self.reader.steps_of(height)
        check_steps(height, steps)
        if parking is not None:
            raise parked(height, *parking)
        return self._applied(height, event_id, tuple(steps), duplicate=duplicate)

    async def _send_remote(self, item: EventItem, wait: Wait) -> Applied[Any]:
        """Send through the inbox, and read the outcome from the journal."""
        height, duplicate = await self._remote.send(item, self.types.manifest, wait)
        if wait == "durable":
            return Applied(0, item.id, False, (), None)
        return await self._outcome_of(height, item.id, duplicate=duplicate)
