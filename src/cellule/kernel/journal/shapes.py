"""What each field of a record may be: proven by `check` and on import, where bytes come from elsewhere.

Restore does not ask: its frames were chained by the world's own writer, and what does not fit contradicts
the journal there. A shape is a function that tells whether a value fits; `records.py` draws the records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cellule.errors import CelluleError
from cellule.kernel.journal.records import (
    BASELINE,
    CONTROL,
    DECISION,
    EMITTED,
    EVENT,
    EXPIRED,
    INTENT,
    MANIFEST,
    MIGRATED,
    NEXT_BEAT,
    RECEIPT,
    REFUSED,
    SNAPSHOT,
    STEP,
    TIMER,
    UPCAST,
    Settled,
    Status,
    VerdictCode,
)  # fmt: skip
from cellule.values.cbor import decode
from cellule.values.envelope import check_envelope, open_envelope
from cellule.values.link import Link

Shape = Callable[[Any, int], bool]  # the value, and how many names the frame has


def wrong_field(record: list[Any], names: int) -> str | None:
    """The name of the first field (after kind and cause) that is not what its kind asks for, or None."""
    for position, (field, shape) in enumerate(_SHAPES[record[0]], start=2):
        if not shape(record[position], names):
            return field
    return None


def _count(value: Any, _: int) -> bool:
    return type(value) is int and value >= 0


def _text(value: Any, _: int) -> bool:
    return isinstance(value, str)


def _bytes(value: Any, _: int) -> bool:
    return isinstance(value, bytes)


def _link(value: Any, _: int) -> bool:
    return isinstance(value, Link)


def _name(value: Any, names: int) -> bool:
    return type(value) is int and 0 <= value < names


def _given(value: Any, _: int) -> bool:
    return value is None or isinstance(value, str | bytes)


def _value(value: Any, _: int) -> bool:
    if isinstance(value, Link):
        return True
    try:
        envelope = open_envelope(value)
        check_envelope(envelope)
        if envelope.key_id is None:
            decode(envelope.data)
    except CelluleError:
        return False
    return True


def _state(value: Any, names: int) -> bool:
    return value is None or _value(value, names)


def _status(value: Any, _: int) -> bool:
    return type(value) is int and 0 <= value < len(Status)


def _targets(value: Any, names: int) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, list) and len(item) == 2 and _name(item[0], names) and isinstance(item[1], bytes)
        for item in value
    )


def _timer_key(value: Any, _: int) -> bool:
    return isinstance(value, bytes) and len(value) == 16


def _fired(value: Any, names: int) -> bool:
    return value is None or _timer_key(value, names)


def _what(value: Any, names: int) -> bool:
    if value is None:
        return True
    if not isinstance(value, list) or len(value) != 4:
        return False
    what, name, key, number = value
    if what not in ("ttl", "idle", "schedule") or not _name(name, names) or not isinstance(key, bytes):
        return False
    return _count(number, 0) and (what != "schedule" or number <= 1)


def _arguments(value: Any, _: int) -> bool:
    if not isinstance(value, dict):
        return False
    cells, under = value.get("cells", []), value.get("under", [])
    if not isinstance(under, list) or not all(isinstance(base, str) for base in under):
        return False
    return isinstance(cells, list) and all(
        isinstance(cell, list) and len(cell) == 2 and isinstance(cell[0], str) and isinstance(cell[1], bytes)
        for cell in cells
    )


def _more(**known: Shape) -> Shape:
    """Null or a map of some of these fields."""

    def fits(value: Any, names: int) -> bool:
        return value is None or (
            isinstance(value, dict)
            and bool(value)
            and all(field in known and known[field](held, names) for field, held in value.items())
        )

    return fits


def _yes(value: Any, _: int) -> bool:
    return value is True


def _settled(value: Any, _: int) -> bool:
    return type(value) is int and 0 <= value < len(Settled)


def _verdict(value: Any, _: int) -> bool:
    return type(value) is int and 0 <= value < len(VerdictCode)


def _how(value: Any, _: int) -> bool:
    return type(value) is int and 0 <= value <= NEXT_BEAT


_CELL: Final[list[tuple[str, Shape]]] = [("module", _name), ("key", _bytes)]
_SHAPES: Final[dict[int, list[tuple[str, Shape]]]] = {
    EVENT: [
        ("id", _given), ("schema", _name), ("value", _value), ("targets", _targets),
        ("more", _more(dedupe=_yes, expected=_count, correlation=_text)),
    ],
    EMITTED: [("depth", _count), ("schema", _name), ("value", _value), ("targets", _targets)],
    STEP: [
        *_CELL, ("born", _count), ("era", _count), ("status", _status), ("version", _count), ("prev", _count),
        ("state", _state),
        ("more", _more(reply=_value, ann=_value, code=_text, text=_text, log=_yes, timed_out=_yes)),
    ],
    RECEIPT: [
        *_CELL, ("born", _count), ("status", _settled), ("schema", _name), ("value", _value), ("how", _how),
        ("more", _more(
            fired=_timer_key, by=_text, attempts=_count, exhausted=_yes, who=_text, why=_text, code=_text,
            text=_text, under=_yes, control=_count, depth=_count,
        )),
    ],
    INTENT: [
        ("position", _count), *_CELL, ("born", _count), ("kind", _name), ("params", _value),
        ("more", _more(key=_text, slot=_text)),
    ],
    DECISION: [
        ("verdict", _verdict),
        ("more", _more(
            rule=_text, grant=_text, period=_count, due_ns=_count, code=_text, text=_text, same=_count,
            over=_yes, control=_count,
        )),
    ],
    REFUSED: [("id", _given), ("schema", _name), ("code", _text), ("text", _text)],
    TIMER: [("fired", _fired), ("due_ns", _count), ("what", _what)],
    EXPIRED: [("fired", _timer_key), *_CELL, ("born", _count)],
    CONTROL: [("verb", _text), ("who", _text), ("why", _text), ("arguments", _arguments)],
    MANIFEST: [("manifest", _link), ("era", _count)],
    SNAPSHOT: [("height", _count), ("snapshot", _link)],
    BASELINE: [("height", _count), ("snapshot", _link)],
    MIGRATED: [*_CELL, ("born", _count), ("era_from", _count), ("era_to", _count), ("state", _value)],
    UPCAST: [*_CELL, ("schema_from", _name), ("schema_to", _name)],
}  # fmt: skip
