"""Plain steps in the ring: a cell of the current era, an event its module takes as it is, a short new state.

Such a step may leave a short note and ask for effects, too, which are opened at once where they are plain.
Anything else the program answers is written down the general way; what needs a closer look before the call is
left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cellule.kernel.decide import timers
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.eras import Compiled
from cellule.kernel.decide.requests import Asking, EffectRequest, Origin, check
from cellule.kernel.decide.short_ways import Stepping
from cellule.kernel.fast.intents import open_plain, proven_requests
from cellule.kernel.fast.modules import FastModules
from cellule.kernel.fast.steps import NOTE_BYTES
from cellule.kernel.journal.codes import OK
from cellule.kernel.journal.rows import noted_step_row
from cellule.kernel.journal.writer import LINK_MARK, RECORD_BYTES
from cellule.kernel.limits import OUTPUT_BYTES_MAX, STATE_INLINE_RECORD_MAX
from cellule.kernel.manifest.model import Module
from cellule.kernel.program import Output, StepFault, fault_of
from cellule.kernel.state.cells import Entry, Slot


def ring_step(context: BeatContext, modules: FastModules, rounds: Stepping) -> Callable[[Slot], bool]:
    """A function that takes the step of the ring's first slot if it is plain; False where it is not.

    Made once a beat: what it holds does not change while steps are taken, and looking all of it up again
    would cost each of them a fifth.
    """
    ledger, stepper, writer, entropy = context.ledger, context.stepper, context.writer, context.entropy
    names, first, records, taken = writer.names, writer.first, writer.records, rounds.steps
    step_ok, now_ns = ledger.step_ok, ledger.now_ns
    era = context.eras.current
    known, number = modules.of(era), era.number

    def is_taken(slot: Slot) -> bool:
        base, queue, entry = slot.cells.base, slot.queue, slot.entry
        fast = known.get(base) or modules.find(era, base)
        cause, _, schema, value, depth, expected = queue[0]
        if fast is None or type(value) is not bytes or schema not in fast.steps:
            return False
        state: Any = None
        version, born, prev, born_ns = 0, 0, 0, now_ns
        if entry is not None:
            state, version, born, prev = entry.state, entry.version, entry.born, entry.last
            born_ns = entry.born_ns
            if entry.era != number or type(state) is not bytes or entry.extras is not None:
                return False
        if expected is not None and (entry is None or expected != born):
            return False  # what is for this incarnation of the cell only is as plain as other events
        key, step = slot.key, first + len(records)
        about = stepper.context(key, fast.module, number, step, entropy, version) if fast.context else None
        try:
            output = fast.steps[schema](state, value, None, key, about)
        except BaseException as error:  # noqa: BLE001 - whatever a program raises fails its step
            rounds.write(slot, stepper.failed(slot, fault_of(error)))
            return True
        try:
            state, note, asked = _bare(era, fast.module, output)
            if state is None or len(state) > STATE_INLINE_RECORD_MAX or LINK_MARK in state:
                output = Output(output) if isinstance(output, bytes) else output
                rounds.write(slot, stepper.accepted(slot, era, fast.module, output))
                return True
        except StepFault as fault:
            rounds.write(slot, stepper.failed(slot, fault))
            return True
        at = names[base] if base in names else writer.name(base)
        version, born = version + 1, born or step
        records.append(noted_step_row(cause, at, key, born, number, version, prev, state, note))
        writer.size += RECORD_BYTES + len(state) + len(key) + (0 if note is None else NOTE_BYTES + len(note))
        taken.append((cause, base, key, OK, version, step, None, "", "", born))
        step_ok(slot, queue, Entry(state, len(state), version, born, born_ns, number, now_ns, step, None))
        if entry is None and fast.retains:
            timers.arm(context, slot, step)
        if asked:
            opened = open_plain(context, slot, step, born, number, asked)
            if opened < len(asked):
                rounds.asking = Asking(slot, Origin(step, born, depth, number), asked, (), opened)
        return True

    return is_taken


def _bare(
    era: Compiled, module: Module, output: Output | bytes
) -> tuple[bytes | None, bytes | None, Sequence[EffectRequest]]:
    """State, note and requests of an output; no state where there is anything else, or too much."""
    if isinstance(output, bytes):
        return output, None, ()
    state, events, effects, reply, note, cancels, _, ended = output
    if state is None or events or reply is not None or cancels or ended is not None:
        return None, None, ()
    if note is not None and (len(note) > STATE_INLINE_RECORD_MAX or LINK_MARK in note):
        return None, None, ()
    if not effects:
        return state, note, ()
    asked = proven_requests(era, module, effects) or check(era, module, effects)
    size = len(state) + len(note or b"") + sum([len(each.params) for each in asked])
    return (state, note, asked) if size <= OUTPUT_BYTES_MAX else (None, None, ())
