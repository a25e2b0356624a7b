"""Reading a journal back: the records of frames as rows that tests ask about, found by cause and by cell.

Everything `testing.World` tells about the past comes from here, and so from the journal and nothing else.
Frames are read when someone asks, each once. Values stay bytes: which class they are of is known above.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cellule.host.erasure_keys import ERASED_TEXT
from cellule.kernel.journal.codes import Settled
from cellule.kernel.journal.frame import Frame, decode_frame
from cellule.kernel.journal.records import (
    EmittedRecord,
    EventRecord,
    IntentRecord,
    ReceiptRecord,
    StepRecord,
)
from cellule.kernel.state.intent_id import intent_digest
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid
from cellule.values.envelope import value_of
from cellule.values.sealed_value import is_sealed, is_sealed_text, sealed_of

Target = tuple[str, bytes]


class EventRow(NamedTuple):
    """An event that was admitted, or emitted by the step at `cause`."""

    height: int
    cause: int
    id: str | bytes | None
    schema: str
    value: bytes
    targets: tuple[Target, ...]
    now_ns: int


class StepRow(NamedTuple):
    """One step; `state` is None where the step changed nothing or deleted the cell."""

    height: int
    cause: int
    cell: Target
    born: int
    era: int
    status: int
    version: int
    state: bytes | None
    reply: bytes | None
    ann: bytes | None
    code: str
    text: str
    now_ns: int


class IntentRow(NamedTuple):
    """A request for an effect; `cause` is the step that made it, at `position` among its requests."""

    height: int
    cause: int
    position: int
    cell: Target
    born: int
    kind: str
    params: bytes
    stored: bytes  # the same as the record holds them
    key: str | None
    slot: str | None
    limits: Mapping[str, int] | None

    def digest(self, world: bytes) -> bytes:
        """The intent's id."""
        base, key = self.cell
        return intent_digest(world, base, key, self.born, self.cause, self.position, self.kind, self.stored)


class ReceiptRow(NamedTuple):
    """How an intent ended; `value` is what the adapter answered, where it did."""

    height: int
    intent: int
    status: str
    schema: str
    event: bytes
    value: bytes | None
    code: str
    text: str
    by: str


def opened_text(text: str, opened: Callable[[bytes], bytes]) -> str:
    """A text that may be sealed; where nobody can read it, it says so."""
    if not is_sealed_text(text):
        return text
    data = opened(sealed_of(text))
    return ERASED_TEXT if is_sealed(data) else str(decode(data))


