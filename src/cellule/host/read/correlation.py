"""Correlation: which records belong to one story.

An event may carry a correlation id. Whatever follows from it inherits the id: steps, what they emit, intents,
decisions and receipts; an event of its own id begins another story. The id stands in the event's record only,
so it is found by following causes, each record once.
"""

from __future__ import annotations

from cellule.host.read.journal_reader import JournalReader
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.records import EventRecord, Record, TimerRecord

REMEMBERED_MAX = 500_000  # records whose story is remembered; beyond it everything is looked up anew


class Correlations:
    """Tells which records of a world belong to a correlation id."""

    def __init__(self, journal: JournalReader, wanted: str) -> None:
        self._journal = journal
        self._wanted = wanted
        self._known: dict[int, bool] = {0: False}

    async def within(self, frame: Frame) -> set[int]:
        """The heights of a frame's records that belong to the id."""
        return {height for height, _ in frame.numbered() if await self.has(height, frame)}

    async def has(self, height: int, frame: Frame | None = None) -> bool:
        """Tell whether the record at a height belongs to the id; `frame` may hold it."""
        if len(self._known) > REMEMBERED_MAX:
            self._known = {0: False}
        passed: list[int] = []
        while height not in self._known:
            if frame is None or not frame.header.first <= height <= frame.header.last:
                frame = await self._journal.frame(height)
            record = frame.at(height)
            passed.append(height)
            own = _own(record)
            if own is not None:
                self._known[height] = own == self._wanted
                break
            height = 0 if isinstance(record, TimerRecord) else record.cause
        found = self._known[height]
        self._known.update(dict.fromkeys(passed, found))
        return found


def _own(record: Record) -> str | None:
    """The correlation id that a record carries itself."""
    return record.extras.get("correlation") if isinstance(record, EventRecord) else None
