"""What people take out of a world: messages of stopped cells, cells, and dead letters.

Every removal is a Control record, with who and why. What it did to a cell stands behind it as Step records:
whoever waits for an event, or reads a cell's history, finds its end where all other ends are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from cellule.errors import Rejected
from cellule.kernel.decide import calls
from cellule.kernel.decide.argument_checks import check_bytes, check_text
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.intents import cancel, operate
from cellule.kernel.decide.requests import Origin
from cellule.kernel.decide.steps import conflict_of
from cellule.kernel.index.keys import pair_key
from cellule.kernel.items import Admitted, ControlItem
from cellule.kernel.journal.codes import DELETED, DROPPED
from cellule.kernel.journal.records import EmittedRecord, StepExtras, StepRecord
from cellule.kernel.limits import DROP_PER_CONTROL_MAX, ERASE_CELLS_MAX, ERASE_ENDS_MAX
from cellule.kernel.manifest.system import Ended
from cellule.kernel.need import Need
from cellule.kernel.program import recordable
from cellule.kernel.state import step_changes
from cellule.kernel.state.call_changes import calls_of
from cellule.kernel.state.cells import EVENT_MESSAGE, Message, Slot
from cellule.kernel.state.expectation import Asker, Call
from cellule.kernel.state.ledger import Target
from cellule.kernel.state.rows import DeadLetter
from cellule.values.link import Link

Record = Callable[[dict[str, Any]], Admitted]
"""Writes the Control record, with what was done beside its arguments."""

WHO_SHOWN_MAX = 200


def drop(context: BeatContext, item: ControlItem, slots: list[Slot], record: Record) -> Admitted:
    """Take the first messages out of the queues of stopped cells, and let these go on."""
    count = item.arguments.get("count", 1)
    if type(count) is not int or not 1 <= count <= DROP_PER_CONTROL_MAX:
        raise Rejected(
            "kernel.argument", "{verb} needs `count`, a number from 1 to {most}", verb=item.verb,
            most=DROP_PER_CONTROL_MAX,
        )  # fmt: skip
    if count > 1 and len(slots) > 1:
        raise Rejected("kernel.argument", "`count` is for one cell: {verb} needs `key`", verb=item.verb)
    first = item.arguments.get("message")
    if first is not None and (len(slots) != 1 or slots[0].queue[0].height != first):
        raise Rejected(
            "kernel.message_moved", "the message at height {message} is not the first of the cell's queue",
            message=first, hint="It was dropped or handled before: look at the cell again.",
        )  # fmt: skip
    admitted = record({"cells": [[slot.cells.base, slot.key] for slot in slots]})
    for slot in slots:
        for _ in range(min(count, len(slot.queue))):
            _drop_first(context, item, slot, admitted.height)
        step_changes.release(context.ledger, slot)
    return admitted


def _drop_first(context: BeatContext, item: ControlItem, slot: Slot, control: int) -> None:
    message, entry = slot.queue[0], slot.entry
    assert entry is not None  # a stopped cell has one
    text = f"dropped by {recordable(item.who)[:WHO_SHOWN_MAX]}"
    extras: StepExtras = {"code": "kernel.dropped", "text": text, "control": control}
    height = context.writer.add(
        StepRecord(
            message.height, slot.cells.base, slot.key, entry.born, entry.era, DROPPED, entry.version,
            entry.last, None, extras,
        )
    )  # fmt: skip
    step_changes.drop_first(context.ledger, slot, height)
    if isinstance(message.expected, Call):
        failed = calls.FailedCall(message.expected, Ended("dropped", extras["code"], text))
        calls.tell(context, (slot.cells.base, slot.key), failed, height, message.depth + 1)
    context.removed.append((
        message.height, slot.cells.base, slot.key, DROPPED, entry.version, height, None, extras["code"], text,
        entry.born,
    ))  # fmt: skip


def delete(context: BeatContext, slot: Slot, record: Record) -> Generator[Need, None, Admitted]:
    """Delete a cell's state, as a step of its own would; what waits in its queue meets none."""
    entry = slot.entry
    if entry is None or entry.state is None:
        raise Rejected(
            "kernel.no_cell", "there is no cell {module}/{key}", module=slot.cells.base, key=slot.key
        )
    admitted = record({})
    yield from _end(context, slot, admitted.height)
    return admitted


def erase(context: BeatContext, item: ControlItem, record: Record) -> Generator[Need, None, Admitted]:
    """Destroy the keys of cells, and delete those that are there; what waits for them is set aside unread.

    The rows of the keys change with the frame. A cell that is gone already is erased all the same.
    """
    cells = _erased(context, item)
    ledger, sealer = context.ledger, context.sealer
    yield from ledger.slots(cells)
    ids = {cell: sealer.ids_of(*cell) for cell in cells}
    yield from ledger.keys.find(ids.values())
    slots = [ledger.cells(base).slot(key) for base, key in cells]
    _check_ends(context, slots)
    admitted = record({"cells": [list(cell) for cell in cells]})
    step_changes.release_all(ledger, slots, only_empty=True)
    for slot in slots:
        if slot.entry is not None and slot.entry.state is not None:
            yield from _end(context, slot, admitted.height)
    for each in ids.values():
        ledger.keys.destroy(each)
    return admitted


