"""What a frame tells of its beat: the impulses it handled, which enzymes ran and how, what it queued.

A view of records, for the command line and for tests. Impulses that were sent again, continuations and
warnings stand in no log; lines of them stand in the agenda where something ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.heartbeat_records import AgendaRecord, SignalRecord, StageRecord
from cellule.kernel.state.heartbeat_rows import is_logged
from cellule.values.cbor import decode_trusted
from cellule.values.envelope import value_of
from cellule.values.link import Link


@dataclass(frozen=True, slots=True)
class Impulse:
    """One impulse; `payload` is plain values, or a link where it is long. `beat` is when it runs."""

    signal: str | None
    target: str | None
    payload: Any
    beat: int
    kind: str
    height: int


@dataclass(frozen=True, slots=True)
class AgendaLine:
    """One enzyme of an impulse; without one (`no_match`) nothing matched. `text` says why it failed."""

    enzyme: str | None
    number: int | None
    code: int | None
    ran: bool
    signal: str | None
    target: str | None
    text: str = ""

    @property
    def no_match(self) -> bool:
        """Whether the impulse resolved to nothing."""
        return self.number is None


@dataclass(frozen=True, slots=True)
class BeatView:
    """One beat: its number and time, what it handled and what it queued."""

    beat: int
    now_ns: int
    first: int
    last: int
    impulses: list[Impulse]
    agenda: list[AgendaLine]
    queued: list[Impulse]
    promoted: int


def beat_view(frame: Frame, names: Mapping[int, str]) -> BeatView:
    """The beat of a frame; `names` are those of the registry's entries by their numbers."""
    header = frame.header
    impulses: list[Impulse] = []
    agenda: list[AgendaLine] = []
    for _, record in frame.of(AgendaRecord):
        kind = record.extras.get("kind", "")
        if is_logged(kind):
            payload = _plain(record.extras.get("payload"))
            impulses.append(Impulse(record.signal, record.target, payload, header.beat, kind, record.cause))
        agenda += _lines(record, names)
    queued = [
        Impulse(each.signal, each.target, _plain(each.extras.get("payload")), each.beat,
                each.extras.get("kind", ""), height)
        for height, each in frame.of(SignalRecord)
    ]  # fmt: skip
    promoted = sum(record.promoted for _, record in frame.of(StageRecord))
    return BeatView(header.beat, header.now_ns, header.first, header.last, impulses, agenda, queued, promoted)


def entries_in(frame: Frame) -> set[int]:
    """The numbers of the entries that the agenda of a frame names."""
    return {number for _, record in frame.of(AgendaRecord) for number, _, _ in record.lines}


def _lines(record: AgendaRecord, names: Mapping[int, str]) -> list[AgendaLine]:
    texts = {number: f"{code}: {text}" for number, code, text in record.extras.get("failed", ())}
    if not record.lines and record.extras.get("kind", "") in ("", "retry") and "cell" not in record.extras:
        return [AgendaLine(None, None, None, False, record.signal, record.target)]
    return [
        AgendaLine(names.get(number), number, code, ran, record.signal, record.target, texts.get(number, ""))
        for number, code, ran in record.lines
    ]


def _plain(stored: Any) -> Any:
    if stored is None:
        return None
    value = value_of(stored)
    return value if isinstance(value, Link) else decode_trusted(value)
