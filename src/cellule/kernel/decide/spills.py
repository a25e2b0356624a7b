"""Whole maps become cells: a control begins the era in which a module has a cell for each key.

The control is checked against the whole map and everything that waits for it, so what cannot be done is
refused before anything is changed. Then, from its own beat on, each beat moves as many entries as its frame
has room for, in the order of their keys, each by a Step record; then the messages that wait for the map, from
the last one on; the end of the cell that held it is the end of the move. Until then no cell of the module
runs, and events for them wait in their queues (`spill_changes.py`). A crash leaves whole beats, and the world
goes on by itself where they end.

Rejected: cells that run while others are not moved yet. An event would find its key in the map or in a cell,
and what waits for the map would come after what was sent later. And all of it in one frame: how large a map
may be would depend on what its entries cost there.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import islice
from typing import Any

from cellule.errors import CelluleError, Rejected
from cellule.kernel.decide import calls, timers
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.eras import CodeUnavailable, Compiled
from cellule.kernel.decide.short_ways import GeneralWay
from cellule.kernel.journal.codes import DELETED, OK
from cellule.kernel.journal.records import ControlRecord, StepExtras, StepRecord
from cellule.kernel.journal.writer import RECORD_BYTES
from cellule.kernel.limits import (
    FRAME_BYTES_ADMIT,
    OUTPUT_BYTES_MAX,
    SPILL_CELLS_PER_BEAT,
    SPILL_MESSAGES_PER_BEAT,
)
from cellule.kernel.manifest import upcasts
from cellule.kernel.manifest.compare import is_spill
from cellule.kernel.manifest.keys import KeyForm
from cellule.kernel.manifest.model import Manifest, Upcaster
from cellule.kernel.need import Need, fetch
from cellule.kernel.program import StepFault
from cellule.kernel.state import spill_changes
from cellule.kernel.state.cells import Message, Slot
from cellule.kernel.state.expectation import Asker
from cellule.kernel.state.rows import MapMove
from cellule.kernel.whole_map import WholeMap
from cellule.values.cbor import encode
from cellule.values.link import Link
from cellule.values.schema import types as t

_FAULTS = (Rejected, StepFault, CodeUnavailable)


def plan(context: BeatContext, manifest: Manifest) -> Generator[Need, None, list[Slot]]:
    """The cells whose maps a deploy of this manifest moves; raises `Rejected` where one cannot move."""
    ledger, current = context.ledger, context.eras.current
    bases = [base for base in sorted(manifest.modules) if is_spill(current.manifest, manifest, base)]
    yield from ledger.slots([(base, b"") for base in bases])
    target = Compiled(len(ledger.eras), manifest)
    slots = [ledger.cells(base).slot(b"") for base in bases]
    slots = [
        slot for slot in slots
        if slot.entry is not None or slot.queue or spill_changes.is_awaited(ledger, slot)
    ]  # fmt: skip
    if not slots:
        raise Rejected(
            "kernel.nothing_to_spill", "no module of the manifest turns a map that is there into cells",
            hint="Deploy it: there is nothing to move.",
        )  # fmt: skip
    for slot in slots:
        yield from _check(context, target, slot)
    return slots


def begin(context: BeatContext, slots: Sequence[Slot], control: int) -> None:
    """The deploy at that height was recorded: the maps move from now on."""
    for slot in slots:
        spill_changes.begin(context.ledger, slot, control)
    context.short = GeneralWay(context.ledger.ring)  # the short ways know of no cells that are held for this


def check_idle(context: BeatContext, verb: str, base: Any) -> None:
    """Refuse what would disturb a move: another deploy, or a change of the module's cells."""
    moves = context.ledger.moves
    if moves and (verb in ("deploy", "cell.spill") or (base in moves and verb in _DISTURBING)):
        raise Rejected(
            "kernel.map_moving", "the map of {module} is becoming cells: {verb} has to wait until it has",
            module=base if base in moves else min(moves), verb=verb,
            hint="`cellule world migrate-cells` waits for it, and shows how far it is.",
        )  # fmt: skip


