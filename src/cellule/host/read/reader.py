"""Reading worlds: cells now and in the past, histories, outcomes; from the owner's memory or the journal.

A cell's past is a chain: every step names the height of the one before it, so a history reads only the
frames of its own cell. A process that does not own the world follows its journal with a copy of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from cellule.errors import Fenced, Gone, OutcomeUnknown, Rejected, TooOld, Unavailable
from cellule.host.cas_fetch import drive, fetch_block, fetch_nodes
from cellule.host.codecs import WorldCodecs
from cellule.host.erasure_keys import ErasureKeys
from cellule.host.journal import Head
from cellule.host.limits import OWNER_LOOK_S, OWNERLESS_S
from cellule.host.node import Node
from cellule.host.own.directory import WorldInfo
from cellule.host.read.follower import Follower
from cellule.host.read.journal_reader import JournalReader
from cellule.host.read.migration_preview import MigrationPreview, preview_migration
from cellule.host.read.states import StateReader
from cellule.host.run.world_runner import WorldRunner
from cellule.host.store_retry import reading
from cellule.kernel.items import Stepped
from cellule.kernel.journal.codes import HALTED, PARKED
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.heartbeat_records import SignalRecord
from cellule.kernel.journal.records import (
    ControlRecord,
    EventRecord,
    ReceiptRecord,
    Record,
    RefusedRecord,
    StepRecord,
)
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.need import Need
from cellule.kernel.state.cells import Entry
from cellule.kernel.state.dedupe import Seen, dedupe_key
from cellule.kernel.state.ledger import Era
from cellule.kernel.state.log_state import joined
from cellule.kernel.state.wait_reasons import Reason, reason_of, reasons_in
from cellule.kernel.world import World
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.values.cid import Cid
from cellule.values.envelope import value_of
from cellule.values.link import Link
from cellule.values.sealed_value import is_sealed

T = TypeVar("T")
Parking = tuple[str, bytes, str]
"""A cell that does not run now, and why."""


class Reader:
    """Reads one world."""

    def __init__(self, node: Node, info: WorldInfo) -> None:
        self._node = node
        self._info = info
        self._cas = node.cas(info.universe)
        self.keys = ErasureKeys(node.engine, info.universe)
        self.journal = JournalReader(node.engine, self._cas, info, node.ownership.check_store)
        self._manifests: dict[Cid, Manifest] = {}
        self._states = StateReader(node.loader.programs)
        self._follower: Follower | None = None

    @property
    def cas(self) -> Cas:
        """The objects of its universe."""
        return self._cas

    @property
    def name(self) -> str:
        """The world's name."""
        return self._info.name

    async def manifest(self, era: int | None = None) -> Manifest:
        """The manifest of an era; by default of the current one."""
        world = await self._world()
        return await self._manifest_of(world.ledger.eras[-1 if era is None else era].manifest)

    async def _manifest_of(self, cid: Cid) -> Manifest:
        found = self._manifests.get(cid)
        if found is None:
            found = self._manifests[cid] = load_manifest(await fetch_block(self._cas, cid))
        return found

    async def earlier_manifests(self) -> list[Manifest]:
        """The manifests of all eras before the current one, newest first."""
        eras = (await self._world()).ledger.eras[:-1]
        return [await self._manifest_of(cid) for cid in dict.fromkeys(era.manifest for era in reversed(eras))]

    async def era_manifest(self, era: int) -> Manifest:
        """The manifest of an era that a person names."""
        count = len((await self._world()).ledger.eras)
        if not 0 <= era < count:
            raise Rejected(
                "host.era_unknown", "the world has no era {era}; its eras are 0 to {last}",
                era=era, last=count - 1, hint="`cellule world show` tells the current one.",
            )  # fmt: skip
        return await self.manifest(era)

    async def moving(self) -> int:
        """The height of the control by which maps are becoming cells just now; 0 if none are."""
        moves = (await self._world()).ledger.moves
        return max((move.control for move in moves.values()), default=0)

    async def preview_migration(self, arguments: Mapping[str, Any]) -> MigrationPreview:
        """What the control `cell.migrate` with these arguments would do."""
        return await preview_migration(self._node.loader, self._info, self._cas, arguments)

    async def had_manifest(self, cid: Cid) -> bool:
        """Tell whether the world ran this manifest in an era before the current one."""
        return any(era.manifest == cid for era in (await self._world()).ledger.eras[:-1])

    async def manifest_at(self, height: int) -> Manifest:
        """The manifest that routes at a height."""
        eras = (await self._world()).ledger.eras
        return await self.manifest(max(number for number, era in enumerate(eras) if era.height <= height))

    # Cells

    async def cell(
        self, base: str, key: bytes, at: int | None, types: WorldCodecs
    ) -> tuple[Entry, Any] | None:
        """A cell's entry and its state for the caller, now or as of a height."""
        entry = await self.entry(base, key) if at is None else await self._entry_at(base, key, at)
        return None if entry is None else (entry, await self.state_of(base, entry, types))

    async def state_of(self, base: str, entry: Entry, types: WorldCodecs) -> Any:
        """The state of an entry for the caller, or that it is erased; None where it has none."""
        data = await self.state_bytes(entry)
        if data is None:
            return None
        if is_sealed(data):
            return await self.erased(data, types)
        return await self.state(base, entry.era, data, types)

    async def erased(self, data: bytes, types: WorldCodecs) -> Any:
        """What stands for a sealed value that nobody can read; `Corrupted` where its key was lost."""
        await self.keys.check_erased(self._info.id, data)
        return types.erased

    async def state_bytes(self, entry: Entry) -> bytes | None:
        """The state of an entry as it was written; of a log, all of it. One that is erased stays sealed."""
        data = entry.state
        if isinstance(data, Link):
            data = await fetch_block(self._cas, data.cid)
        sealed = entry.get("log", ())
        if sealed and data is not None:
            data = joined([*[await fetch_block(self._cas, link.cid) for link in sealed], data])
        return None if data is None else await self.keys.opened_state(data)

    async def state(self, base: str, era: int, data: bytes, types: WorldCodecs) -> Any:
        """A state that was written in an era, as the newest manifest has it, for the caller."""
        return types.state(base, *await self.newest_state(base, era, data, types))

    async def eras(self) -> list[Era]:
        """The world's manifests, oldest first, and since when each routes."""
        return list((await self._world()).ledger.eras)

    async def newest_state(
        self, base: str, era: int, data: bytes, types: WorldCodecs, eras: list[Era] | None = None
    ) -> tuple[Manifest, bytes]:
        """The manifest that a state written in an era is read by, and its bytes in that schema.

        `eras` are the world's, for those who read many states.
        """
        if is_sealed(data):
            raise Gone("host.erased", "this state was erased", hint="Its key was destroyed, or is not here.")
        eras = eras or await self.eras()
        written = await self._manifest_of(eras[era].manifest)
        newest = await self._manifest_of(eras[-1].manifest)
        return await drive(
            self._states.read(types, base, written, newest, data), self._states.nodes, self._cas
        )

    async def entry(self, base: str, key: bytes) -> Entry | None:
        """A cell as of what is durable; None where there is none."""
        return await self._read(lambda hosted: hosted.look(base, key), lambda: self.follower.look(base, key))

    async def _entry_at(self, base: str, key: bytes, at: int) -> Entry | None:
        """The entry a cell had after the last whole beat at or below a height."""
        head = await self.journal.head()
        if not 0 <= at <= head.height:
            raise Rejected(
                "host.height", "height {at} is not in the journal of world {world}, which ends at {height}",
                at=at, world=self._info.name, height=head.height,
            )  # fmt: skip
        world, _, _ = await self._node.loader.restore(self._info, self._cas, upto=at)
        answer: Any = world.look(base, key)
        while isinstance(answer, Need):
            answer = world.resume(await fetch_nodes(self._cas, answer.cids))
        found: Entry | None = answer
        return found

    # Outcomes

    async def steps_of(self, height: int) -> tuple[list[Stepped], Parking | None]:
        """The newest step of each cell the event at `height` went to; waits for those still to come.

        Where one cannot come, because its cell is stopped or the world paused, it says so instead.
        """
        head = await self.journal.head()
        frame = await self.journal.frame(height, head)
        record = frame.at(height)
        if isinstance(record, RefusedRecord):
            raise _refusal(record)
        missing = set(record.targets) if isinstance(record, EventRecord) else set()
        newest: dict[tuple[str, bytes], Stepped] = {}
        start = height
        while missing:
            async for frame in self.journal.frames(start, head.height):
                start = frame.header.last + 1
                for each in steps_in(frame, height):
                    step = await self._opened(each)
                    newest[step.module, step.key] = step
                    if step.status not in (HALTED, PARKED):  # which may come to another end later
                        missing -= {(step.module, step.key), (step.module, b"")}  # b"": its map became cells
                if not missing:
                    break
            if missing:
                parking = await self._parking(missing, height)
                if parking is not None:
                    return list(newest.values()), parking
                head = await self.next_head(head)
        return list(newest.values()), None

    async def _opened(self, step: Stepped) -> Stepped:
        """A step with what of it was sealed; a reply that is erased is none."""
        reply = step.reply
        if reply is not None:
            reply = await self.keys.opened(reply)
            reply = None if is_sealed(reply) else reply
        return step._replace(reply=reply, text=await self.keys.opened_text(step.text))

    async def _parking(self, cells: set[tuple[str, bytes]], height: int) -> Parking | None:
        """Why the first of these cells that keeps the event at `height` does not run, if it does not."""
        paused = (await self._world()).ledger.paused
        for base, key in sorted(cells):
            entry = await self.entry(base, key)
            if entry is None or all(message.height != height for message in entry.get("queue", ())):
                continue
            reason = reason_of(entry, is_ready=False, paused=paused, is_held=False)
            if reason is not None:
                text = await self.keys.opened_text(reason.text)
                return base, key, str(replace(reason, text=text))
        return None

    async def reasons(self, base: str, key: bytes) -> tuple[Reason, ...]:
        """What a cell waits for; nothing where there is no such cell."""
        found = (await self.ask(lambda world: reasons_in(world.ledger, base, key))) or ()
        return tuple([replace(each, text=await self.keys.opened_text(each.text)) for each in found])

    async def await_event(self, event_id: Any, after: int, row: bytes) -> tuple[int, bool]:
        """Where an event from an inbox row was admitted or refused above `after`, and False.

        Or, with True, where one with the same id was admitted before: then the row goes without a record.
        """
        wanted = dedupe_key(event_id)
        found = await self._await(after, lambda record: _has_id(record, wanted), row)
        return (found, False) if found else (await self.find_event(event_id), True)

    async def await_control(self, event_id: Any, after: int, row: bytes) -> tuple[int, bool]:
        """Where a control from an inbox row is recorded above `after`, and False; raises its refusal.

        Or, with True, where one with the same id was before: then the row goes without a record. The answer
        to a request has the request's id among its arguments.
        """
        wanted = dedupe_key(event_id)

        def is_it(record: Record) -> bool:
            if isinstance(record, RefusedRecord) and _has_id(record, wanted):
                raise _refusal(record)
            if not isinstance(record, ControlRecord):
                return False
            found = record.arguments.get("request", record.id)
            return found is not None and dedupe_key(found) == wanted

        found = await self._await(after, is_it, row)
        return (found, False) if found else (await self.find_event(event_id), True)

    async def await_signal(self, event_id: Any, after: int, row: bytes) -> tuple[int, bool]:
        """Where an impulse from an inbox row is recorded above `after`, and False; raises its refusal.

        Or, with True, where one with the same id was before.
        """
        wanted = dedupe_key(event_id)

        def is_it(record: Record) -> bool:
            if isinstance(record, RefusedRecord) and _has_id(record, wanted):
                raise _refusal(record)
            found = record.extras.get("id") if isinstance(record, SignalRecord) else None
            return found is not None and dedupe_key(found) == wanted

        found = await self._await(after, is_it, row)
        return (found, False) if found else (await self.find_event(event_id), True)

    async def await_receipt(
        self, intent: str, height: int, given: tuple[str, str], after: int, row: bytes
    ) -> int:
        """Where the intent at `height` was settled above `after` by who and why; raises the refusal."""

        def is_it(record: Record) -> bool:
            if isinstance(record, RefusedRecord):
                if record.schema.partition(":")[0] == "receipt" and record.id == intent:
                    raise _refusal(record)
                return False
            if not isinstance(record, ReceiptRecord) or record.cause != height:
                return False
            return (record.extras.get("who"), record.extras.get("why")) == given

        return await self._await(after, is_it, row)

    async def find_event(self, event_id: Any) -> int:
        """The height of an event that was sent before with an id, as long as the world remembers it."""
        height = await self.seen(event_id)
        if height is None:
            raise Rejected(
                "host.no_such_event", "world {world} knows no event with id {id}",
                world=self._info.name, id=event_id,
                hint="Ids are remembered for days, not for ever; events sent without one cannot be found.",
            )  # fmt: skip
        return height

    async def seen(self, event_id: Any) -> int | None:
        """The height of what was admitted with an id, if the world remembers it."""
        wanted = dedupe_key(event_id)
        found: Seen | None = await self._read(
            lambda hosted: hosted.ask(lambda: hosted.world.ledger.find_id(wanted)),
            lambda: self.follower.ask(lambda world: world.ledger.find_id(wanted)),
        )
        return None if found is None else found.height

    async def _await(self, after: int, matches: Callable[[Record], bool], row: bytes) -> int:
        """The height of the first record above `after` that matches; 0 if the row went without one."""
        start = after + 1
        while True:
            [stored] = await self._node.engine.read([row])
            head = await self.journal.head()
            async for frame in self.journal.frames(start, head.height):
                start = frame.header.last + 1
                for height, record in frame.numbered():
                    if matches(record):
                        return height
            if stored is None:
                return 0
            await self.watch_row(row, stored)

    async def ask(self, question: Callable[[World], Generator[Need, None, T]]) -> T:
        """Ask the world something, as of what is durable; the owner between two beats."""

        async def here(hosted: WorldRunner) -> T:
            found: T = await hosted.ask(lambda: question(hosted.world))
            return found

        return await self._read(here, lambda: self.follower.ask(question))

    async def frame(self, height: int) -> Frame:
        """The frame that holds a height; `Rejected` beyond the journal."""
        return await self.journal.frame(height)

    async def bytes_of(self, stored: Any) -> bytes:
        """The bytes of a value that a record holds; what is erased stays sealed."""
        return await self.keys.opened_state(await self.stored_bytes(stored))

    async def stored_bytes(self, stored: Any) -> bytes:
        """The bytes of a value as a record holds it: its own, or those it links."""
        value = value_of(stored)
        return value if isinstance(value, bytes) else await fetch_block(self._cas, value.cid)

    async def next_head(self, head: Head) -> Head:
        """Wait for a frame behind this one; raises where nobody is there to make one."""
        key = keys.world_head(self._info.universe, self._info.id)
        while True:
            await self.watch_row(key, head.row())
            now = await self.journal.head()
            if now.height > head.height:
                return now

    async def watch_row(self, key: bytes, seen: bytes) -> None:
        """Wait until a row changes, as long as there is anybody who could change it."""
        clock, served_ns = self._node.clock, self._node.clock.monotonic_ns()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if self._node.ownership.contends else OWNER_LOOK_S):
                    return await self._node.engine.watch(key, seen)
            if any(each.owns and each.is_alive for each in await self._node.ownership.sessions()):
                served_ns = clock.monotonic_ns()
            elif clock.monotonic_ns() - served_ns >= OWNERLESS_S * 1e9:
                raise OutcomeUnknown(
                    "host.no_owner", "nobody owns the store, so nobody works on world {world}",
                    world=self._info.name,
                    hint="What was sent is kept, and applied once a node owns the store: start one.",
                )  # fmt: skip

    async def _world(self) -> World:
        """The world to read: the hosted one on the owner, else a copy at the newest frame."""

        async def here(hosted: WorldRunner) -> World:
            return hosted.world

        return await self._read(here, self.follower.world)

    async def _read(
        self, here: Callable[[WorldRunner], Awaitable[T]], elsewhere: Callable[[], Awaitable[T]]
    ) -> T:
        """Ask the world at work, or a copy where this node does not own it or has just lost it."""
        self._node.check_loop()
        if self._node.may_act():
            try:
                hosted = self._node.at_work(self._info.id)
                with reading():
                    return await here(hosted or await self._node.hosted(self._info))
            except Fenced:
                pass
            except Unavailable:
                if self._node.may_act():
                    raise
        self._node.ownership.check_store()
        return await elsewhere()

    @property
    def follower(self) -> Follower:
        """A copy of the world for reading; it is made when it is first asked for something."""
        if self._follower is None:
            self._follower = Follower(self._node.loader, self._info, self._cas)
        return self._follower


def steps_in(frame: Frame, cause: int) -> list[Stepped]:
    """The steps of one event in a frame."""
    found = []
    for height, step in frame.of(StepRecord):
        if step.cause == cause:
            reply: Any = value_of(step.extras["reply"]) if "reply" in step.extras else None
            found.append(Stepped(
                cause, step.module, step.key, step.status, step.version, height, reply,
                step.extras.get("code", ""), step.extras.get("text", ""), step.born,
            ))  # fmt: skip
    return found


def _refusal(record: RefusedRecord) -> Rejected:
    """The error that the owner's own senders get."""
    kind = TooOld if record.code == "kernel.too_old" else Rejected
    return kind(record.code, "{text}", text=record.text)


def _has_id(record: Record, wanted: bytes) -> bool:
    if not isinstance(record, EventRecord | RefusedRecord):
        return False
    return record.id is not None and dedupe_key(record.id) == wanted
