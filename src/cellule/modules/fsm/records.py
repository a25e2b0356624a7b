"""The note of a machine's step: what became of the machine, typed, and a history read from notes.

A note is a list of `{"$tag": "fsm_state_initialized" | "fsm_state_transitioned", "$value": {...}}`, or of a
text for a guard that gave no answer. Notes hold neither key nor time: the Step record and its frame do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from cellule.modules.fsm.interface import INITIALIZED, TRANSITIONED
from cellule.values.cbor import encode


class Change(NamedTuple):
    """One entry of a machine's history; `from_state` is None where it was initialised."""

    from_state: str | None
    to_state: str
    trigger: str
    at_ns: int
    height: int


def initialized(machine: str, state: str, trigger: str) -> dict[str, Any]:
    """The record of a machine's beginning."""
    return {"$tag": INITIALIZED, "$value": {"machine": machine, "state": state, "trigger": trigger}}


def transitioned(machine: str, source: str, target: str, trigger: str) -> dict[str, Any]:
    """The record of a transition."""
    value = {"machine": machine, "from_state": source, "to_state": target, "trigger": trigger}
    return {"$tag": TRANSITIONED, "$value": value}


def note_of(records: list[dict[str, Any]], faults: list[str]) -> bytes:
    """The bytes of a note."""
    written: list[Any] = [*records]
    written += [{"guard_fault": each} for each in faults]
    return encode(written)


def changes(notes: Iterable[tuple[Any, int, int]]) -> list[Change]:
    """The history of a machine from notes of its steps, each with its time and height."""
    found: list[Change] = []
    for note, at_ns, height in notes:
        for record in note or ():
            value = record.get("$value")
            if record.get("$tag") == INITIALIZED:
                found.append(Change(None, value["state"], value["trigger"], at_ns, height))
            elif record.get("$tag") == TRANSITIONED:
                found.append(Change(value["from_state"], value["to_state"], value["trigger"], at_ns, height))
    return found
