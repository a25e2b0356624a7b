"""A cell's history: its steps, newest first, through all its lives, a page at a time.

Within one life the steps are a chain: each names the height of the one before it, so only frames of this cell
are read. A cell that was deleted left no trace but its records, so what was before a birth is looked for
backwards in the journal. A page looks at a bounded number of bytes for that, and says where to go on.

Rejected: a row for each end of a life. Worlds with short-lived cells would write as many rows as cells, for
ever, for a question that is rarely asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from cellule.errors import Corrupted, Rejected, StepFailed, readable
from cellule.host.codecs import WorldCodecs
from cellule.host.journal import Head
from cellule.host.limits import HISTORY_MAX, HISTORY_SCAN_BYTES
from cellule.host.read.reader import Reader
from cellule.kernel.journal.codes import OK, Status
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.records import MessageRecord, StepRecord
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.state.ledger import Era
from cellule.modules.workflow.view import is_workflow, timeline
from cellule.values.cbor import decode_trusted
from cellule.values.schema.scalars import EPOCH, MICROSECOND
from cellule.values.sealed_value import is_sealed

T = TypeVar("T")
KEY_BYTES_MIN = 3  # a shorter key is in almost every frame: looking for its bytes would tell nothing


@dataclass(frozen=True, slots=True)
class Version(Generic[T]):
    """One step in a cell's history; `ann` is the note that the step left."""

    height: int
    version: int
    status: str
    schema: str
    cause: int
    now_ns: int
    state: T | None
    error: str
    code: str = ""
    ann: Any = None

    @property
    def at(self) -> datetime:
        """When the step was taken, in UTC."""
        return EPOCH + self.now_ns // 1_000 * MICROSECOND


class History(list[Version[T]]):
    """Versions of a cell, newest first.

    `next` is what the page that follows comes `before`; None where nothing can follow. A page may be short,
    or empty, and have a `next`: then the journal before that height was not looked at.
    """

    next: int | None = None


def _shown(base: str, manifest: Manifest, data: bytes, types: WorldCodecs) -> Any:
    """The state of a step; of a workflow, what the step added to its history, a line each."""
    if not is_workflow(manifest.modules[base]):
        return types.state(base, manifest, data)
    entries: Any = decode_trusted(data)
    return timeline(entries)


class HistoryReader:
    """Reads the history of one cell."""

    def __init__(self, reader: Reader, types: WorldCodecs, base: str, key: bytes) -> None:
        self._reader = reader
        self._types = types
        self._cell = (base, key)
        self._eras: list[Era] = []

    async def page(self, limit: int, before: int | None) -> History[Any]:
        """Up to `limit` steps below the height `before`, newest first."""
        if not 1 <= limit <= HISTORY_MAX:
            raise Rejected(
                "host.page_limit", "a page of a history has 1 to {most} versions, not {limit}",
                limit=limit, most=HISTORY_MAX,
            )  # fmt: skip
        head = await self._reader.journal.head()
        self._eras = await self._reader.eras()
        found: History[Any] = History()
        left = HISTORY_SCAN_BYTES
        height, below = await self._start(head, head.height + 1 if before is None else before)
        while len(found) < limit:
            # Steps name the one before, so only the first has to be searched for.
            if not height:
                height, below, left = await self._search(below, left)
                if not height:
                    found.next = below if below > 1 else None
                    return found
            frame, step = await self._step(height, head)
            found.append(await self._version(frame, height, step, head))
            height, below = step.prev, height
        found.next = height + 1 if height else below if below > 1 else None
        return found

    async def _start(self, head: Head, below: int) -> tuple[int, int]:
        """The newest step below a height if the chain of this life leads there, and where to look else."""
        below = max(1, min(below, head.height + 1))
        if below > 1:
            step = (await self._reader.journal.frame(below - 1, head)).at(below - 1)
            if isinstance(step, StepRecord) and (step.module, step.key) == self._cell:
                return below - 1, below  # as `next` names it
        entry = await self._reader.entry(*self._cell)
        height = 0 if entry is None or entry.born > below else entry.last
        while height >= below:
            height = (await self._step(height, head))[1].prev
        return height, below

    async def _step(self, height: int, head: Head) -> tuple[Frame, StepRecord]:
        frame = await self._reader.journal.frame(height, head)
        step = frame.expect(height, StepRecord)
        if (step.module, step.key) != self._cell:
            base, key = self._cell
            raise Corrupted(
                "host.history_broken",
                "the history of cell {module}/{key} leads to height {height}, a step of {other}",
                module=base, key=readable(key), height=height, other=step.module,
                hint="Run `cellule check`: a frame may be missing.",
            )  # fmt: skip
        return frame, step

    async def _search(self, below: int, left: int) -> tuple[int, int, int]:
        """The newest step below a height, looked for backwards; how far that went, and the bytes left."""
        base, key = self._cell
        async for last, data in self._reader.journal.backwards(below - 1):
            if left <= 0:
                return 0, last + 1, 0
            left -= len(data)
            if len(key) >= KEY_BYTES_MIN and key not in data:
                continue
            frame = await self._reader.journal.frame(last)
            height = frame.newest_step(base, key, below)
            if height:
                return height, height, left
        return 0, 1, left

    async def _state(self, step: StepRecord, data: bytes) -> Any:
        newest = await self._reader.newest_state(step.module, step.era, data, self._types, self._eras)
        return _shown(step.module, *newest, self._types)

    async def _note(self, step: StepRecord) -> Any:
        note = step.extras.get("ann")
        if note is None:
            return None
        data = await self._reader.bytes_of(note)
        return self._types.erased if is_sealed(data) else decode_trusted(data)

    async def _version(self, frame: Frame, height: int, step: StepRecord, head: Head) -> Version[Any]:
        state: Any = None
        error = await self._reader.keys.opened_text(step.extras.get("text", ""))
        if step.state is not None and step.status == OK:
            try:
                data = await self._reader.bytes_of(step.state)
                if is_sealed(data):
                    state = await self._reader.erased(data, self._types)
                else:
                    state = await self._state(step, data)
            except (StepFailed, Rejected, Corrupted) as unreadable:
                error = str(unreadable)
        ann = await self._note(step)
        message = (await self._reader.journal.frame(step.cause, head)).at(step.cause)
        schema = message.schema if isinstance(message, MessageRecord) else ""
        return Version(
            height, step.version, Status(step.status).name.lower(), schema, step.cause, frame.header.now_ns,
            state, error, step.extras.get("code", ""), ann,
        )  # fmt: skip
