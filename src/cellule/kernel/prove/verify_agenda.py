"""Verification of a recorded agenda: it is resolved and run again, and compared impulse by impulse.

What the enzymes did is compared by its digest: their records stand behind it one by one, and follow from it.
An agenda in which code timed out, or could not be loaded, says something about a machine: it is passed.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from cellule.kernel.decide.agenda import Agenda, Handled, Line, retries_of
from cellule.kernel.decide.agenda_records import exhausted_of, record_of
from cellule.kernel.decide.eras import Eras
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.heartbeat_records import (
    AgendaRecord,
)
from cellule.kernel.need import Need
from cellule.kernel.program import CODE_UNAVAILABLE, TIMED_OUT
from cellule.kernel.state.ledger import Ledger

_NOBODY = ("sys/Agenda", b"")
_FIELDS = ("cycle", "over", "dropped", "exhausted", "cell")


class AgendaDifference(NamedTuple):
    """Where the agenda run again is another one: at which height, of which impulse, and how."""

    height: int
    impulse: tuple[int, str]
    entry: tuple[str, bytes]  # the module and the name of an entry, where it is about one
    field: str
    recorded: object
    computed: object


class AgendaCheck(NamedTuple):
    """What came of running an agenda again; `runs` is how many enzymes ran, None where none was run."""

    runs: int | None
    difference: AgendaDifference | None = None


def check_agenda(
    ledger: Ledger, eras: Eras, world: bytes, frame: Frame
) -> Generator[Need, None, AgendaCheck]:
    """Run the agenda of a frame again; the ledger is as it was before its first record."""
    recorded = list(frame.of(AgendaRecord))
    codes = {code for _, record in recorded for _, code, _ in record.extras.get("failed", ())}
    if codes & {TIMED_OUT, CODE_UNAVAILABLE}:
        return AgendaCheck(None)
    agenda = Agenda(ledger, ledger.open_heartbeat(), eras, world, frame.header.entropy)
    handled = yield from agenda.decide()
    faults = [line.fault for each in handled for line in each.lines if line.fault is not None]
    if any(fault.timed_out or fault.code == CODE_UNAVAILABLE for fault in faults):
        return AgendaCheck(None)
    runs = sum(line.ran for each in handled for line in each.lines)
    for (height, record), each in zip(recorded, handled, strict=False):
        found = _differs(height, record, each)
        if found is not None:
            return AgendaCheck(runs, found)
    if len(recorded) > len(handled):  # fewer are those that its frame had room for
        height, first = recorded[0]
        place = (first.cause, str(first.signal))
        counts = len(recorded), len(handled)
        return AgendaCheck(runs, AgendaDifference(height, place, _NOBODY, "impulses", *counts))
    return AgendaCheck(runs)


def _differs(height: int, record: AgendaRecord, handled: Handled) -> AgendaDifference | None:
    again = record_of(handled, exhausted_of(handled, retries_of(handled)))
    place = (record.cause, f"{record.signal} at {record.target}")
    if (record.cause, record.signal, record.target) != (again.cause, again.signal, again.target):
        return AgendaDifference(height, place, _NOBODY, "impulse", record.cause, again.cause)
    if record.lines != again.lines:
        lines = [list(each) for each in record.lines], [list(each) for each in again.lines]
        return AgendaDifference(height, place, _other_line(record, handled), "lines", *lines)
    before, after = record.extras, again.extras
    for field in _FIELDS:
        if before.get(field) != after.get(field):
            return AgendaDifference(height, place, _NOBODY, field, before.get(field), after.get(field))
    failed = [[each[:2] for each in extras.get("failed", ())] for extras in (before, after)]
    if failed[0] != failed[1]:
        return AgendaDifference(height, place, _NOBODY, "failed", *failed)
    if before.get("digest") != after.get("digest"):
        done = [dict(action) for line in handled.lines if line.staged for action in line.staged.actions]
        return AgendaDifference(height, place, _name(handled.lines[0]), "actions", before.get("digest"), done)
    return None


def _other_line(record: AgendaRecord, handled: Handled) -> tuple[str, bytes]:
    """Whose line is the first that differs."""
    for before, line in zip(record.lines, handled.lines, strict=False):
        if before != (line.entry.number, line.code, line.ran):
            return _name(line)
    return _NOBODY


def _name(line: Line) -> tuple[str, bytes]:
    return line.entry.module, line.entry.name.encode()
