"""A cell takes over the state that another world gave it: by a person's word, as a step of the journal.

The state comes from a fork that was merged (`host/branches/merge.py`), or from the file of an exported cell
(`host/archive/cell_importer.py`), which needs a cell that is not there. It is taken only by a cell that is
what was looked at, and at rest: no messages, no open effects, not stopped. No code runs, so `verify` passes
over the Step, as over all that people do to cells.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from cellule.errors import CelluleError, Rejected
from cellule.kernel.decide import removals
from cellule.kernel.decide import timers as expiry
from cellule.kernel.decide.argument_checks import check_bytes, check_text
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.sealer import Keys
from cellule.kernel.items import Admitted, ControlItem
from cellule.kernel.journal.codes import OK
from cellule.kernel.journal.records import StepExtras, StepRecord
from cellule.kernel.need import Need
from cellule.kernel.state import step_changes
from cellule.kernel.state.call_changes import calls_of
from cellule.kernel.state.cells import Slot
from cellule.values.envelope import open_envelope
from cellule.values.link import Link

Record = Callable[[ControlItem], Admitted]
"""Writes the Control record of an item."""


def merge(context: BeatContext, item: ControlItem, record: Record) -> Generator[Need, None, Admitted]:
    """Give a cell the state of the control, or delete it where that has none; or refuse it."""
    arguments = item.arguments
    base = check_text(arguments.get("module"), "module")
    key = check_bytes(arguments.get("key"), "key")
    slot = yield from context.slot(base, key)
    _check(context, slot, (arguments.get("version"), arguments.get("born")))
    given = arguments.get("state")
    if given is None and item.verb == "cell.import":
        raise Rejected("kernel.argument", "`{name}` is missing", name="state")
    if given is None:
        return (yield from removals.delete(context, slot, lambda _: record(item)))
    state = given if isinstance(given, Link) else open_envelope(given).data
    state = yield from context.given_value(state, "state")
    era, module = context.eras.current, context.eras.current.manifest.modules[base]
    try:
        state = yield from context.in_clear(state)
        era.fits(module.state).decode(state)
    except CelluleError as error:
        raise Rejected(
            "kernel.merge_state", "the state does not fit cell {module}/{key}: {why}",
            module=base, key=key, why=error,
        ) from error  # fmt: skip
    keys = yield from context.sealer.keys_of([(base, key)])
    admitted = record(_sealed(context, item, keys, state))
    entry, at = slot.entry, context.writer.next_height()
    state = context.sealer.value(keys, state)
    version, born = (1, at) if entry is None else (entry.version + 1, entry.born)
    stored, extras = context.writer.state(state), StepExtras(control=admitted.height)
    if isinstance(stored, Link):
        extras["size"] = len(state)
    prev = 0 if entry is None else entry.last
    step = StepRecord(admitted.height, base, key, born, era.number, OK, version, prev, stored, extras)
    context.writer.add(step)
    step_changes.put(context.ledger, slot, at, version, born, era.number, state, len(state))
    # A cell that was there has its timer already.
    if born == at:
        expiry.arm(context, slot, at)
    return admitted


def _sealed(context: BeatContext, item: ControlItem, keys: Keys, state: bytes) -> ControlItem:
    """The control with its state under keys of this world: what it came under, another world may keep."""
    if not keys:
        return item
    if item.id is not None:  # what is written is not what was given, so it could not be known again
        raise Rejected("kernel.argument", "a {verb} of a cell that can be erased takes no id", verb=item.verb)
    stored = context.hold_value(context.sealer.value(keys, state))
    return replace(item, arguments={**item.arguments, "state": stored})


def _check(context: BeatContext, slot: Slot, expected: tuple[Any, Any]) -> None:
    base, entry = slot.cells.base, slot.entry
    module = context.eras.current.manifest.modules.get(base)
    if module is None or module.log:
        raise Rejected("kernel.merge_module", "cells of {module} cannot be merged", module=base)
    found = (0, 0) if entry is None else (entry.version, entry.born)
    if found != expected or slot.queue or slot.stopped or context.ledger.intents_of(slot) or calls_of(entry):
        raise Rejected(
            "kernel.merge_moved", "cell {module}/{key} is not what was looked at, or is busy",
            module=base, key=slot.key, hint="Look again: it changed meanwhile.",
        )  # fmt: skip
