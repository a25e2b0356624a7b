"""Admission: items become records, and messages in queues.

An item is refused, found to be a duplicate, or admitted at a height of its own; refusals of items that were
acknowledged before (`durable`) are recorded. Events up to the next control are routed first, so that all
cells they touch are read together. Plain events at the front and plain receipts may take short ways.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from cellule.errors import CelluleError, Rejected, TooOld
from cellule.kernel.decide import controls, forks, impulses
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.eras import Compiled
from cellule.kernel.decide.intents import settle as settling
from cellule.kernel.decide.refusals import refused
from cellule.kernel.items import (
    LATER,
    Admitted,
    ControlItem,
    Duplicate,
    EventItem,
    ForkItem,
    Item,
    Outcome,
    ReceiptItem,
    RefusalItem,
    RefusedItem,
    SignalItem,
    record_id,
)
from cellule.kernel.journal.records import EventExtras, RefusedRecord
from cellule.kernel.journal.rows import event_row
from cellule.kernel.journal.writer import LINK_MARK, RECORD_BYTES, held_bytes
from cellule.kernel.limits import EVENT_BYTES_MAX, FRAME_BYTES_ADMIT, HELD_CELLS_MAX
from cellule.kernel.manifest.system import OWN_EVENTS
from cellule.kernel.need import Need
from cellule.kernel.program import StepFault
from cellule.kernel.state.cells import EVENT_MESSAGE, Message, Slot
from cellule.kernel.state.dedupe import dedupe_key, payload_check
from cellule.kernel.state.expectation import Expected
from cellule.kernel.state.ledger import Target

_new = tuple.__new__  # a NamedTuple without its Python-level constructor


class Admission:
    """Admits the items of one beat; `outcomes` has one for each, in order, unless a short way took all."""

    __slots__ = ("_context", "_ledger", "_writer", "outcomes")

    def __init__(self, context: BeatContext) -> None:
        self._context = context
        self._ledger = context.ledger
        self._writer = context.writer
        self.outcomes: list[Outcome] = []

    def admit(self, items: Sequence[Item]) -> Generator[Need, None, None]:
        """Admit items in order, as many as the frame takes."""
        context = self._context
        start = yield from context.short.admit(items)
        if start == len(items):
            return
        # Other items follow, so the outcomes of the plain ones are told one by one, too.
        if start:
            self.outcomes.extend(context.short.leave())
        expected = False
        while start < len(items):
            item: Any = items[start]
            if self._writer.size >= FRAME_BYTES_ADMIT:
                self.outcomes.extend([LATER] * (len(items) - start))
                return
            if isinstance(item, ControlItem | SignalItem | RefusalItem | ForkItem):
                self.outcomes.append((yield from self._admit_other(item)))
                start += 1
                continue
            if isinstance(item, ReceiptItem):
                stop = context.short.settle(items, start, self.outcomes)
                if stop > start:
                    start = stop
                    continue
                # All intents of the beat's receipts are read together, and only if there are receipts.
                if not expected:
                    yield from settling.expect(context, items[start:])
                    expected = True
                self.outcomes.append((yield from settling.admit(context, item)))
                start += 1
                continue
            if not isinstance(item, EventItem | tuple):
                self.outcomes.append(_no_item(item))
                start += 1
                continue
            stop = start
            while stop < len(items) and isinstance(items[stop], EventItem | tuple):
                stop += 1
            yield from self._admit_events(
                [EventItem(*item[:2]) if isinstance(item, tuple) else item for item in items[start:stop]]
            )
            start = stop

    def _admit_other(
        self, item: ControlItem | SignalItem | RefusalItem | ForkItem
    ) -> Generator[Need, None, Outcome]:
        if isinstance(item, ControlItem):
            return (yield from controls.perform(self._context, item))
        if isinstance(item, SignalItem):
            return (yield from impulses.admit(self._context, item))
        if isinstance(item, RefusalItem):
            return self._turned_away(item)
        try:
            return (yield from forks.begin(self._context, item))
        except Rejected as error:
            return RefusedItem(error, 0)

    def _admit_events(self, items: Sequence[Any]) -> Generator[Need, None, None]:
        wanted: dict[str, list[bytes]] = {}
        routed = [self._routed(item, wanted) for item in items]
        if wanted:
            yield from self._ledger.load(wanted)
        outcomes, writer, admit = self.outcomes, self._writer, self._admit_one
        for position, (item, slots) in enumerate(zip(items, routed, strict=True)):
            if writer.size >= FRAME_BYTES_ADMIT:  # a flood of items must leave room for steps
                outcomes.extend([LATER] * (len(items) - position))
                return
            if self._context.sealer.in_use and type(slots) is list:
                item, slots = yield from self._context.sealer.event(item, slots)  # noqa: PLW2901 - from here
            if isinstance(slots, CelluleError):
                outcomes.append(self._refuse(item, slots))
            elif item.explicit:
                outcomes.append((yield from self._admit_once(item, slots)))
            elif (full := self._full(item, slots)) is not None:
                outcomes.append(full)
            else:
                expected = None if item.expected_version is None else _expected(item, None)
                outcomes.append(admit(item, slots, expected))

    def _routed(self, item: EventItem, wanted: dict[str, list[bytes]]) -> list[Slot] | CelluleError:
        """The slots an event goes to, or why it goes nowhere."""
        try:
            targets = self._targets(item)
        except CelluleError as error:
            return error
        slot = self._ledger.slot
        if len(targets) == 1:
            base, key = targets[0]
            return [slot(base, key, wanted)]
        return [slot(base, key, wanted) for base, key in targets]

    def _targets(self, item: EventItem) -> list[Target]:
        value = item.value
        if type(value) is not bytes:
            raise Rejected(
                "kernel.linked_event", "event {schema} is a link; give its bytes", schema=item.schema
            )
        if len(value) > EVENT_BYTES_MAX:
            raise Rejected(
                "kernel.event_size", "event {schema} has {size} bytes; at most {most}",
                schema=item.schema, size=len(value), most=EVENT_BYTES_MAX,
                hint="Put large data into a blob and send its link.",
            )  # fmt: skip
        if not item.system and item.schema.startswith(OWN_EVENTS):
            raise Rejected(
                "kernel.event_reserved", "event {schema} is one of Cellule's own; nobody sends it",
                schema=item.schema, hint="Send an event of the app.",
            )  # fmt: skip
        era = self._context.eras.current
        if item.schema in era.older:
            targets = self._targets_of_older(era, item, value)
        else:
            routing = era.router.targets if item.system else era.router.route
            targets = routing(item.schema, value, item.key)
        if item.expected_version is not None and item.expected_version < 0:
            raise Rejected(
                "kernel.expected_version", "event {schema} expects version {version}; versions count from 0",
                schema=item.schema, version=item.expected_version,
            )  # fmt: skip
        if item.expected_version is not None and len(targets) != 1:
            raise Rejected(
                "kernel.expected_version_targets",
                "event {schema} has {count} targets; expected_version needs exactly one",
                schema=item.schema, count=len(targets),
            )  # fmt: skip
        return targets

    def _targets_of_older(self, era: Compiled, item: EventItem, value: bytes) -> list[Target]:
        try:
            return era.targets_of_older(item.schema, value, item.key)
        except StepFault as fault:
            raise Rejected(
                fault.code, "event {schema} is of an older version and cannot be upcast: {why}",
                schema=item.schema, why=fault.text, hint="Correct the upcaster, or send the newer version.",
            ) from fault  # fmt: skip

    def _admit_once(self, item: EventItem, slots: list[Slot]) -> Generator[Need, None, Outcome]:
        """Admit an event whose id may have been here before."""
        dedupe = self._ledger.dedupe
        if item.id is None:
            return self._refuse(item, Rejected(
                "kernel.id_missing", "event {schema} asks to be told apart by an id and has none",
                schema=item.schema, hint="Give it an id, or send it without `explicit`.",
            ))  # fmt: skip
        assert isinstance(item.value, bytes)
        key = dedupe_key(item.id)
        seen = yield from dedupe.find(key, self._ledger.nodes)
        check = payload_check(item.schema, item.value)
        expected = _expected(item, key)
        if seen is not None and not dedupe.is_new_attempt(key, seen, expected.check if expected else 0):
            if seen.check == check:
                return Duplicate(seen.height)
            return self._refuse(item, Rejected(
                "kernel.id_reused", "id {id} was used at height {height} for another event",
                id=item.id, height=seen.height, hint="Give every event an id of its own.",
            ))  # fmt: skip
        # Ids of that time are forgotten: it may have been applied, so it must not be applied now.
        if item.issued_ns is not None and item.issued_ns + self._context.ahead_ns < dedupe.floor_ns:
            return self._refuse(item, TooOld(
                "kernel.too_old",
                "event {schema} was issued at {issued_ns}, before the oldest remembered id ({floor_ns})",
                schema=item.schema, issued_ns=item.issued_ns, floor_ns=dedupe.floor_ns,
                hint="It can no longer be told whether it was applied: look at the cell before sending anew.",
            ))  # fmt: skip
        if seen is None and dedupe.is_full(self._ledger.now_ns):
            return self._refuse(item, Rejected(
                "kernel.ids_full", "event {schema} has an id, and {count} of the last minute are remembered",
                schema=item.schema, count=dedupe.count(), hint="Send it later, or more slowly.",
            ))  # fmt: skip
        full = self._full(item, slots)
        if full is not None:
            return full
        outcome = self._admit_one(item, slots, expected)
        self._ledger.remember_id(key, outcome.height, check)
        return outcome

    def _full(self, item: EventItem, slots: list[Slot]) -> RefusedItem | None:
        """The refusal of an event for a cell that has no room for it."""
        ledger, size = self._ledger, len(item.value)  # type: ignore[arg-type]
        for slot in slots:
            base = slot.cells.base
            if not slot.has_room(size):
                what, why = "kernel.queue_full", f"{len(slot.queue)} messages wait at it"
            elif self._waits(base) and not slot.queue and len(ledger.held.get(base, ())) >= HELD_CELLS_MAX:
                what, why = "kernel.held_full", f"{HELD_CELLS_MAX} cells of its module wait already"
            else:
                continue
            return self._refuse(item, Rejected(
                what, "cell {module}/{key} takes no further event now: {why}",
                module=base, key=slot.key, why=why,
                hint="Send it later; `cellule stuck` tells what they wait for.",
            ))  # fmt: skip
        return None

    def _waits(self, base: str) -> bool:
        """Tell whether cells of a module with messages wait beside the ring."""
        return base in self._ledger.book.over or base in self._ledger.moves

    def _admit_one(self, item: EventItem, slots: list[Slot], expected: Expected | None) -> Admitted:
        """Write an event down and deliver it; with `Rounds` the hot path of the kernel."""
        writer, schema, value = self._writer, item.schema, item.value
        records, names = writer.records, writer.names
        at = names.get(schema)
        if at is None:
            at = writer.name(schema)
        extras, size = None, RECORD_BYTES + len(value)  # type: ignore[arg-type]
        if item.explicit or item.expected_version is not None or item.correlation is not None:
            extras = _event_extras(item)
            size += 0 if item.correlation is None else held_bytes(item.correlation)
        given = record_id(item.id)
        if given is not None:
            size += held_bytes(given)
        stored = [value] if type(value) is bytes and LINK_MARK not in value else writer.value(value)
        height = writer.first + len(records)
        targets: list[list[Any]] = []
        records.append(event_row(given, at, stored, targets, extras))
        message = _new(Message, (height, EVENT_MESSAGE, schema, value, 0, expected))
        deliver = self._ledger.deliver
        for slot in slots:
            base = slot.cells.base
            at = names.get(base)
            targets.append([writer.name(base) if at is None else at, slot.key])
            size += len(slot.key)
            deliver(slot, message)
        writer.size += size
        return _new(Admitted, (height, slots))

    def _turned_away(self, item: RefusalItem) -> RefusedItem:
        record = RefusedRecord(0, item.id, item.name, item.code, item.text)
        height = self._writer.add(record)
        return RefusedItem(Rejected(item.code, "{text}", text=item.text), height)

    def _refuse(self, item: EventItem, error: CelluleError) -> RefusedItem:
        return refused(self._writer, error, record_id(item.id), item.schema, durable=item.durable)


def _expected(item: EventItem, key: bytes | None) -> Expected | None:
    version = item.expected_version
    return None if version is None else Expected(version, item.expected_born, key)


def _no_item(item: object) -> RefusedItem:
    kind = type(item).__name__
    return RefusedItem(Rejected("kernel.item_unknown", "a beat takes items, not a {kind}", kind=kind), 0)


def _event_extras(item: EventItem) -> EventExtras:
    extras: EventExtras = {}
    if item.explicit:
        extras["dedupe"] = True
    if item.expected_version is not None:
        extras["expected"] = item.expected_version
        if item.expected_born is not None:
            extras["expected_born"] = item.expected_born
    if item.correlation is not None:
        extras["correlation"] = item.correlation
    return extras
