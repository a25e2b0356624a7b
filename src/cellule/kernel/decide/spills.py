"""Whole maps become cells: one control begins the era in which a module has a cell for each key.

What it does stands in one frame: the Control record, the new era, a Step record for each entry of a map, the
end of the cell that held it. Messages that wait for that cell, and what its entries have asked for, go over
to the cells of their keys. All of it is decided before anything is changed, so what cannot be done is refused
whole, and a crash leaves either the map or the cells.

Rejected: a batch of entries at a time. Between two batches an event would find its key in the map or in a
cell, by chance; and a map always fits, as each of its steps had to answer it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import chain
from typing import NamedTuple

from cellule.errors import CelluleError, Rejected
from cellule.kernel.decide import timers
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.eras import CodeUnavailable, Compiled
from cellule.kernel.items import Admitted
from cellule.kernel.journal.codes import DELETED, OK
from cellule.kernel.journal.records import StepExtras, StepRecord
from cellule.kernel.journal.writer import RECORD_BYTES
from cellule.kernel.limits import SPILL_BYTES_MAX, SPILL_MESSAGES_MAX
from cellule.kernel.manifest import upcasts
from cellule.kernel.manifest.compare import is_spill
from cellule.kernel.manifest.keys import KeyForm
from cellule.kernel.manifest.model import Manifest, Upcaster
from cellule.kernel.need import Need, fetch
from cellule.kernel.program import StepFault
from cellule.kernel.state import spill_changes
from cellule.kernel.state.cells import Message, Slot
from cellule.kernel.state.expectation import Asker
from cellule.kernel.whole_map import WholeMap
from cellule.values.cbor import encode
from cellule.values.link import Link
from cellule.values.schema import types as t


class Spill(NamedTuple):
    """One map that becomes cells: their states by key, and the keys of messages by height."""

    slot: Slot
    entries: list[tuple[bytes, bytes]]
    messages: dict[int, bytes]


def plan(context: BeatContext, manifest: Manifest) -> Generator[Need, None, list[Spill]]:
    """What a deploy of this manifest has to move; raises `Rejected` where it cannot. Nothing is changed."""
    ledger, current = context.ledger, context.eras.current
    bases = [base for base in sorted(manifest.modules) if is_spill(current.manifest, manifest, base)]
    yield from ledger.slots([(base, b"") for base in bases])
    target = Compiled(len(ledger.eras), manifest)
    spills = []
    for base in bases:
        slot = ledger.cells(base).slot(b"")
        if slot.entry is not None or slot.queue or spill_changes.pending_of(ledger, (base, b"")):
            spills.append((yield from _planned(context, target, slot)))
    if not spills:
        raise Rejected(
            "kernel.nothing_to_spill", "no module of the manifest turns a map that is there into cells",
            hint="Deploy it: there is nothing to move.",
        )  # fmt: skip
    size = sum(_size(manifest, each) for each in spills)
    if size > SPILL_BYTES_MAX:
        raise Rejected(
            "kernel.spill_size", "the cells of {modules} take {size} bytes of one frame; it has {most}",
            modules=", ".join(each.slot.cells.base for each in spills), size=size, most=SPILL_BYTES_MAX,
            hint="Move one module, then the next; deploy the retention of the cells afterwards.",
        )  # fmt: skip
    yield from ledger.slots([(each.slot.cells.base, key) for each in spills for key in _keys(each)])
    for each in spills:
        cells = each.slot.cells
        there = next((key for key, _ in each.entries if cells.slot(key).entry is not None), None)
        if there is not None:
            raise _cannot(cells.base, f"there is a cell {there!r} already", "Delete that cell first.")
    return spills


def written(spills: Sequence[Spill]) -> dict[str, list[list[object]]]:
    """What the control says of what it did: the cells that held maps, and where their messages went."""
    queue: list[list[object]] = [
        [each.slot.cells.base, height, key] for each in spills for height, key in each.messages.items()
    ]
    cells: list[list[object]] = [[each.slot.cells.base, b""] for each in spills]
    return {"cells": cells, **({"queue": queue} if queue else {})}


def perform(context: BeatContext, spills: Sequence[Spill], admitted: Admitted) -> Generator[Need, None, None]:
    """Write the cells down and make it so; the era with a cell for each key has begun."""
    ledger, writer, era = context.ledger, context.writer, context.eras.current.number
    for slot, entries, messages in spills:
        base, before = slot.cells.base, slot.entry
        for key, state in entries:
            born, stored = writer.next_height(), writer.state(state)
            extras: StepExtras = {"control": admitted.height}
            if isinstance(stored, Link):
                extras["size"] = len(state)
            record = StepRecord(admitted.height, base, key, born, era, OK, 1, 0, stored, extras)
            writer.add(record, len(key) + (0 if isinstance(stored, Link) else len(state)))
            cell = slot.cells.slot(key)
            spill_changes.begin(ledger, cell, born, era, state, len(state))
            timers.arm(context, cell, born)
        version, born, last = (before.version + 1, before.born, before.last) if before else (0, 0, 0)
        ended = StepRecord(
            admitted.height, base, b"", born, era, DELETED, version, last, None, {"control": admitted.height}
        )  # fmt: skip
        writer.add(ended)
        owners = yield from spill_changes.end(ledger, slot, messages)
        context.opened = [
            each._replace(cell=owners[each.height][0], born=owners[each.height][1])
            if each.height in owners else each
            for each in context.opened
        ]  # fmt: skip


def _planned(context: BeatContext, target: Compiled, slot: Slot) -> Generator[Need, None, Spill]:
    base = slot.cells.base
    try:
        entries = yield from _entries(context, target, slot)
    except (StepFault, CodeUnavailable) as error:
        why = error.text if isinstance(error, StepFault) else str(error)
        raise _cannot(base, why, "Correct the upcaster, and try it again.") from error
    yield from _check_intents(context, slot)
    waiting = [*slot.queue, *spill_changes.pending_of(context.ledger, (base, b""))]
    if len(waiting) > SPILL_MESSAGES_MAX:
        why = f"{len(waiting)} messages wait for it; at most {SPILL_MESSAGES_MAX} are moved"
        raise _cannot(base, why, "Let it work them off first: `cellule stuck` says what it waits for.")
    messages: dict[int, bytes] = {}
    for message in waiting:
        messages[message.height] = yield from _key_of(context, target, base, message)
    return Spill(slot, entries, messages)


def _entries(
    context: BeatContext, target: Compiled, slot: Slot
) -> Generator[Need, None, list[tuple[bytes, bytes]]]:
    """The states of the cells, in the order of their keys, as the target's schema has them."""
    base, entry = slot.cells.base, slot.entry
    if entry is None or entry.state is None:
        return []
    era = yield from context.eras.era(entry.era)
    old, new = era.manifest.modules[base], target.manifest.modules[base]
    schema = upcasts.map_of(era.manifest, old.state)
    if schema is None or new.log:
        problem = f"its state {old.state} is no map" if schema is None else "its cells would be logs"
        raise _cannot(base, problem, "A map from keys to states becomes cells with these states.")
    steps = _steps(target, base, schema.value)
    assert new.key is not None
    form, codec = KeyForm(new.key, target.manifest.schemas), target.fits(new.state)
    data = yield from context.ledger.state_bytes(slot)
    found: list[tuple[bytes, bytes]] = []
    for key, value in sorted(WholeMap(schema, era.manifest.schemas).entries(data).items()):
        state = yield from context.eras.upcast(target, steps, encode(value))
        try:
            found.append((form.check(key, "of a map"), codec.encode(codec.decode(state))))
        except CelluleError as error:
            raise _cannot(base, f"its entry {key!r} does not fit: {error}", "Write an upcaster.") from error
    return found


