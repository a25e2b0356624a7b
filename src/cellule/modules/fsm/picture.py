"""What a picture of a machine shows, whoever draws it: boxes for states, arrows for transitions.

Transitions between the same two states are one arrow with several lines of text. `mermaid` writes it as
text that GitHub and many editors draw, `svg.py` draws it itself.
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


_SIGNS: Final = {each: f"#{ord(each)};" for each in '#;:<>"{}'}
_CURRENT: Final = "classDef current fill:#ddf4ff,stroke:#0969da,color:#1f2328"


def mermaid(contract: Contract, current: str | None = None) -> str:
    """The diagram; `current` marks the state that a cell is in."""
    picture = picture_of(contract, current)
    ids = {box.name: f"s{at}" for at, box in enumerate(picture.boxes)}
    lines = ["stateDiagram-v2"]
    for box in picture.boxes:
        lines.append(f'    state "{_text(box.name)}" as {ids[box.name]}')
        lines += [f"    {ids[box.name]} : {_text(note)}" for note in box.notes]
    start = f" : {_text(picture.start)}" if picture.start else ""
    lines.append(f"    [*] --> {ids[picture.initial]}{start}")
    for arrow in picture.arrows:
        head = f"    {ids[arrow.source]} --> {ids[arrow.target]} : "
        lines += [head + _text(line) for line in arrow.lines]
    lines += [f"    {ids[box.name]} --> [*]" for box in picture.boxes if box.is_terminal]
    marked = [ids[box.name] for box in picture.boxes if box.is_current]
    if marked:
        lines += [f"    {_CURRENT}", f"    class {marked[0]} current"]
    return "\n".join([*lines, ""])


def _text(text: str) -> str:
    """A text whose signs mean nothing to Mermaid."""
    return "".join(_SIGNS.get(each, each) for each in " ".join(text.split()))
