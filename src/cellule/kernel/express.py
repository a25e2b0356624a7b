"""The way of plain events: one pass from item to queue, where nothing has to be looked at closely.

An event is plain if it has nothing beside its bytes, goes to one cell by one text field, and that cell is in
memory. `admit_plain` takes events from the front while they are; the first that is not, and all behind it, go
through `admission.py`, which knows every case. Both write the same records and change the ledger alike: which
way an event took is not to be seen in a frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cellule.kernel.cells import EVENT_MESSAGE, Message, Slot
from cellule.kernel.index.live import MISSING
from cellule.kernel.intents.desk import Desk
from cellule.kernel.items import Admitted, EventItem, Outcome
from cellule.kernel.limits import EVENT_BYTES_MAX, FRAME_BYTES_ADMIT
from cellule.kernel.manifest.event_routes import UNREADABLE
from cellule.kernel.manifest.limits import KEY_BYTES_MAX
from cellule.kernel.records import EVENT
from cellule.kernel.writer import LINK_MARK, RECORD_BYTES
from cellule.values.cbor import decode_linked

_new = tuple.__new__  # a NamedTuple without its Python-level constructor


def admit_plain(desk: Desk, items: Sequence[Any], start: int, stop: int, outcomes: list[Outcome]) -> int:
    """Admit plain events of `items[start:stop]`; returns the position of the first that is not one."""
    ledger, writer, singles = desk.ledger, desk.writer, desk.eras.current.router.singles
    if ledger.book.over:
        return start
    records, names, first = writer.records, writer.names, writer.first
    ring, active = ledger.ring, ledger.active
    for position in range(start, stop):
        item = items[position]
        schema, value = item.schema, item.value
        single = singles.get(schema)
        if single is None or not is_plain(item) or writer.size >= FRAME_BYTES_ADMIT:
            return position
        base, field = single
        slot = _slot(ledger.cells(base), field, value)
        if slot is None:
            return position
        at, target = names.get(schema), names.get(base)
        if at is None or target is None:
            at, target = writer.name(schema), writer.name(base)
        height = first + len(records)
        records.append([EVENT, 0, None, at, [value], [[target, slot.key]], None])
        writer.size += RECORD_BYTES + len(value)
        if not slot.active:
            slot.active = True
            active.append(slot)
        queue = slot.queue
        if not queue and not slot.stopped:
            ring.append(slot)
        queue.append(_new(Message, (height, EVENT_MESSAGE, schema, value, 0, None)))
        outcomes.append(_new(Admitted, (height, (slot,))))
    return stop


def is_plain(item: EventItem) -> bool:
    """Tell whether an event has nothing beside its bytes."""
    value = item.value
    return (
        item.key is None and item.id is None and item.expected_version is None and item.correlation is None
        and not item.explicit and not item.system and value.__class__ is bytes
        and len(value) <= EVENT_BYTES_MAX and LINK_MARK not in value
    )  # fmt: skip


def _slot(cells: Any, field: str, value: bytes) -> Slot | None:
    """The slot of the cell that an event names; None where it takes more than a look into memory."""
    try:
        key = decode_linked(value)[field].encode()  # type: ignore[index, union-attr, call-overload]
    except UNREADABLE:
        return None
    found: Slot | None = cells.slots.get(key)
    if found is not None:
        return found if found.loaded else None
    if not 0 < len(key) <= KEY_BYTES_MAX:
        return None
    entry = cells.live.cached(key)
    if entry is MISSING or (entry is not None and entry[6] is not None):
        return None
    slot = cells.slots[key] = Slot(cells, key, entry, loaded=True)
    slot.active = False
    return slot