_DISTURBING = frozenset(("cell.delete", "cell.migrate", "cell.merge", "cell.import"))


def advance(context: BeatContext) -> Generator[Need, None, bool]:
    """Move as much of the maps as this frame has room for; tells whether anything was moved."""
    before = context.writer.next_height()
    for base, move in sorted(context.ledger.moves.items()):
        if context.writer.size < FRAME_BYTES_ADMIT:
            slot = yield from context.slot(base, b"")
            try:
                yield from _advance(context, slot, move)
            except _FAULTS:
                move.rest = None  # its code cannot be had now: the next beat tries again
    return context.writer.next_height() > before


def _advance(context: BeatContext, slot: Slot, move: MapMove) -> Generator[Need, None, None]:
    if move.rest is None:
        entries = yield from _entries(context, slot)
        move.rest = [(key, value) for key, value in entries if key > move.last]
    if move.rest:
        yield from _move_entries(context, slot, move, move.rest)
    if not move.rest and slot.queue:
        yield from _move_messages(context, slot, move)
    if move.rest or slot.queue or spill_changes.is_awaited(context.ledger, slot):
        return
    entry = slot.entry
    version, born, last = (entry.version + 1, entry.born, entry.last) if entry is not None else (0, 0, 0)
    base, era = slot.cells.base, context.eras.current.number
    extras: StepExtras = {"control": move.control}
    step = StepRecord(move.control, base, b"", born, era, DELETED, version, last, None, extras)
    height = context.writer.add(step)
    calls.tell_gone(context, (base, b""), entry, height)
    owners = yield from spill_changes.end(context.ledger, slot)
    context.opened = [
        each._replace(cell=owners[each.height][0], born=owners[each.height][1])
        if each.height in owners else each
        for each in context.opened
    ]  # fmt: skip


def _move_entries(
    context: BeatContext, slot: Slot, move: MapMove, rest: list[tuple[bytes, Any]]
) -> Generator[Need, None, None]:
    """Make cells of the next entries; what is left of them stays in `rest`."""
    ledger, cells, target = context.ledger, slot.cells, context.eras.current
    schema = yield from _map_schema(context, slot)
    steps = _steps(target, cells.base, schema.value)
    yield from ledger.slots((cells.base, key) for key, _ in islice(rest, SPILL_CELLS_PER_BEAT))
    done = 0
    for key, value in islice(rest, SPILL_CELLS_PER_BEAT):
        if context.writer.size >= FRAME_BYTES_ADMIT:
            break
        state = yield from _state_of(context, target, cells.base, steps, value)
        _bear(context, cells.slot(key), move.control, state)
        done += 1
    del rest[:done]


def _bear(context: BeatContext, cell: Slot, control: int, state: bytes) -> None:
    writer, era, base = context.writer, context.eras.current.number, cell.cells.base
    born, stored = writer.next_height(), writer.state(state)
    extras: StepExtras = {"control": control}
    if isinstance(stored, Link):
        extras["size"] = len(state)
    record = StepRecord(control, base, cell.key, born, era, OK, 1, 0, stored, extras)
    writer.add(record)
    spill_changes.bear(context.ledger, cell, born, era, state, len(state))
    timers.arm(context, cell, born)


def _move_messages(context: BeatContext, slot: Slot, move: MapMove) -> Generator[Need, None, None]:
    """Hand the last messages that wait for the map to the cells of their keys."""
    base, target = slot.cells.base, context.eras.current
    room, rows = FRAME_BYTES_ADMIT - context.writer.size, list[list[object]]()
    keys: list[bytes] = []
    for message in islice(reversed(slot.queue), SPILL_MESSAGES_PER_BEAT):
        if room <= 0:
            break
        key = yield from _key_of(context, target, base, message)
        keys.append(key)
        rows.append([base, message.height, key])
        room -= RECORD_BYTES + len(key)
    if not keys:
        return
    yield from context.ledger.slots((base, key) for key in keys)
    written = {"cells": [[base, b""]], "queue": rows}
    context.writer.add(ControlRecord(move.control, "cell.spill", "", "", written))
    spill_changes.hand_over(context.ledger, slot, keys)


