"""What the kernel did, told as the model tells it: frames as tuples, cells as plain values.

The translation between bytes and the executable specification (`kernel_model.py`); tests compare both sides
of it. Texts of failures are left out: the model does not predict them.
"""

from __future__ import annotations

from typing import Any

from cellule.kernel.index.keys import pair_of
from cellule.kernel.journal import records as journal
from cellule.kernel.journal.codes import Status
from cellule.kernel.journal.fields import RetentionTimer
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.table import kind_name
from cellule.values.cbor import decode
from cellule.values.link import Link
from tests.support.kernel_model import STEP_FAILED, ModelWorld, Record
from tests.support.kernel_model_steps import Address
from tests.support.kernel_world import KernelWorld

Told = tuple[Any, ...]


def records_of(kernel: KernelWorld, data: bytes) -> list[Record]:
    """The records of a frame."""
    telling = _Telling(kernel)
    return [telling.record(record) for record in decode_frame(data, prove=True).records]


def cell_of(kernel: KernelWorld, base: str, key: bytes) -> Told | None:
    """A cell of the kernel: state, numbers where it has one, why it is stopped, heights of its messages."""
    entry = kernel.entry(base, key)
    if entry is None:
        return None
    more = entry.extras or {}
    stop = (more["status"], more["since"]) if "status" in more else None
    state: Any = decode(entry.state) if isinstance(entry.state, bytes) else None
    if isinstance(state, list):
        sealed: list[Any] = [decode(kernel.cas[link.cid]) for link in more.get("log", ())]
        state = [item for chunk in (*sealed, state) for item in chunk]
    numbers = (
        (entry.version, entry.born, entry.born_ns, entry.era, entry.active_ns, entry.last)
        if state is not None
        else ()
    )
    return state, numbers, stop, [message.height for message in more.get("queue", ())]


def cell_told(model: ModelWorld, address: Address) -> Told | None:
    """A cell of the model, in the same form."""
    cell = model.cells.get(address)
    if cell is None:
        return None
    numbers = (
        (cell.version, cell.born, cell.born_ns, cell.era, cell.active_ns, cell.last)
        if cell.state is not None
        else ()
    )
    return cell.state, numbers, cell.stop, [message.height for message in cell.queue]


class _Telling:
    """Tells the records of one world."""

    def __init__(self, kernel: KernelWorld) -> None:
        self._cas = kernel.cas

    def record(self, record: journal.Record) -> Record:
        kind = kind_name(record)
        fields = getattr(self, f"_{kind}", _all)(record)
        return (kind, record.cause, *fields)

    def _value(self, stored: Any) -> Any:
        if stored is None:
            return None
        return decode(self._cas[stored.cid] if isinstance(stored, Link) else stored[0])

    def _event(self, event: journal.EventRecord) -> Told:
        return event.id, event.schema, self._value(event.value), event.targets, event.extras

    def _emitted(self, emitted: journal.EmittedRecord) -> Told:
        value = self._value(emitted.value)
        if emitted.schema == STEP_FAILED:
            del value["text"]
        return emitted.depth, emitted.schema, value, emitted.targets

    def _step(self, step: journal.StepRecord) -> Told:
        extras = step.extras
        return (
            step.module, step.key, step.born, step.era, Status(step.status).name.lower(), step.version,
            step.prev, self._value(step.state), self._value(extras.get("reply")),
            self._value(extras.get("ann")), extras.get("code", ""), extras.get("log", False),
        )  # fmt: skip

    def _refused(self, refused: journal.RefusedRecord) -> Told:
        return refused.id, refused.schema, refused.code

    def _timer(self, timer: journal.TimerRecord) -> Told:
        what = timer.what
        named = (what.rule, (what.module, what.key), what.born) if isinstance(what, RetentionTimer) else what
        return None if timer.fired is None else pair_of(timer.fired), timer.due_ns, named

    def _expired(self, expired: journal.ExpiredRecord) -> Told:
        return pair_of(expired.fired), expired.module, expired.key, expired.born

    def _control(self, control: journal.ControlRecord) -> Told:
        arguments = control.arguments
        if "cells" in arguments:
            arguments = {**arguments, "cells": [tuple(cell) for cell in arguments["cells"]]}
        return control.verb, control.who, control.why, arguments, control.id

    def _migrated(self, migrated: journal.MigratedRecord) -> Told:
        state = self._value(migrated.state)
        told = None if isinstance(state, list) else state  # of a log, only the tail is in the record
        return (
            migrated.module, migrated.key, migrated.born, migrated.era_from, migrated.era_to, told,
        )  # fmt: skip


def _all(record: journal.Record) -> Told:
    """The fields of a record that is told as it is."""
    return tuple(value for field, value in zip(record._fields, record, strict=True) if field != "cause")