def _check_ends(context: BeatContext, slots: list[Slot]) -> None:
    """Refuse to erase cells together that wait for more than one frame has room to end."""
    ends = sum(len(context.ledger.intents_of(slot)) + len(calls_of(slot.entry)) for slot in slots)
    if len(slots) > 1 and ends > ERASE_ENDS_MAX:
        raise Rejected(
            "kernel.erase_size", "the cells have {count} open effects and calls; {most} are ended together",
            count=ends, most=ERASE_ENDS_MAX, hint="Nothing was erased: name fewer cells at a time.",
        )  # fmt: skip


def _erased(context: BeatContext, item: ControlItem) -> list[Target]:
    """The cells that a control erases, each once."""
    base, given = check_text(item.arguments.get("module"), "module"), item.arguments.get("keys")
    if not isinstance(given, list) or not 1 <= len(given) <= ERASE_CELLS_MAX:
        raise Rejected(
            "kernel.argument", "{verb} needs `keys`, a list of 1 to {most}", verb=item.verb,
            most=ERASE_CELLS_MAX,
        )  # fmt: skip
    if not context.sealer.in_use:
        raise Rejected(
            "kernel.not_erasable", "no module of this world asks for erasure: {module} cannot be erased",
            module=base, hint="Declare it with `erasable=True`; what was written before stays readable.",
        )  # fmt: skip
    return [(base, key) for key in dict.fromkeys([check_bytes(each, "keys") for each in given])]


def _end(context: BeatContext, slot: Slot, control: int) -> Generator[Need, None, None]:
    """Delete a cell that is there by the control at a height."""
    entry = slot.entry
    assert entry is not None
    version, era = entry.version + 1, entry.era
    gone = context.ledger.intents_of(slot)
    step = StepRecord(
        control, slot.cells.base, slot.key, entry.born, era, DELETED, version, entry.last, None,
        {"control": control},
    )  # fmt: skip
    height = context.writer.add(step)
    step_changes.delete(context.ledger, slot)
    calls.tell_gone(context, (slot.cells.base, slot.key), entry, height)
    yield from cancel.abandon(context, slot, Origin(height, entry.born, 0, era), gone)


def redrive(context: BeatContext, item: ControlItem, record: Record) -> Generator[Need, None, Admitted]:
    """Let a dead letter happen again: a message goes to its cell once more, an effect is asked for again."""
    at = operate.number(item, "letter")
    letter = yield from context.ledger.dead_letters.get(pair_key(at, 0))
    if letter is None:
        return (yield from operate.retry(context, item, lambda: record({})))
    message = letter.message
    yield from _check_taken(context, letter, message)
    value, target = (yield from _bytes_of(context, message)), (letter.module, letter.key)
    admitted = record({})
    context.ledger.take_letter(at, 0)
    emitted = EmittedRecord(at, message.depth, message.schema, context.writer.value(value), [target])
    height = context.writer.add(emitted)
    again = Message(height, EVENT_MESSAGE, message.schema, value, message.depth, None)
    context.ledger.emit(again, [target])
    return admitted


def _bytes_of(context: BeatContext, message: Message) -> Generator[Need, None, bytes]:
    """The value of a message, wherever it is: a long one at rest is a link, and the frame does not tell."""
    if isinstance(message.value, Link):
        return (yield from context.stored_value(message.value))
    return message.value


def _check_taken(context: BeatContext, letter: DeadLetter, message: Message) -> Generator[Need, None, None]:
    if letter.module not in context.eras.current.manifest.modules:
        raise Rejected(
            "kernel.no_module", "module {module} is not in the current manifest: {key} takes no message",
            module=letter.module, key=letter.key,
        )  # fmt: skip
    operate.check_letter(context, letter, of_entry=isinstance(message.expected, Asker))
    slot = yield from context.slot(letter.module, letter.key)
    if message.expected is None:
        return
    version = 0 if slot.entry is None else slot.entry.version
    conflict = conflict_of(message, slot.entry, version)
    if conflict is not None:
        code, text = conflict
        raise Rejected(code, "{text}", text=text, hint="Dismiss the dead letter, and decide anew.")


def dismiss(context: BeatContext, item: ControlItem, record: Record) -> Generator[Need, None, Admitted]:
    """Let a dead letter go for good."""
    at = operate.number(item, "letter")
    for position in (0, 1):
        letter = yield from context.ledger.dead_letters.get(pair_key(at, position))
        if letter is not None:
            admitted = record({})
            context.ledger.take_letter(at, position)
            return admitted
    raise Rejected("kernel.no_letter", "there is no dead letter at height {height}", height=at)