class JournalView:
    """The rows of a journal that grows."""

    def __init__(
        self, frames: Sequence[bytes], fetch: Callable[[tuple[Cid, ...]], dict[Cid, bytes]],
        opened: Callable[[bytes], bytes] = lambda data: data,
    ) -> None:  # fmt: skip
        self._frames = frames
        self._fetch = fetch
        self._opened = opened
        self.forget()

    def forget(self) -> None:
        """Read everything anew: something may be erased."""
        self._read = 0
        self._events: dict[int, EventRow] = {}
        self._emitted: list[EventRow] = []
        self._steps: list[StepRow] = []
        self._by_cause: dict[int, list[StepRow]] = {}
        self._by_cell: dict[Target, list[StepRow]] = {}
        self._intents: dict[int, IntentRow] = {}
        self._receipts: dict[int, ReceiptRow] = {}

    def event(self, height: int) -> EventRow:
        """The event at that height, sent or emitted."""
        self._catch_up()
        return self._events[height]

    def has_event(self, height: int) -> bool:
        """Tell whether an event stands at that height."""
        self._catch_up()
        return height in self._events

    def sent(self) -> list[EventRow]:
        """All events from the outside."""
        self._catch_up()
        return [row for row in self._events.values() if row.cause == 0]

    def emitted(self) -> list[EventRow]:
        """All events that steps emitted."""
        self._catch_up()
        return self._emitted

    def steps(self) -> list[StepRow]:
        """All steps."""
        self._catch_up()
        return self._steps

    def steps_of(self, cause: int) -> list[StepRow]:
        """The steps that handled the event at that height."""
        self._catch_up()
        return self._by_cause.get(cause, [])

    def history(self, cell: Target) -> list[StepRow]:
        """The steps of one cell."""
        self._catch_up()
        return self._by_cell.get(cell, [])

    def intents(self) -> list[IntentRow]:
        """All requests for effects."""
        self._catch_up()
        return list(self._intents.values())

    def intent(self, height: int) -> IntentRow:
        """The request at that height."""
        self._catch_up()
        return self._intents[height]

    def receipt(self, intent: int) -> ReceiptRow | None:
        """The receipt of the intent at that height, if it has one."""
        self._catch_up()
        return self._receipts.get(intent)

    def _catch_up(self) -> None:
        while self._read < len(self._frames):
            self._take(decode_frame(self._frames[self._read]))
            self._read += 1

    def _take(self, frame: Frame) -> None:
        now_ns = frame.header.now_ns
        for height, record in frame.numbered():
            match record:
                case EventRecord():
                    self._take_event(height, record, 0, record.id, now_ns)
                case EmittedRecord():
                    self._emitted.append(self._take_event(height, record, record.cause, None, now_ns))
                case StepRecord():
                    self._take_step(height, record, now_ns)
                case IntentRecord():
                    self._take_intent(height, record)
                case ReceiptRecord():
                    self._take_receipt(height, record, now_ns)

    def _take_event(
        self, height: int, record: EventRecord | EmittedRecord, cause: int, event_id: str | bytes | None,
        now_ns: int,
    ) -> EventRow:  # fmt: skip
        value, targets = self._bytes(record.value), tuple(record.targets)
        row = self._events[height] = EventRow(height, cause, event_id, record.schema, value, targets, now_ns)
        return row

    def _take_intent(self, height: int, record: IntentRecord) -> None:
        self._intents[height] = IntentRow(
            height, record.cause, record.position, (record.module, record.key), record.born, record.kind,
            self._bytes(record.params), self._stored(record.params), record.extras.get("key"),
            record.extras.get("slot"), record.extras.get("limits"),
        )  # fmt: skip

    def _take_receipt(self, height: int, record: ReceiptRecord, now_ns: int) -> None:
        intent, schema, extras, event = record.cause, record.schema, record.extras, self._bytes(record.value)
        value: Any = None if is_sealed(event) else decode(event).get("value")  # type: ignore[union-attr]
        self._receipts[intent] = ReceiptRow(
            height, intent, Settled(record.status).name.lower(), schema, event,
            None if value is None else encode(value), extras.get("code", ""), self._text(extras),
            extras.get("by", ""),
        )  # fmt: skip
        cell = (record.module, record.key)
        self._events[height] = EventRow(height, intent, None, schema, event, (cell,), now_ns)

    def _take_step(self, height: int, record: StepRecord, now_ns: int) -> None:
        extras = record.extras
        state, reply, ann = (
            None if stored is None else self._bytes(stored)
            for stored in (record.state, extras.get("reply"), extras.get("ann"))
        )
        row = StepRow(
            height, record.cause, (record.module, record.key), record.born, record.era, record.status,
            record.version, state, reply, ann, extras.get("code", ""), self._text(extras), now_ns,
        )  # fmt: skip
        self._steps.append(row)
        self._by_cause.setdefault(row.cause, []).append(row)
        self._by_cell.setdefault(row.cell, []).append(row)

    def _text(self, extras: Mapping[str, Any]) -> str:
        return opened_text(extras.get("text", ""), self._opened)

    def _bytes(self, stored: Any) -> bytes:
        return self._opened(self._stored(stored))

    def _stored(self, stored: Any) -> bytes:
        value = value_of(stored)
        return value if isinstance(value, bytes) else self._fetch((value.cid,))[value.cid]
