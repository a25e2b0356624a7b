"""Moving cells to the current era, or to a named one: which are of another, and how they are moved.

A cell that follows moves at its next event, and one that is pinned not before it is told to; an operator may
move them all at once. Looking for them costs what is looked at, so a control looks at a bounded stretch, and
says where the next one begins. A cell that cannot be moved stays, and the control says why.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from cellule.errors import Rejected
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.eras import Compiled
from cellule.kernel.decide.sealer import Keys
from cellule.kernel.items import Admitted
from cellule.kernel.journal.records import MigratedRecord
from cellule.kernel.journal.writer import RECORD_BYTES
from cellule.kernel.limits import (
    FRAME_BYTES_ADMIT,
    MIGRATE_REASON_MAX,
    MIGRATE_SCAN_MAX,
    MIGRATE_SCAN_PAGE,
    MIGRATE_STAYS_MAX,
)
from cellule.kernel.need import Need
from cellule.kernel.program import recordable
from cellule.kernel.state import step_changes
from cellule.kernel.state.cells import Slot


def target_era(context: BeatContext, to: Any) -> Generator[Need, None, Compiled]:
    """The era that cells are moved to: the current one unless a control names another."""
    if to is None:
        return context.eras.current
    count = len(context.ledger.eras)
    if not isinstance(to, int) or isinstance(to, bool) or not 0 <= to < count:
        raise Rejected(
            "kernel.argument", "there is no era {to}; the world's eras are 0 to {last}", to=to, last=count - 1
        )
    return (yield from context.eras.era(to))


def old_cells(
    context: BeatContext, module: str | None, after: Any, target: Compiled
) -> Generator[Need, None, tuple[list[Slot], list[Any] | None]]:
    """The cells to move, of one module or of all, from `after` on; and where to go on, None at the end."""
    first, begin = _start(after)
    known = sorted(base for base in context.ledger.modules if base in target.manifest.modules)
    wanted = [
        base for base in known
        if base >= first and module in (None, base) and base not in context.ledger.moves
    ]  # fmt: skip
    slots: list[Slot] = []
    left = MIGRATE_SCAN_MAX
    for base in wanted:
        following: bytes | None = begin if base == first else b""
        while following is not None:
            if left <= 0:
                return slots, [base, following]
            live = context.ledger.cells(base).live
            entries, following = yield from live.scan(following, None, MIGRATE_SCAN_PAGE)
            # Cells that stay count, too: one beat must not read a million of them to find the few that move.
            left -= max(len(entries), 1)
            old = [key for key, entry in entries if entry.era != target.number]
            yield from context.ledger.slots([(base, key) for key in old])
            found = [context.ledger.cells(base).slot(key) for key in old]
            slots += [slot for slot in found if slot.entry is not None and slot.entry.state is not None]
    return slots, None


def migrate(
    context: BeatContext, found: Sequence[Slot], rest: dict[str, Any], target: Compiled, *, is_all: bool,
    recorded: Callable[[dict[str, Any]], Admitted],
) -> Generator[Need, None, Admitted]:  # fmt: skip
    """Move as many of these cells as the frame takes; `rest` is what the control says about those left."""
    moved: list[tuple[Slot, int, bytes, Keys]] = []
    slots: list[Slot] = []
    stays: list[list[Any]] = []
    room = FRAME_BYTES_ADMIT - context.writer.size
    for slot in found:
        if room <= 0 and slots:
            rest = {"next": [slot.cells.base, slot.key]} if is_all else {"more": True}
            break
        try:
            state = yield from context.stepper.migrated_state(slot, target)
        except Rejected as error:
            if not is_all:
                raise
            if len(stays) < MIGRATE_STAYS_MAX:  # what cannot be moved does not hold up the others
                stays.append([slot.cells.base, slot.key, _reason(error)])
            continue
        slots.append(slot)
        if state is not None:
            assert slot.entry is not None
            # A log moves as it is: its entries are sealed one by one, and those in clear stay in clear.
            is_log = target.manifest.modules[slot.cells.base].log
            keys = () if is_log else (yield from context.sealer.keys_of([(slot.cells.base, slot.key)]))
            moved.append((slot, slot.entry.era, state, keys))
            room -= RECORD_BYTES + len(slot.key) + len(state)
    if stays:
        rest = {**rest, "stays": stays}
    admitted = recorded({"cells": [[slot.cells.base, slot.key] for slot in slots], **rest})
    for slot, era_from, state, keys in moved:
        sealed = context.sealer.value(keys, state)
        _write(context, slot, era_from, target.number, sealed, admitted.height)
    for slot in slots:
        step_changes.release(context.ledger, slot)
    return admitted


def _write(
    context: BeatContext, slot: Slot, era_from: int, era_to: int, state: bytes, cause: int
) -> None:  # fmt: skip
    assert slot.entry is not None
    stored = context.writer.state(state)
    record = MigratedRecord(cause, slot.cells.base, slot.key, slot.entry.born, era_from, era_to, stored)
    context.writer.add(record)
    step_changes.migrate(context.ledger, slot, era_to, state)


def _reason(error: Rejected) -> str:
    return recordable(str(error.fields.get("why", error)))[:MIGRATE_REASON_MAX]


def _start(after: Any) -> tuple[str, bytes]:
    match after:
        case None:
            return "", b""
        case [str(base), bytes(key)]:
            return base, key
        case _:
            raise Rejected("kernel.argument", "the control needs `after`, a module and a key")
