"""The why-graph: every record names the height of what led to it.

Back from a record to the first event is a chain of causes: a step, its message; a receipt, its intent, the
step that asked for it. Beside the chain stand the decisions about its intents and what people did. Forward is
a walk over the frames behind a record: it ends when every delivery found has been stepped and every intent
settled, or at a limit, which the answer then names. What a schedule sends begins with its timer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cellule.host.read.follower import Follower
from cellule.host.read.journal_reader import JournalReader
from cellule.host.read.record_view import RecordRenderer, RecordView
from cellule.kernel.journal.codes import HALTED, NOBODY, PARKED
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.records import (
    DecisionRecord,
    EmittedRecord,
    EventRecord,
    IntentRecord,
    ReceiptRecord,
    Record,
    StepRecord,
    TimerRecord,
)

FRAMES_MAX = 10_000  # frames looked through for effects
EFFECTS_MAX = 10_000  # records one answer holds
CAUSES_MAX = 100_000  # records of one chain


@dataclass(frozen=True, slots=True)
class Effects:
    """All that a record led to, oldest first; `complete` is False where the search was cut at `looked_to`."""

    records: list[RecordView]
    complete: bool
    looked_to: int


@dataclass(frozen=True, slots=True)
class Following:
    """The heights that follow from a record, with the kinds of their records."""

    found: list[tuple[int, type[Record]]]
    complete: bool
    looked_to: int


async def causes_of(renderer: RecordRenderer, height: int) -> list[RecordView]:
    """The record at a height and what led to it, newest first; the last one came from outside."""
    chain = [await renderer.at(height)]
    while chain[-1].cause and not _is_schedule(chain[-1]) and len(chain) < CAUSES_MAX:
        chain.append(await renderer.at(chain[-1].cause))
    return chain


async def beside(
    renderer: RecordRenderer, follower: Follower, chain: list[RecordView]
) -> dict[int, list[RecordView]]:
    """What else had a part: the decisions about each intent of a chain, and the controls of people."""
    found: dict[int, list[RecordView]] = {}
    for newer, told in zip([None, *chain], chain, strict=False):
        heights: list[int] = []
        if told.kind == "intent":
            heights = await _decisions(follower.journal, told.height, None if newer is None else newer.height)
        elif told.kind in ("receipt", "decision"):
            heights = [told.fields[name] for name in ("control",) if told.fields.get(name)]
        records = [await renderer.at(height) for height in heights]
        controls = [each.fields["control"] for each in records if each.fields.get("control")]
        records += [await renderer.at(height) for height in controls]
        if records:
            found[told.height] = sorted(records, key=lambda each: each.height)
    return found


async def _decisions(journal: JournalReader, height: int, until: int | None) -> list[int]:
    """The decisions about an intent, up to a height that is known to end it."""
    found: list[int] = []
    looked = 0
    async for frame in journal.frames(height, (await journal.head()).height):
        if until is not None and frame.header.first > until:
            break
        looked += 1
        for at, record in frame.numbered():
            if record.cause == height and isinstance(record, ReceiptRecord):
                return found
            if record.cause == height and isinstance(record, DecisionRecord):
                found.append(at)
        if looked >= FRAMES_MAX:
            break
    return found


async def effects_of(follower: Follower, renderer: RecordRenderer, height: int) -> Effects:
    """What the record at a height led to, directly and through others."""
    following = await following_of(follower.journal, height)
    records = [await renderer.at(found) for found, _ in following.found]
    return Effects(records, following.complete, following.looked_to)


async def following_of(journal: JournalReader, height: int) -> Following:
    """The heights of all that the record at a height led to; `Rejected` where it is not in the journal."""
    head = await journal.head()
    await journal.frame(height, head)
    walk = _Walk(height)
    looked, looked_to = 0, height
    async for frame in journal.frames(height, head.height):
        walk.take(frame)
        looked, looked_to = looked + 1, frame.header.last
        if not walk.open or looked >= FRAMES_MAX or len(walk.found) >= EFFECTS_MAX:
            break
    return Following(walk.found[:EFFECTS_MAX], not walk.open, looked_to)


@dataclass(slots=True)
class _Walk:
    """The heights that follow from `root`, and what among them has no step or no receipt yet."""

    root: int
    found: list[tuple[int, type[Record]]] = field(default_factory=list)
    known: set[int] = field(default_factory=set)
    open: set[tuple[int, str, bytes]] = field(default_factory=set)

    def take(self, frame: Frame) -> None:
        """Look through one frame."""
        for height, record in frame.numbered():
            if height == self.root:
                self.known.add(height)
                self._account(height, record)
            elif record.cause in self.known and not isinstance(record, TimerRecord):
                self.known.add(height)  # a schedule's timers follow each other, and are no part of it
                self.found.append((height, record.__class__))
                self._account(height, record)

    def _account(self, height: int, record: Record) -> None:
        match record:
            case EventRecord() | EmittedRecord():
                self.open.update((height, base, key) for base, key in record.targets)
            case StepRecord() if record.status not in (HALTED, PARKED):
                self.open.discard((record.cause, record.module, record.key))
            case IntentRecord():
                self.open.add((height, "", b""))
            case ReceiptRecord():
                self.open.discard((record.cause, "", b""))
                if record.delivery != NOBODY:
                    self.open.add((height, record.module, record.key))


def _is_schedule(view: RecordView) -> bool:
    return view.kind == "timer" and "schedule" in view.fields
