"""Rows that the hot path writes: what `write_row` makes, without a named record between.

A beat of plain events spends most of its time on these, so each is one literal, with positions of names that
the caller has looked up. `EventEncoder` goes one further and makes the bytes of rows. Tests hold all of them
against the table. Whoever writes a record now and then takes `FrameWriter.add`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from cellule.kernel.journal.codes import OK, Kind
from cellule.kernel.journal.table import KINDS, Row
from cellule.kernel.manifest.limits import KEY_BYTES_MAX
from cellule.values.writer import BYTES, LIST, head

ENCODERS_MAX: Final = 1_024
_EVENT: Final = int(Kind.EVENT)
_STEP: Final = int(Kind.STEP)
_INTENT: Final = int(Kind.INTENT)
_DECISION: Final = int(Kind.DECISION)
_RECEIPT: Final = int(Kind.RECEIPT)

SHORT_MAX: Final = KEY_BYTES_MAX  # the heads of byte strings up to here are made once
_HEADS: Final = [head(BYTES, size) for size in range(SHORT_MAX + 1)]
_NULL: Final = b"\xf6"
_BEFORE_SCHEMA: Final = head(LIST, KINDS[_EVENT].width) + bytes((_EVENT, 0)) + _NULL  # no cause, no id
_BEFORE_VALUE: Final = head(LIST, 1)  # an envelope without links
_BEFORE_MODULE: Final = head(LIST, 1) + head(LIST, 2)  # one target


def event_row(
    event_id: str | bytes | None, schema: int, value: Any, targets: list[list[Any]], extras: Any
) -> Row:
    """An event from outside."""
    return [_EVENT, 0, event_id, schema, value, targets, extras]


def step_row(
    cause: int, module: int, key: bytes, born: int, era: int, version: int, prev: int, state: bytes
) -> Row:
    """A step that made a short new state, and nothing else."""
    return [_STEP, cause, module, key, born, era, OK, version, prev, [state], None]


def noted_step_row(
    cause: int, module: int, key: bytes, born: int, era: int, version: int, prev: int, state: bytes,
    note: bytes | None,
) -> Row:  # fmt: skip
    """A step that made a short new state, perhaps with a short note, and nothing else."""
    extras = None if note is None else {"ann": [note]}
    return [_STEP, cause, module, key, born, era, OK, version, prev, [state], extras]


def step_parts(row: Row) -> tuple[int, int, bytes, int, int]:
    """The cause, module, key, birth and version of a step."""
    return row[1], row[2], row[3], row[4], row[7]


def intent_row(
    step: int, position: int, module: int, key: bytes, born: int, kind: int, params: Any, extras: Any
) -> Row:
    """A request for an effect."""
    return [_INTENT, step, position, module, key, born, kind, params, extras]


def decision_row(intent: int, verdict: int, extras: Any) -> Row:
    """What became of a request."""
    return [_DECISION, intent, verdict, extras]


def receipt_row(
    intent: int, module: int, key: bytes, born: int, status: int, schema: int, value: Any, delivery: int,
    extras: Any,
) -> Row:  # fmt: skip
    """How a request was settled."""
    return [_RECEIPT, intent, module, key, born, status, schema, value, delivery, extras]


@lru_cache(maxsize=ENCODERS_MAX)
def event_encoder(schema: int, module: int) -> EventEncoder:
    """The encoder for these positions of names; most beats have the same few."""
    return EventEncoder(schema, module)


class EventEncoder:
    """Encodes events of one schema from outside, each to one cell of one module, with nothing beside."""

    __slots__ = ("_middle", "_opening")

    def __init__(self, schema: int, module: int) -> None:
        self._opening = _BEFORE_SCHEMA + head(0, schema) + _BEFORE_VALUE
        self._middle = _BEFORE_MODULE + head(0, module)

    def encode(self, values: Iterable[bytes], keys: Iterable[bytes]) -> bytes:
        """The bytes of these rows; a key has at most `SHORT_MAX` bytes.

        One list of parts for all of them: columns by `zip` and `chain` take longer at every number of rows.
        """
        opening, middle, heads, null = self._opening, self._middle, _HEADS, _NULL
        parts: list[bytes] = []
        add = parts.extend
        for value, key in zip(values, keys, strict=True):
            size = len(value)
            value_head = heads[size] if size <= SHORT_MAX else head(BYTES, size)
            add((opening, value_head, value, middle, heads[len(key)], key, null))
        return b"".join(parts)
