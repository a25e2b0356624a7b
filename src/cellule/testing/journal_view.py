"""Reading a journal back: the records of frames as rows that tests ask about, found by cause and by cell.

Everything `testing.World` tells about the past comes from here, and so from the journal and nothing else.
Frames are read when someone asks, each once. Values stay bytes: which class they are of is known above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cellule.kernel.journal.codes import EMITTED, EVENT, INTENT, RECEIPT, STEP, Settled
from cellule.kernel.journal.frame import Frame, decode_frame
from cellule.kernel.state.intent_id import intent_digest
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid
from cellule.values.envelope import open_envelope
from cellule.values.link import Link

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
    key: str | None
    slot: str | None

    def digest(self, world: bytes) -> bytes:
        """The intent's id."""
        base, key = self.cell
        return intent_digest(world, base, key, self.born, self.cause, self.position, self.kind, self.params)


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


class JournalView:
    """The rows of a journal that grows."""

    def __init__(self, frames: Sequence[bytes], fetch: Callable[[tuple[Cid, ...]], dict[Cid, bytes]]) -> None:
        self._frames = frames
        self._fetch = fetch
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

    def cells(self, base: str) -> list[bytes]:
        """The keys of all cells of a module that ever took a step."""
        self._catch_up()
        return [key for name, key in self._by_cell if name == base]

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
        for position, record in enumerate(frame.rows):
            height, kind = frame.header.first + position, record[0]
            if kind == EVENT:
                _, _, given, schema, held, targets, _ = record
                self._take_event(frame, height, 0, given, schema, held, targets)
            elif kind == EMITTED:
                _, cause, _, schema, held, targets = record
                self._emitted.append(self._take_event(frame, height, cause, None, schema, held, targets))
            elif kind == STEP:
                self._take_step(frame, height, record)
            elif kind == INTENT:
                self._take_intent(frame, height, record)
            elif kind == RECEIPT:
                self._take_receipt(frame, height, record)

    def _take_event(
        self, frame: Frame, height: int, cause: int, given: Any, schema: int, held: Any, targets: Any
    ) -> EventRow:
        names = frame.names
        cells = tuple((names[base], key) for base, key in targets)
        row = EventRow(height, cause, given, names[schema], self._bytes(held), cells, frame.header.now_ns)
        self._events[height] = row
        return row

    def _take_intent(self, frame: Frame, height: int, record: list[Any]) -> None:
        _, cause, position, base, key, born, kind, params, more = record
        more = more or {}
        self._intents[height] = IntentRow(
            height, cause, position, (frame.names[base], key), born, frame.names[kind], self._bytes(params),
            more.get("key"), more.get("slot"),
        )  # fmt: skip

    def _take_receipt(self, frame: Frame, height: int, record: list[Any]) -> None:
        _, intent, base, key, _, status, schema, held, _, more = record
        more = more or {}
        event = self._bytes(held)
        name, now_ns = frame.names[schema], frame.header.now_ns
        value: Any = decode(event).get("value")  # type: ignore[union-attr]
        self._receipts[intent] = ReceiptRow(
            height, intent, Settled(status).name.lower(), name, event,
            None if value is None else encode(value), more.get("code", ""), more.get("text", ""),
            more.get("by", ""),
        )  # fmt: skip
        self._events[height] = EventRow(
            height, intent, None, name, event, ((frame.names[base], key),), now_ns
        )

    def _take_step(self, frame: Frame, height: int, record: list[Any]) -> None:
        _, cause, base, key, born, era, status, version, _, held, more = record
        more = more or {}
        state, reply, ann = (
            None if value is None else self._bytes(value)
            for value in (held, more.get("reply"), more.get("ann"))
        )
        row = StepRow(
            height, cause, (frame.names[base], key), born, era, status, version, state, reply, ann,
            more.get("code", ""), more.get("text", ""), frame.header.now_ns,
        )  # fmt: skip
        self._steps.append(row)
        self._by_cause.setdefault(cause, []).append(row)
        self._by_cell.setdefault(row.cell, []).append(row)

    def _bytes(self, held: Any) -> bytes:
        if isinstance(held, Link):
            return self._fetch((held.cid,))[held.cid]
        return open_envelope(held).data