def _check(context: BeatContext, target: Compiled, slot: Slot) -> Generator[Need, None, None]:
    """Refuse a map that cannot become cells as a whole, or whose messages have no cells to go to."""
    base, cells = slot.cells.base, slot.cells
    try:
        yield from _check_entries(context, target, slot)
    except CodeUnavailable as error:
        raise _cannot(base, str(error), "Correct the upcaster, and try it again.") from error
    cells.rest()
    page = yield from cells.live.scan(b"\0", None, 1)
    if page.entries:
        raise _cannot(base, f"there is a cell {page.entries[0][0]!r} already", "Delete that cell first.")
    yield from _check_intents(context, slot)
    arriving = [message for message, targets in context.ledger.pending if (base, b"") in targets]
    for message in (*slot.queue, *arriving):
        yield from _key_of(context, target, base, message)


def _check_entries(context: BeatContext, target: Compiled, slot: Slot) -> Generator[Need, None, None]:
    base, new = slot.cells.base, target.manifest.modules[slot.cells.base]
    entries = yield from _entries(context, slot)
    if slot.entry is None or slot.entry.state is None:
        return
    if new.log:
        raise _cannot(base, "its cells would be logs", _REMEDY)
    steps = _steps(target, base, (yield from _map_schema(context, slot)).value)
    assert new.key is not None
    form = KeyForm(new.key, target.manifest.schemas)
    for key, value in entries:
        try:
            form.check(key, "of a map")
            yield from _state_of(context, target, base, steps, value)
        except (CelluleError, StepFault) as error:
            why = error.text if isinstance(error, StepFault) else str(error)
            raise _cannot(base, f"its entry {key!r} does not fit: {why}", "Write an upcaster.") from error


_REMEDY = "A map from keys to states becomes cells with these states."


def _map_schema(context: BeatContext, slot: Slot) -> Generator[Need, None, t.Map]:
    """The schema of the map of a cell that has a state."""
    assert slot.entry is not None
    era = yield from context.eras.era(slot.entry.era)
    old = era.manifest.modules[slot.cells.base]
    schema = upcasts.map_of(era.manifest, old.state)
    if schema is None:
        raise _cannot(slot.cells.base, f"its state {old.state} is no map", _REMEDY)
    return schema


def _entries(context: BeatContext, slot: Slot) -> Generator[Need, None, list[tuple[bytes, Any]]]:
    """The entries of a map, in the order of their keys."""
    if slot.entry is None or slot.entry.state is None:
        return []
    schema = yield from _map_schema(context, slot)
    era = yield from context.eras.era(slot.entry.era)
    data = yield from context.ledger.state_bytes(slot)
    return sorted(WholeMap(schema, era.manifest.schemas).entries(data).items())


def _state_of(
    context: BeatContext, target: Compiled, base: str, steps: list[Upcaster], value: Any
) -> Generator[Need, None, bytes]:
    """The state of the cell that an entry becomes."""
    codec = target.fits(target.manifest.modules[base].state)
    state = codec.encode(codec.decode((yield from context.eras.upcast(target, steps, encode(value)))))
    if len(state) > OUTPUT_BYTES_MAX:
        raise StepFault("kernel.output_size", f"it has {len(state)} bytes upcast; at most {OUTPUT_BYTES_MAX}")
    return state


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


def _cannot(base: str, why: str, hint: str) -> Rejected:
    problem = "the map of {module} cannot become cells: {why}"
    return Rejected("kernel.cannot_spill", problem, module=base, why=why, hint=hint)
