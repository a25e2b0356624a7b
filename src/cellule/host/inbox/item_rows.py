"""Items as rows of the inbox: what another process writes there. `item_fields.py` reads them.

A long value goes into the CAS first and travels as a link.
"""

from __future__ import annotations

from typing import Any

from cellule.errors import Rejected
from cellule.host.limits import EVENT_INLINE_MAX
from cellule.kernel.items import ControlItem, EventItem, SignalItem, record_id
from cellule.kernel.limits import EVENT_BYTES_MAX
from cellule.kernel.manifest.system import SIGNAL
from cellule.store.cas import Cas
from cellule.values.envelope import seal
from cellule.values.link import Link


async def event_row(item: EventItem, cas: Cas) -> dict[str, Any]:
    """An event as the inbox stores it; a long value goes into the CAS first and travels as a link."""
    if item.id is None:
        raise Rejected("host.no_id", "an event for the inbox needs an id")
    row: dict[str, Any] = {
        "kind": "event", "schema": item.schema, "value": await _stored(item.schema, item.value, cas),
        "key": item.key,
        "id": record_id(item.id), "expected": item.expected_version, "expected_born": item.expected_born,
        "issued_ns": item.issued_ns, "correlation": item.correlation,
    }  # fmt: skip
    return {name: field for name, field in row.items() if field is not None}


async def signal_row(item: SignalItem, cas: Cas) -> dict[str, Any]:
    """An impulse as the inbox stores it; a long payload goes into the CAS, like the value of an event."""
    if item.id is None:
        raise Rejected("host.no_id", "a signal for the inbox needs an id")
    row: dict[str, Any] = {
        "kind": "signal", "signal": item.signal, "target": item.target, "beat": item.beat,
        "id": record_id(item.id),
    }  # fmt: skip
    if item.payload is not None:
        row["payload"] = await _stored(SIGNAL, item.payload, cas)
    return {name: field for name, field in row.items() if field is not None}


async def _stored(schema: str, value: bytes | Link, cas: Cas) -> Link | list[Any]:
    """A value inline, or as a link where it is long."""
    if isinstance(value, Link):
        return value
    check_event_size(schema, value)
    if len(value) > EVENT_INLINE_MAX:
        return Link(await cas.put(value, trusted=True))
    return seal(value)


def control_row(item: ControlItem) -> dict[str, Any]:
    """An operator's verb as the inbox stores it."""
    if item.id is None:
        raise Rejected("host.no_id", "a verb for the inbox needs an id")
    return {
        "kind": "control", "verb": item.verb, "who": item.who, "why": item.why,
        "arguments": dict(item.arguments), "id": record_id(item.id),
    }  # fmt: skip


def check_event_size(schema: str, value: bytes) -> None:
    """Refuse an event that no world takes."""
    if len(value) > EVENT_BYTES_MAX:
        raise Rejected(
            "host.event_size", "event {schema} has {size} bytes; at most {most}",
            schema=schema, size=len(value), most=EVENT_BYTES_MAX,
            hint="Put large data into a blob and send its link.",
        )  # fmt: skip
