"""What the kernel did, told as the model tells it: frames as tuples, cells as plain values.

The translation between bytes and the executable specification (`kernel_model.py`); tests compare both sides
of it. Texts of failures are left out: the model does not predict them.
"""

from __future__ import annotations

from typing import Any

from cellule.kernel.index.keys import pair_of
from cellule.kernel.journal.codes import Kind, Status
from cellule.kernel.journal.frame import Frame, decode_frame
from cellule.values.cbor import decode
from cellule.values.link import Link
from tests.support.kernel_model import STEP_FAILED, ModelWorld, Record
from tests.support.kernel_model_steps import Address
from tests.support.kernel_world import KernelWorld

Fields = list[Any]
Told = tuple[Any, ...]


def records_of(kernel: KernelWorld, data: bytes) -> list[Record]:
    """The records of a frame."""
    frame = decode_frame(data, prove=True)
    telling = _Telling(kernel, frame)
    return [telling.record(record) for record in frame.rows]


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
    numbers = (entry.version, entry.born, entry.era, entry.active_ns, entry.last) if state is not None else ()
    return state, numbers, stop, [message.height for message in more.get("queue", ())]


def cell_told(model: ModelWorld, address: Address) -> Told | None:
    """A cell of the model, in the same form."""
    cell = model.cells.get(address)
    if cell is None:
        return None
    numbers = (cell.version, cell.born, cell.era, cell.active_ns, cell.last) if cell.state is not None else ()
    return cell.state, numbers, cell.stop, [message.height for message in cell.queue]


class _Telling:
    """Tells the records of one frame."""

    def __init__(self, kernel: KernelWorld, frame: Frame) -> None:
        self._cas = kernel.cas
        self._names = frame.names

    def record(self, record: Fields) -> Record:
        kind = Kind(record[0]).name.lower()
        fields = getattr(self, f"_{kind}", tuple)(record[2:])
        return (kind, record[1], *fields)

    def _value(self, held: Any) -> Any:
        if held is None:
            return None
        return decode(self._cas[held.cid] if isinstance(held, Link) else held[0])

    def _targets(self, targets: Any) -> list[Address]:
        return [(self._names[base], key) for base, key in targets]

    def _event(self, fields: Fields) -> Told:
        given, schema, value, targets, more = fields
        return given, self._names[schema], self._value(value), self._targets(targets), more or {}

    def _emitted(self, fields: Fields) -> Told:
        depth, schema, held, targets = fields
        value = self._value(held)
        if self._names[schema] == STEP_FAILED:
            del value["text"]
        return depth, self._names[schema], value, self._targets(targets)

    def _step(self, fields: Fields) -> Told:
        base, key, born, era, status, version, prev, state, more = fields
        more = more or {}
        return (
            self._names[base], key, born, era, Status(status).name.lower(), version, prev, self._value(state),
            self._value(more.get("reply")), self._value(more.get("ann")), more.get("code", ""),
            more.get("log", False),
        )  # fmt: skip

    def _refused(self, fields: Fields) -> Told:
        given, schema, code, _ = fields
        return given, self._names[schema], code

    def _timer(self, fields: Fields) -> Told:
        fired, due_ns, what = fields
        named = None if what is None else (what[0], (self._names[what[1]], what[2]), what[3])
        return None if fired is None else pair_of(fired), due_ns, named

    def _expired(self, fields: Fields) -> Told:
        fired, base, key, born = fields
        return pair_of(fired), self._names[base], key, born

    def _control(self, fields: Fields) -> Told:
        verb, who, why, arguments = fields
        if "cells" in arguments:
            arguments = {**arguments, "cells": [tuple(cell) for cell in arguments["cells"]]}
        return verb, who, why, arguments

    def _migrated(self, fields: Fields) -> Told:
        base, key, born, era_from, era_to, held = fields
        state = self._value(held)
        told = None if isinstance(state, list) else state  # of a log, only the tail is in the record
        return self._names[base], key, born, era_from, era_to, told

    def _upcast(self, fields: Fields) -> Told:
        base, key, old, new = fields
        return self._names[base], key, self._names[old], self._names[new]
