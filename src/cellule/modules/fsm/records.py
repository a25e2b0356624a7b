"""The note of a machine's step: what became of the machine, typed, and a history read from notes.

A note is a list of `{"$tag": "fsm_state_initialized" | "fsm_state_transitioned", "$value": {...}}`, or of a
text for a guard that gave no answer. Notes hold neither key nor time: the Step record and its frame do.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from cellule.modules.fsm.interface import INITIALIZED, TRANSITIONED
from cellule.values.cbor import encode


class StateChange(NamedTuple):
    """One entry of a machine's history; `from_state` is None where it was initialised."""

    from_state: str | None
    to_state: str
    trigger: str
    at: datetime
    height: int


class StepVersion(Protocol):
    """What is needed of a version in a cell's history, of a node or of `cellule.testing`."""

    @property
    def ann(self) -> Any:
        """The note of its step."""

    @property
    def at(self) -> datetime:
        """When the step was taken."""

    @property
    def height(self) -> int:
        """Where the step stands in the journal."""


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


def state_changes(versions: Iterable[StepVersion]) -> list[StateChange]:
    """The changes of a machine's state in versions of its cell, oldest first.

    Steps that changed no state (an event that was refused) have no entry.
    """
    found: list[StateChange] = []
    for version in sorted(versions, key=lambda each: each.height):
        for record in version.ann if isinstance(version.ann, list) else ():
            tag, value = record.get("$tag"), record.get("$value")
            if tag == INITIALIZED:
                found.append(StateChange(None, value["state"], value["trigger"], version.at, version.height))
            elif tag == TRANSITIONED:
                states = value["from_state"], value["to_state"]
                found.append(StateChange(*states, value["trigger"], version.at, version.height))
    return found
