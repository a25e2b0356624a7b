"""What a picture of a machine shows, whoever draws it: boxes for states, arrows for transitions.

Transitions between the same two states are one arrow with several lines of text. `mermaid.py` writes it as
text that other tools draw, `svg.py` draws it itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cellule.modules.fsm.contract import Contract, State, Transition
from cellule.values.schema.text_forms import duration_text

LABEL_LENGTH_MAX: Final = 44


class Box(NamedTuple):
    """A state: its name, and what it asks for when it is entered and left."""

    name: str
    notes: tuple[str, ...]
    is_terminal: bool
    is_current: bool


class Arrow(NamedTuple):
    """The transitions from one state to another, a line each; `is_timed` if only time takes it."""

    source: str
    target: str
    lines: tuple[str, ...]
    is_timed: bool


class Picture(NamedTuple):
    """A whole machine; `start` is what makes a cell without a transition, or nothing."""

    title: str
    initial: str
    start: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def picture_of(contract: Contract, current: str | None = None) -> Picture:
    """The picture of a contract, perhaps with the state that a cell is in."""
    lines: dict[tuple[str, str], list[tuple[str, bool]]] = {}
    for each in contract.transitions:
        timed = _timeout_text(contract.states[each.source], each)
        lines.setdefault((each.source, each.target), []).append((_line(each, timed), bool(timed)))
    arrows = tuple(
        Arrow(source, target, tuple(dict(found)), all(is_timed for _, is_timed in found))
        for (source, target), found in lines.items()
    )
    boxes = tuple(
        Box(state.name, _notes(state), state.name in contract.terminal, state.name == current)
        for state in contract.states.values()
    )
    start = "" if contract.start is None else contract.start.trigger
    return Picture(contract.title, contract.initial, start, boxes, arrows)


def shortened(text: str) -> str:
    """A text on one line that fits beside an arrow."""
    text = " ".join(text.split())
    return text if len(text) <= LABEL_LENGTH_MAX else f"{text[: LABEL_LENGTH_MAX - 1]}…"


def _line(transition: Transition, timed: str) -> str:
    guard = "" if transition.guard is None else f" [{transition.guard.value}]"
    return f"{transition.trigger}{timed}{guard}"


def _timeout_text(state: State, transition: Transition) -> str:
    timeout = state.timeout
    if timeout is None or timeout.trigger != transition.trigger:
        return ""
    if timeout.after_ns is not None:
        return f" after {duration_text(timeout.after_ns)}"
    return f" at {timeout.at.value}" if timeout.at is not None else ""


def _notes(state: State) -> tuple[str, ...]:
    entry = [f"entry: {each.kind}" for each in state.entry]
    return (*entry, *(f"exit: {each.kind}" for each in state.exit))
