"""The tree of worlds as text and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from cellule.cli.output import harmless
from cellule.host.branches.lineage import Branching

_ROW: Final = 28  # pixels of the picture, for a world
_STEP: Final = 36  # and for a fork to the right
_CHARACTER: Final = 8
_MARGIN: Final = 20


def tree_text(trees: Sequence[Branching]) -> str:
    """One line a world, its forks below it with the heights they begin at.

    main
    |-- try  at 120
    |   `-- again  at 140
    `-- other  at 300
    """
    return "\n".join(line for each in trees for line in [_label(each), *_lines(each, "")])


def _lines(parent: Branching, indent: str) -> list[str]:
    found = []
    for each in parent.children:
        is_last = each is parent.children[-1]
        found.append(f"{indent}{'`-- ' if is_last else '|-- '}{_label(each)}  at {each.height}")
        found += _lines(each, indent + ("    " if is_last else "|   "))
    return found


def _label(each: Branching) -> str:
    return harmless(each.name) + ("  deleted" if each.info is None else "")


def tree_svg(trees: Sequence[Branching]) -> str:
    """The same as a picture."""
    rows = [row for each in trees for row in _rows(each, 0, None, 0)]
    places: dict[int, tuple[int, int]] = {}
    parts: list[str] = []
    width = 200
    for number, (each, depth, parent) in enumerate(_numbered(rows)):
        x, y = _MARGIN + depth * _STEP, _MARGIN + number * _ROW
        places[number] = (x, y)
        if parent is not None:
            px, py = places[parent]
            parts.append(f'<path d="M{px},{py + 6} V{y} H{x - 6}" fill="none" stroke="#888"/>')
        text = _label(each) + (f" at {each.height}" if parent is not None else "")
        width = max(width, x + 2 * _MARGIN + _CHARACTER * len(text))
        parts.append(f'<circle cx="{x}" cy="{y}" r="6" fill="{"#bbb" if each.info is None else "#2a6"}"/>')
        parts.append(
            f'<text x="{x + 12}" y="{y + 5}" font-family="sans-serif" font-size="14">{escape(text)}</text>'
        )
    height = 2 * _MARGIN + _ROW * max(0, len(rows) - 1)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="worlds and their forks">'
    )
    return "\n".join([head, *parts, "</svg>", ""])


def _rows(
    each: Branching, depth: int, parent: Branching | None, _: int
) -> list[tuple[Branching, int, Branching | None]]:
    found: list[tuple[Branching, int, Branching | None]] = [(each, depth, parent)]
    for child in each.children:
        found += _rows(child, depth + 1, each, 0)
    return found


def _numbered(
    rows: Sequence[tuple[Branching, int, Branching | None]],
) -> list[tuple[Branching, int, int | None]]:
    """The same rows, with the number of the parent's."""
    numbers = {id(each): number for number, (each, _, _) in enumerate(rows)}
    return [(each, depth, None if parent is None else numbers[id(parent)]) for each, depth, parent in rows]
