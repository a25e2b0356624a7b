"""Reading a journal back: the records of frames as rows that tests ask about, found by cause and by cell.

Everything `testing.World` tells about the past comes from here, and so from the journal and nothing else.
Frames are read when someone asks, each once. Values stay bytes: which class they are of is known above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cellule.kernel.frame import Frame, decode_frame
from cellule.kernel.records import EMITTED, EVENT, STEP
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

    def _catch_up(self) -> None:
        while self._read < len(self._frames):
            self._take(decode_frame(self._frames[self._read]))
            self._read += 1

    def _take(self, frame: Frame) -> None:
        for position, record in enumerate(frame.records):
            height, kind = frame.header.first + position, record[0]
            if kind == EVENT:
                _, _, given, schema, held, targets, _ = record
                self._take_event(frame, height, 0, given, schema, held, targets)
            elif kind == EMITTED:
                _, cause, _, schema, held, targets = record
                self._emitted.append(self._take_event(frame, height, cause, None, schema, held, targets))
            elif kind == STEP:
                self._take_step(frame, height, record)

    def _take_event(
        self, frame: Frame, height: int, cause: int, given: Any, schema: int, held: Any, targets: Any
    ) -> EventRow:
        names = frame.names
        cells = tuple((names[base], key) for base, key in targets)
        row = EventRow(height, cause, given, names[schema], self._bytes(held), cells, frame.header.now_ns)
        self._events[height] = row
        return row

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