def _steps(target: Compiled, base: str, value: t.Schema) -> list[Upcaster]:
    """The upcasters from the values of a map to the states of the cells."""
    state = target.manifest.modules[base].state
    if not isinstance(value, t.Ref):
        return []  # it has no name; what does not fit is refused as it is read
    found = upcasts.path(target.manifest, value.name, state)
    if found is None:
        remedy = f"Write one (old: {value.name}) -> {state}."
        raise _cannot(base, f"no upcaster leads from {value.name} to {state}", remedy)
    return found


def _check_intents(context: BeatContext, slot: Slot) -> Generator[Need, None, None]:
    """What the map has asked for has to belong to entries of it."""
    heights = context.ledger.intents_of(slot)
    yield from context.ledger.book.expect(heights)
    for height in heights:
        intent = yield from context.ledger.book.find(height)
        if intent is None or "entry" not in intent.extras:
            why = f"it waits for effect {height}, which belongs to no entry"
            hint = "Asked for before it had keys: let it end, or cancel it with `cellule effect cancel`."
            raise _cannot(slot.cells.base, why, hint)


def _key_of(
    context: BeatContext, target: Compiled, base: str, message: Message
) -> Generator[Need, None, bytes]:
    """The cell that a waiting message goes to."""
    if isinstance(message.expected, Asker):
        return message.expected.entry
    value = message.value
    if isinstance(value, Link):
        value = (yield from fetch(context.ledger.nodes, (value.cid,)))[value.cid]
    schema = message.schema
    try:
        found = target.router.entry_key(base, schema, value)
        if found is None and schema in target.older:
            steps = target.older[schema]
            value = yield from context.eras.upcast(target, steps, value)
            found = target.router.entry_key(base, steps[-1].new, value)
        if found is None:
            found = context.eras.current.router.entry_key(base, message.schema, value)
    except (CelluleError, StepFault, CodeUnavailable) as error:
        raise _keyless(base, message, str(error)) from error
    if found is None:
        raise _keyless(base, message, "no route of the manifest says where its key stands")
    return found


def _keyless(base: str, message: Message, why: str) -> Rejected:
    text = f"message {message.height} ({message.schema}) waits for it and has no key: {why}"
    return _cannot(base, text, "Let it be handled first, or drop it with `cellule cell drop`.")


def _keys(spill: Spill) -> list[bytes]:
    return list(dict.fromkeys(chain((key for key, _ in spill.entries), spill.messages.values())))


def _size(manifest: Manifest, spill: Spill) -> int:
    """What the frame, and the blocks of long states beside it, will hold: steps, timers and messages."""
    kept = manifest.modules[spill.slot.cells.base].retention
    records = 1 + (kept.ttl_ns is not None) + (kept.idle_ns is not None)
    entries = sum(records * (RECORD_BYTES + len(key)) + len(state) for key, state in spill.entries)
    return entries + sum(RECORD_BYTES + len(key) for key in spill.messages.values())


def _cannot(base: str, why: str, hint: str) -> Rejected:
    problem = "the map of {module} cannot become cells: {why}"
    return Rejected("kernel.cannot_spill", problem, module=base, why=why, hint=hint)
