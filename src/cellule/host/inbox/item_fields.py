"""Inbox rows as items: every field is proven here, whoever wrote the row.

A row was durable before anyone looked at it, perhaps written by another version or by a program of somebody
else. What is not exactly an item becomes a refusal that says which field is wrong, under the id of the row,
so that its sender finds it; it never reaches the kernel.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from cellule.errors import Rejected
from cellule.kernel.items import ControlItem, EventItem, RefusalItem, SignalItem
from cellule.kernel.limits import ERROR_TEXT_MAX
from cellule.kernel.manifest.system import SIGNAL
from cellule.values.envelope import check_envelope, open_envelope
from cellule.values.link import Link

UNREADABLE: Final = "inbox:unreadable"  # stands in a Refused record for the schema of a row that is no item
CODE: Final = "host.inbox_item"
NUMBER_MAX: Final = (1 << 63) - 1
NAME_CHARACTERS_MAX: Final = 512  # of a name in the record of a refused row


def item_of(row: Any) -> EventItem | ControlItem | SignalItem:
    """The item of a decoded row; `Rejected` names the field that is wrong."""
    if not isinstance(row, dict):
        _wrong("the row", "a map", row)
    kind = row.get("kind")
    if kind == "control":
        return _control(row)
    if kind == "signal":
        return _signal(row)
    if kind != "event":
        _wrong("kind", "event, signal, control, receipt or request", kind)
    return _event(row)


def _control(row: dict[str, Any]) -> ControlItem:
    verb: Any = _text(row, "verb")  # the kernel refuses those it does not know
    who, why, arguments = _text(row, "who"), _text(row, "why"), _map(row, "arguments")
    return ControlItem(verb, who, why, arguments, durable=True, id=_id(row))


def _event(row: dict[str, Any]) -> EventItem:
    key = row.get("key")
    if not isinstance(key, bytes | None):
        _wrong("key", "bytes", key)
    return EventItem(
        _text(row, "schema"), _value(row, "value"), key, _id(row), explicit=True,
        expected_version=_number(row, "expected"), expected_born=_number(row, "expected_born"),
        issued_ns=_number(row, "issued_ns"), durable=True,
        correlation=None if row.get("correlation") is None else _text(row, "correlation"),
    )  # fmt: skip


def _signal(row: dict[str, Any]) -> SignalItem:
    """An impulse; the kernel proves its paths."""
    signal, target = (None if row.get(name) is None else _text(row, name) for name in ("signal", "target"))
    payload: Any = None if row.get("payload") is None else _value(row, "payload")
    return SignalItem(signal, target, payload, _number(row, "beat"), _id(row), explicit=True, durable=True)


def _value(row: dict[str, Any], field: str) -> bytes | Link:
    """The value of an event: a link, or what its envelope holds, with the links that it lists."""
    value = row.get(field)
    if isinstance(value, Link):
        return value
    try:
        envelope = open_envelope(value)
        check_envelope(envelope)
    except Rejected:
        _wrong(field, "a link or an envelope", value)
    return envelope.data


def refusal_of(row: Any, error: Exception) -> RefusalItem:
    """What is recorded for a row that is no item, under its own name and id where it has them."""
    row = row if isinstance(row, dict) else {}
    name, event_id = UNREADABLE, row.get("id")
    if row.get("kind") == "event" and isinstance(row.get("schema"), str):
        name = row["schema"]
    elif row.get("kind") == "control" and isinstance(row.get("verb"), str):
        name = f"control:{row['verb']}"
    elif row.get("kind") == "signal":
        name = SIGNAL
    elif row.get("kind") == "receipt":
        name = "receipt"
    text = str(error) if isinstance(error, Rejected) else f"{type(error).__name__}: {error}"
    code = error.code if isinstance(error, Rejected) else CODE
    given = event_id if isinstance(event_id, str | bytes) else None
    return RefusalItem(name[:NAME_CHARACTERS_MAX], code, text[:ERROR_TEXT_MAX], given)


def _id(row: dict[str, Any]) -> str | bytes:
    event_id = row.get("id")
    if not isinstance(event_id, bytes | str):
        _wrong("id", "text or bytes", event_id)
    return event_id


def _text(row: dict[str, Any], field: str) -> str:
    value = row.get(field)
    if not isinstance(value, str):
        _wrong(field, "text", value)
    return value


def _map(row: dict[str, Any], field: str) -> dict[str, Any]:
    value = row.get(field)
    if not isinstance(value, dict):
        _wrong(field, "a map", value)
    return value


def _number(row: dict[str, Any], field: str) -> int | None:
    value = row.get(field)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= NUMBER_MAX:
        _wrong(field, "a whole number from 0", value)
    return value


def _wrong(field: str, wanted: str, found: Any) -> NoReturn:
    raise Rejected(
        CODE, "the inbox item's {field} must be {wanted}, not {found}", field=field, wanted=wanted,
        found=repr(found)[:80], hint="Nothing was changed. Send it again with the right value.",
    )  # fmt: skip
