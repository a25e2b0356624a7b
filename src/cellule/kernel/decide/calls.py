"""Calls that fail: a caller that waits for an answer is told when there will be none.

An event that a workflow calls another cell with is refused, or its step fails and is skipped, or a person
drops it; the cell takes it, and is deleted, or its run ends without the answer: each time the kernel emits
`sys/CallFailed@1` to the caller, once, and to nobody else. While the called cell is halted nobody is told: it
waits for a person, and the caller waits with it.

Rejected: telling callers through routes of the manifest. Who subscribes would hear of the calls of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.steps import Emission, Result
from cellule.kernel.journal.codes import DELETED, OK, REFUSED, SKIPPED
from cellule.kernel.journal.records import EmittedRecord
from cellule.kernel.limits import CELL_CALLS_BYTES_MAX, CELL_CALLS_MAX, DEPTH_MAX
from cellule.kernel.manifest.system import CALL_FAILED, Ended
from cellule.kernel.state.call_changes import calls_of
from cellule.kernel.state.cells import EVENT_MESSAGE, Entry, Message, Slot
from cellule.kernel.state.expectation import Call
from cellule.kernel.state.ledger import Target
from cellule.values.cbor import encode

NO_CALLS: Final[Sequence[Emission]] = ()
GONE: Final = Ended("deleted", "kernel.cell_deleted", "the cell was deleted before it answered")
_FULL: Final = Ended("dropped", "kernel.calls_full", "the cell has as many calls to answer as it keeps")
_CALL_BYTES: Final = 16  # of a call in the entry of its cell, beside what it holds
_FAR: Final = Ended("dropped", "kernel.cascade", f"it is more than {DEPTH_MAX} emits away from the outside")


class FailedCall(NamedTuple):
    """A call that fails, and why."""

    call: Call
    why: Ended


def failures(
    slot: Slot, message: Message, height: int, result: Result, *, is_told_why: bool = True
) -> Sequence[Emission]:
    """What callers are told because of a decided step, which will stand at `height`.

    Replay reads it, so it cannot be sealed: of a cell that can be erased nobody is told in words why.
    """
    entry, called = slot.entry, message.expected if isinstance(message.expected, Call) else None
    open_calls = entry is not None and entry.extras is not None and "calls" in entry.extras
    if called is None and not open_calls and not any(each.call for each in result.emissions):
        return NO_CALLS
    failed = [*_of_emissions(slot, height, result)]
    if result.status in (REFUSED, SKIPPED) and called is not None:
        status = "refused" if result.status == REFUSED else "failed"
        failed.append(FailedCall(called, Ended(status, result.code, result.text if is_told_why else "")))
    elif result.status in (OK, DELETED):
        left = _unanswered([*calls_of(entry), *([] if called is None else [called])], result.emissions)
        why = GONE if result.status == DELETED else result.ended
        if why is not None:
            failed += [FailedCall(call, why) for call in left]
        else:
            failed += [FailedCall(call, _FULL) for call in _beyond(left)]
    return [_emission((slot.cells.base, slot.key), each, message.depth + 1) for each in failed]


def tell_gone(context: BeatContext, target: Target, entry: Entry | None, cause: int) -> None:
    """The cell is deleted by the step at `cause`: tell all whose calls it has not answered."""
    for call in calls_of(entry):
        tell(context, target, FailedCall(call, GONE), cause, 1)


def tell(context: BeatContext, target: Target, failed: FailedCall, cause: int, depth: int) -> None:
    """Emit that a call has failed, outside of a step that code has taken."""
    depth, schema, value, targets, _ = _emission(target, failed, depth)
    writer = context.writer
    height = writer.add(EmittedRecord(cause, depth, schema, writer.value(value), targets))
    message = Message(height, EVENT_MESSAGE, schema, value, depth, failed.call.born)
    context.ledger.emit(message, targets)


def tell_letters(context: BeatContext, letters: Iterable[tuple[Target, Message]]) -> None:
    """Calls that a full queue had no room for are dead letters: tell their callers."""
    for target, message in letters:
        if isinstance(message.expected, Call):
            why = Ended("dropped", "kernel.queue_full", "the queue of the cell is full")
            tell(context, target, FailedCall(message.expected, why), message.height, message.depth + 1)


def made(height: int, slot: Slot, born: int, emission: Emission) -> Call | None:
    """The call that an emission of a step is, or None."""
    if emission.call is None:
        return None
    token, answer = emission.call
    return Call(slot.cells.base, slot.key, born or height, token, answer)


def _of_emissions(slot: Slot, height: int, result: Result) -> Iterable[FailedCall]:
    """Calls that are not made, because they are too many emits away from the outside."""
    for emission in result.emissions:
        call = made(height, slot, result.born, emission) if emission.depth > DEPTH_MAX else None
        if call is not None:
            yield FailedCall(call, _FAR)


def _unanswered(calls: list[Call], emissions: Sequence[Emission]) -> list[Call]:
    left = list(calls)
    for emission in emissions:
        for target in emission.targets:
            found = next((call for call in left if call.is_answered(emission.schema, target)), None)
            left = [call for call in left if call is not found]
    return left


def _beyond(calls: Sequence[Call]) -> Sequence[Call]:
    """The oldest calls of a cell that has more than it keeps."""
    sizes = [_CALL_BYTES + sum(map(len, (each.module, each.key, each.token, each.answer))) for each in calls]
    room, kept = CELL_CALLS_BYTES_MAX, 0
    while kept < min(len(calls), CELL_CALLS_MAX) and room >= sizes[-1 - kept]:
        room -= sizes[-1 - kept]
        kept += 1
    return calls[: len(calls) - kept]


def _emission(target: Target, failed: FailedCall, depth: int) -> Emission:
    base, key = target
    status, code, text = failed.why
    value = encode({
        "module": base, "key": key, "call": failed.call.token, "born": failed.call.born, "status": status,
        "code": code, "text": text,
    })  # fmt: skip
    return Emission(depth, CALL_FAILED, value, [failed.call.caller])
