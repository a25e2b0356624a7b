"""Calls that a cell has taken and not answered: who waits for which event, in the cell's entry (`calls`).

A call is an event whose sender waits for an answer. It is taken with the step that handles it, and is over
once the cell emits the awaited event to the caller, or the caller is told that there will be none
(`decide/calls.py`). Live and in replay alike.
"""

from __future__ import annotations

from typing import Any

from cellule.kernel.manifest.system import CALL_FAILED
from cellule.kernel.state.cells import Entry, Slot
from cellule.kernel.state.expectation import Call
from cellule.kernel.state.ledger import Ledger, Target
from cellule.values.cbor import decode_trusted
from cellule.values.link import Link


def calls_of(entry: Entry | None) -> list[Call]:
    """The calls that a cell has not answered, oldest first."""
    return [] if entry is None else [Call(*each) for each in entry.get("calls", ())]


def take(ledger: Ledger, slot: Slot, call: Call) -> None:
    """A step has handled a call; its cell is to answer."""
    _keep(ledger, slot, [*calls_of(slot.entry), call])


def emitted(
    ledger: Ledger, slot: Slot, schema: str, value: bytes | Link, targets: list[Target]
) -> None:  # fmt: skip
    """A step of the cell has emitted an event: the oldest call of each target that it answers is over."""
    left = calls_of(slot.entry)
    if not left or not targets:
        return
    if schema == CALL_FAILED and isinstance(value, bytes):
        told: Any = decode_trusted(value)
        left = [
            call
            for call in left
            if (call.token, call.born, call.caller) != (told["call"], told["born"], targets[0])
        ]
    else:
        for target in targets:
            found = next((call for call in left if call.is_answered(schema, target)), None)
            left = [call for call in left if call is not found]
    _keep(ledger, slot, left)


def born_of(value: bytes) -> int:
    """The incarnation of the caller that is told of a failed call."""
    told: Any = decode_trusted(value)
    born: int = told["born"]
    return born


def _keep(ledger: Ledger, slot: Slot, calls: list[Call]) -> None:
    entry = slot.entry
    if entry is None:
        return
    if calls:
        slot.entry = entry.with_extras({**(entry.extras or {}), "calls": [list(call) for call in calls]})
    else:
        slot.entry = entry.without("calls")
    ledger.touch(slot)
