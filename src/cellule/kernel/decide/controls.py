"""Operator verbs: everything that changes a world besides events, journaled with who and why.

A control that cannot be done is refused whole. Its record lists what it did (which cells were released),
so that replay repeats the outcome and not the search.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

from cellule.errors import Corrupted, Rejected, ensure
from cellule.kernel.decide import (
    forks,
    heartbeat_controls,
    merges,
    registry,
    removals,
    schedules,
    spills,
    timers,
)
from cellule.kernel.decide.argument_checks import check_bytes, check_choice, check_height, check_text
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.eras import Compiled
from cellule.kernel.decide.intents import operate as operating
from cellule.kernel.decide.migrations import migrate, old_cells, target_era
from cellule.kernel.decide.refusals import earlier, refused
from cellule.kernel.index.keys import pair_key
from cellule.kernel.items import Admitted, ControlItem, Outcome, record_id
from cellule.kernel.journal.fields import is_written
from cellule.kernel.journal.records import (
    BaselineRecord,
    ControlRecord,
    ManifestRecord,
    SnapshotRecord,
)
from cellule.kernel.limits import (
    CONTROL_RECORD_BYTES_MAX,
    DROP_PER_CONTROL_MAX,
    FRAME_BYTES_ADMIT,
    RESUME_PER_CONTROL_MAX,
)
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.need import Need
from cellule.kernel.state import step_changes
from cellule.kernel.state.cells import Slot
from cellule.kernel.state.dedupe import control_check, dedupe_key
from cellule.kernel.state.ledger import Target
from cellule.values.cbor import encode
from cellule.values.link import Link

STOPPED_PAGE, CELL_BYTES = 1_000, 8  # stopped cells read at once; what one takes beside its name and key


def perform(context: BeatContext, item: ControlItem) -> Generator[Need, None, Outcome]:
    """Do one control, or refuse it; one whose id was here before was done then."""
    try:
        written = [name for name in item.arguments if is_written(item.verb, name)]
        if written:
            raise Rejected(
                "kernel.argument", "`{name}` is what the kernel writes, and no argument", name=written[0]
            )
        check_choice(item.verb, item.arguments)
        if item.id is None:
            return (yield from _perform(context, item))
        return (yield from _perform_once(context, item, dedupe_key(item.id)))
    except Rejected as error:
        name = f"control:{item.verb}"
        return refused(context.writer, error, record_id(item.id), name, durable=item.durable)


def _perform_once(context: BeatContext, item: ControlItem, key: bytes) -> Generator[Need, None, Outcome]:
    """Do a control that has an id, unless it was done; what is refused may come again."""
    ledger = context.ledger
    seen = yield from ledger.dedupe.find(key, ledger.nodes)
    check = control_check(item.verb, item.who, item.why, item.arguments)
    before = earlier(seen, check, item.id, "verb")
    if before is not None:
        return before
    done = yield from _perform(context, item)
    ledger.remember_id(key, done.height, check)
    return done


def _perform(context: BeatContext, item: ControlItem) -> Generator[Need, None, Admitted]:
    spills.check_idle(context, item.verb, item.arguments.get("module"))
    match item.verb:
        case "pause" | "resume":
            outcome = _record(context, item, {})
            context.ledger.pause(is_paused=item.verb == "pause")
        case "clock.accept":
            outcome = _record(context, item, {})  # the host gives its beats another time from now on
        case "cell.resume" | "cell.migrate" | "cell.halt" | "fork.live" | "cell.merge" | "cell.import":
            outcome = yield from _VERBS[item.verb](context, item)
        case "cell.drop" | "cell.delete" | "cell.erase" | "letter.redrive" | "letter.dismiss":
            outcome = yield from _remove(context, item)
        case "deploy":
            manifest = yield from _manifest(context, item)
            outcome = yield from _begin_era(context, item, manifest, {})
        case "cell.spill":
            manifest = yield from _manifest(context, item)
            slots = yield from spills.plan(context, manifest)
            cells = [[slot.cells.base, slot.key] for slot in slots]
            outcome = yield from _begin_era(context, item, manifest, {"cells": cells})
            spills.begin(context, slots, outcome.height)
        case "snapshot" | "baseline":
            outcome = _note(context, item)
        case "effect.approve" | "effect.deny" | "effect.cancel" | "effect.retry":
            outcome = yield from operating.perform(context, item, lambda: _record(context, item, {}))
        case "schedule.pause" | "schedule.resume":
            schedules.check_pause(context, item)
            outcome = _record(context, item, {})
            yield from schedules.pause(context, item, outcome)
        case "schedule.trigger" | "schedule.backfill":
            outcome = yield from schedules.trigger(context, item, partial(_record, context, item))
        case _ if heartbeat_controls.is_verb(item.verb):
            outcome = yield from heartbeat_controls.perform(context, item, partial(_record, context, item))
        case _:
            raise Rejected("kernel.verb_unknown", "there is no control {verb}", verb=item.verb)
    return outcome


def _record(context: BeatContext, item: ControlItem, done: dict[str, Any]) -> Admitted:
    ensure(
        all(is_written(item.verb, name) for name in done), "kernel.control_written",
        "control {verb} writes {names}, which replay would take for given",
        verb=item.verb, names=sorted(done),
    )  # fmt: skip
    arguments = {**item.arguments, **done}
    size, most = len(encode([[[item.who, item.why, arguments]]])), CONTROL_RECORD_BYTES_MAX  # as in a frame
    if size > most:  # before anything is changed
        problem = "{verb} has arguments of {size} bytes; at most {most}"
        raise Rejected("kernel.argument", problem, verb=item.verb, size=size, most=most)
    context.writer.linked = context.writer.linked or any(
        isinstance(value, Link) for value in arguments.values()
    )
    record = ControlRecord(0, item.verb, item.who, item.why, arguments, record_id(item.id))
    return Admitted(context.writer.add(record))


def _remove(context: BeatContext, item: ControlItem) -> Generator[Need, None, Admitted]:
    recorded = partial(_record, context, item)
    match item.verb:
        case "cell.drop":
            stopped, _ = yield from _stopped(context, item, None, DROP_PER_CONTROL_MAX)
            slots = [slot for slot in stopped if slot.queue]
            if stopped and not slots and "key" in item.arguments:
                raise Rejected(
                    "kernel.queue_empty", "no message waits at cell {module}/{key}",
                    module=stopped[0].cells.base, key=stopped[0].key, hint="Let it go on with `cell resume`.",
                )  # fmt: skip
            return removals.drop(context, item, slots, recorded)
        case "cell.delete":
            slot = yield from context.slot(*_target(item))
            return (yield from removals.delete(context, slot, recorded))
        case "cell.erase":
            return (yield from removals.erase(context, item, recorded))
        case "letter.redrive":
            return (yield from removals.redrive(context, item, recorded))
        case _:
            return (yield from removals.dismiss(context, item, recorded))


def _resume(context: BeatContext, item: ControlItem) -> Generator[Need, None, Admitted]:
    slots, is_more = yield from _stopped(context, item, None)
    admitted = _record(context, item, _done(slots, is_more=is_more))
    for slot in slots:
        step_changes.release(context.ledger, slot)
    return admitted


def _halt(context: BeatContext, item: ControlItem) -> Generator[Need, None, Admitted]:
    """Stop one cell that has messages or a state, until it is resumed; its queue stays as it is."""
    target = _target(item)
    slot = yield from context.slot(*target)
    if slot.stopped or (slot.entry is None and not slot.queue):
        raise Rejected(
            "kernel.cannot_halt", "cell {module}/{key} {why}", module=target[0], key=target[1],
            why="is stopped already" if slot.stopped else "is not there",
        )  # fmt: skip
    admitted = _record(context, item, {"cells": [list(target)]})
    step_changes.halt(context.ledger, slot, admitted.height, context.eras.current.number, item.why)
    return admitted


def _done(slots: Sequence[Slot], *, is_more: bool) -> dict[str, Any]:
    cells = [[slot.cells.base, slot.key] for slot in slots]
    return {"cells": cells, "more": True} if is_more else {"cells": cells}


def _stopped(
    context: BeatContext, item: ControlItem, only: str | None, limit: int | None = None
) -> Generator[Need, None, tuple[list[Slot], bool]]:
    """The stopped cells a control names: one by module and key, a module's, or all that the frame takes.

    The flag tells that there are more. `until` leaves out cells that stopped behind that height.
    """
    ledger = context.ledger
    module, key = item.arguments.get("module"), item.arguments.get("key")
    if key is not None:
        target = _target(item)
        slot = yield from context.slot(*target)
        if not slot.stopped:
            raise Rejected(
                "kernel.not_stopped", "cell {module}/{key} is not stopped", module=target[0], key=target[1]
            )
        return [slot], False
    until = item.arguments.get("until")
    end = None if until is None else pair_key(check_height(until, "until") + 1, 0)
    limit = RESUME_PER_CONTROL_MAX if limit is None else limit
    targets: list[Target] = []
    begin, room, is_more = b"", FRAME_BYTES_ADMIT - context.writer.size, False
    while not is_more:
        page = yield from ledger.stopped.scan(begin, end, STOPPED_PAGE)
        for _, row in page:
            if (module is not None and row.module != module) or (only is not None and row.status != only):
                continue
            # One cell goes however full the frame is, or the control would never get on.
            if targets and (room <= 0 or len(targets) >= limit):
                is_more = True
                break
            targets.append((row.module, row.key))
            room -= CELL_BYTES + len(row.module) + len(row.key)
        if len(page) < STOPPED_PAGE:
            break
        begin = page[-1][0] + b"\0"
    yield from ledger.slots(targets)
    return [ledger.cells(base).slot(cell_key) for base, cell_key in targets], is_more


def _migrate(context: BeatContext, item: ControlItem) -> Generator[Need, None, Admitted]:
    """Move cells to an era, by default the current one, upcasting their states; then let them go on."""
    target = yield from target_era(context, item.arguments.get("to"))
    slots, rest = yield from _cells_to_migrate(context, item, target)
    is_all, recorded = bool(item.arguments.get("all")), partial(_record, context, item)
    return (yield from migrate(context, slots, rest, target, is_all=is_all, recorded=recorded))


def _cells_to_migrate(
    context: BeatContext, item: ControlItem, era: Compiled
) -> Generator[Need, None, tuple[list[Slot], dict[str, Any]]]:
    """The cells that a control moves, and what it says about those that are left."""
    arguments = item.arguments
    if arguments.get("all"):
        slots, following = yield from old_cells(context, arguments.get("module"), arguments.get("after"), era)
        return slots, {} if following is None else {"next": following}
    if arguments.get("key") is None:
        slots, is_more = yield from _stopped(context, item, "needs migration")
        slots = [slot for slot in slots if slot.cells.base not in context.ledger.moves]
        return slots, {"more": True} if is_more else {}
    target = _target(item)
    slot = yield from context.slot(*target)
    if slot.entry is None:
        raise Rejected("kernel.no_cell", "there is no cell {module}/{key}", module=target[0], key=target[1])
    return [slot], {}


def _manifest(context: BeatContext, item: ControlItem) -> Generator[Need, None, Manifest]:
    """The manifest that a control brings, whose code can run here."""
    link = item.arguments.get("manifest")
    if not isinstance(link, Link):
        raise Rejected("kernel.argument", "a {verb} needs `manifest`, a link", verb=item.verb)
    try:
        manifest = yield from context.eras.manifest(link.cid)
    except Corrupted as error:
        raise Rejected(
            "kernel.manifest_missing", "manifest {cid} cannot be read: {why}",
            cid=str(link.cid), why=str(error), hint="Put the manifest into the CAS before deploying it.",
        ) from error  # fmt: skip
    context.eras.check_code(manifest)
    registry.check_entries(manifest)
    return manifest


def _begin_era(
    context: BeatContext, item: ControlItem, manifest: Manifest, done: dict[str, Any]
) -> Generator[Need, None, Admitted]:
    """Record a deploy, with what else the control does, and route by its manifest from now on."""
    limits = {base: module.open_max for base, module in manifest.modules.items()}
    under = context.ledger.book.below(limits)
    erasable = {"erasable": True} if manifest.is_erasable else {}
    admitted = _record(context, item, {**done, **erasable, **({"under": under} if under else {})})
    context.ledger.keys.allow(erasable=manifest.is_erasable)
    context.writer.linked = True
    era = len(context.ledger.eras)
    height = context.writer.add(ManifestRecord(admitted.height, Link(manifest.cid), era))
    before = context.eras.current.manifest
    context.eras.begin(manifest, height)
    timers.sweep(context, before, manifest, height)
    for base in under:
        context.ledger.unhold(base)
    yield from registry.align(context, height)
    return admitted


def _note(context: BeatContext, item: ControlItem) -> Admitted:
    """That a snapshot was taken, or made the baseline: for readers of the journal."""
    height, link = check_height(item.arguments.get("height"), "height"), item.arguments.get("snapshot")
    if not isinstance(link, Link):
        raise Rejected("kernel.argument", "a {verb} needs `snapshot`, a link", verb=item.verb)
    admitted = _record(context, item, {})
    context.writer.linked = True
    record = SnapshotRecord if item.verb == "snapshot" else BaselineRecord
    context.writer.add(record(admitted.height, height, link))
    return admitted


def _target(item: ControlItem) -> Target:
    """The one cell that a control names."""
    return check_text(item.arguments.get("module"), "module"), check_bytes(item.arguments.get("key"), "key")


_VERBS: dict[str, Callable[[BeatContext, ControlItem], Generator[Need, None, Admitted]]] = {
    "cell.resume": _resume, "cell.migrate": _migrate, "cell.halt": _halt,
    "cell.merge": lambda context, item: merges.merge(context, item, lambda made: _record(context, made, {})),
    "cell.import": lambda context, item: merges.merge(context, item, lambda made: _record(context, made, {})),
    "fork.live": lambda context, item: forks.go_live(context, partial(_record, context, item, {})),
}  # fmt: skip
