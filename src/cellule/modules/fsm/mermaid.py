"""A machine as a Mermaid state diagram, the text that GitHub and many editors draw."""

from __future__ import annotations

from typing import Final

from cellule.modules.fsm.contract import Contract
from cellule.modules.fsm.picture import picture_of

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
