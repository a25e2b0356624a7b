"""Correlation: which records belong to one story.

An event may carry a correlation id. Whatever follows from it inherits the id: steps, what they emit, intents,
decisions and receipts; an event of its own id begins another story. The id stands in the event's record only,
so it is found by following causes, each record once. What a run of a plan got and did belongs to the run's
correlation, too: the value that tells runs apart is the key of its cell.
"""

from __future__ import annotations

from collections.abc import Collection

from cellule.errors import Rejected
from cellule.host.read.journal_reader import JournalReader
from cellule.host.read.record_view import RecordRenderer, key_of_text
from cellule.kernel.journal.fields import Target
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.records import EmittedRecord, EventRecord, Record, StepRecord, TimerRecord
from cellule.kernel.manifest.plans import PLAN_STYLE

REMEMBERED_MAX = 500_000  # records whose story is remembered; beyond it everything is looked up anew


class Correlations:
    """Tells which records of a world belong to a correlation id; `runs` are the runs that have it."""

    def __init__(self, journal: JournalReader, wanted: str, runs: Collection[Target] = ()) -> None:
        self._journal = journal
        self._wanted = wanted
        self._runs = runs
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
            if self._runs and any(cell in self._runs for cell in _cells(record)):
                self._known[height] = True
                break
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


def _cells(record: Record) -> Collection[Target]:
    """The cells that a record is for."""
    match record:
        case StepRecord():
            return [(record.module, record.key)]
        case EventRecord() | EmittedRecord():
            return record.targets
    return ()


async def runs_of(renderer: RecordRenderer, wanted: str) -> frozenset[Target]:
    """The runs that have a correlation id, one for each plan of the world's eras whose keys it can be."""
    found: set[Target] = set()
    for manifest in await renderer.manifests():
        for base, module in manifest.modules.items():
            if module.style != PLAN_STYLE:
                continue
            try:
                found.add((base, key_of_text(manifest, base, wanted)))
            except Rejected:
                continue
    return frozenset(found)
