"""Where boxes and arrows of a picture go: rows by the distance from the initial state, few crossings.

    row 0   [placed]                     a box stands in an even row, 2 x its distance
    row 1     pay     cancel             the text of an arrow stands in the odd row between
    row 2   [paid]   [cancelled]

An arrow goes one row of boxes down at most, so it has one text in between; one that leads back passes through
a slot of its own in each row. Slots of a row are ordered by the mean place of their neighbours, a few times
up and down, and then moved towards it.

Rejected: graphviz. It would be a program that everybody has to install for a picture of ten boxes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

SWEEPS: Final = 8
GAP: Final = 28.0


class Size(NamedTuple):
    """Width and height."""

    width: float
    height: float


@dataclass(slots=True)
class Slot:
    """A place in a row; `x` is its middle. `box` names a state, else it is a text or a passage."""

    row: int
    size: Size
    box: str = ""
    x: float = 0.0
    beside: list[Slot] = field(default_factory=list)  # the slots that arrows lead to from here


@dataclass(slots=True)
class Route:
    """An arrow: the slots it passes through, in its direction; the first between two boxes has its text."""

    source: str
    target: str
    slots: list[Slot]


@dataclass(frozen=True, slots=True)
class Layout:
    """The placed boxes and routes; `tops` are the upper edges of the rows, with one more for the end."""

    boxes: Mapping[str, Slot]
    routes: Sequence[Route]
    tops: Sequence[float]
    width: float

    def middle(self, row: int) -> float:
        """The y of the middle of a row."""
        return (self.tops[row] + self.tops[row + 1]) / 2


def lay_out(
    initial: str, boxes: Mapping[str, Size], arrows: Sequence[tuple[str, str, Size]], row_gap: float
) -> Layout:
    """Place boxes, and arrows with texts of a size; one from a box to itself widens its box instead."""
    ranks = _ranks(initial, boxes, arrows)
    slots = {name: Slot(2 * ranks[name], size, name) for name, size in boxes.items()}
    for source, target, size in arrows:
        if source == target:
            slot = slots[source]
            wide = Size(slot.size.width + 2 * (size.width + GAP), max(slot.size.height, size.height))
            slot.size = wide
    routes = [_route(slots, *arrow) for arrow in arrows]
    rows = _rows(slots, routes)
    # Down and up in turns: one sweep orders a row by its neighbours on one side only.
    for turn in range(SWEEPS):
        _order(rows, downwards=turn % 2 == 0)
    for row in rows:
        _pack(row)
    for turn in range(SWEEPS):
        for row in rows if turn % 2 else reversed(rows):
            _move(row)
    left = min(slot.x - slot.size.width / 2 for row in rows for slot in row)
    for row in rows:
        for slot in row:
            slot.x -= left
    tops = [0.0]
    for row in rows:
        tops.append(tops[-1] + max((slot.size.height for slot in row), default=0.0) + row_gap)
    return Layout(slots, routes, tops, max(slot.x + slot.size.width / 2 for row in rows for slot in row))


def _ranks(
    initial: str, boxes: Mapping[str, Size], arrows: Sequence[tuple[str, str, Size]]
) -> dict[str, int]:
    targets: dict[str, list[str]] = defaultdict(list)
    for source, target, _ in arrows:
        targets[source].append(target)
    ranks, waiting = {initial: 0}, [initial]
    for name in waiting:
        for target in targets[name]:
            if target not in ranks:
                ranks[target] = ranks[name] + 1
                waiting.append(target)
    return {name: ranks.get(name, 0) for name in boxes}


def _route(slots: Mapping[str, Slot], source: str, target: str, size: Size) -> Route:
    """The slots of one arrow, each made known to its neighbours."""
    first, last = slots[source], slots[target]
    if first is last:
        return Route(source, target, [])
    if last.row == first.row:
        rows = range(first.row + 1, first.row + 2)
    elif last.row > first.row:
        rows = range(first.row + 1, last.row)
    else:
        rows = range(first.row - 1, last.row, -1)
    made = [Slot(row, size if at == 0 else Size(0.0, 0.0)) for at, row in enumerate(rows)]
    chain = [first, *made, last]
    for one, two in pairwise(chain):
        one.beside.append(two)
        two.beside.append(one)
    return Route(source, target, made)


def _rows(slots: Mapping[str, Slot], routes: Sequence[Route]) -> list[list[Slot]]:
    every = [*slots.values(), *(slot for route in routes for slot in route.slots)]
    rows: list[list[Slot]] = [[] for _ in range(max(slot.row for slot in every) + 1)]
    for slot in every:
        rows[slot.row].append(slot)
    for row in rows:
        for at, slot in enumerate(row):
            slot.x = float(at)
    return rows


def _order(rows: list[list[Slot]], *, downwards: bool) -> None:
    """Order each row by the mean place of its neighbours in the row before."""
    for row in rows if downwards else rows[::-1]:
        step = -1 if downwards else 1
        means = {}
        for slot in row:
            near = [other.x for other in slot.beside if other.row == slot.row + step]
            means[id(slot)] = sum(near) / len(near) if near else slot.x
        row.sort(key=lambda slot: means[id(slot)])
        for at, slot in enumerate(row):
            slot.x = float(at)


def _pack(row: list[Slot]) -> None:
    """Place a row from left to right, around 0."""
    total = sum(slot.size.width + GAP for slot in row) - GAP
    at = -total / 2
    for slot in row:
        slot.x = at + slot.size.width / 2
        at += slot.size.width + GAP


def _move(row: list[Slot]) -> None:
    """Move each slot of a row towards its neighbours, as far as the others let it."""
    if not row:
        return
    wanted = [
        sum(other.x for other in slot.beside) / len(slot.beside) if slot.beside else slot.x for slot in row
    ]
    placed: list[float] = []
    for at, slot in enumerate(row):
        least = wanted[at]
        if at:
            before = row[at - 1]
            least = max(least, placed[-1] + (before.size.width + slot.size.width) / 2 + GAP)
        placed.append(least)
    shift = sum(one - two for one, two in zip(wanted, placed, strict=True)) / len(row)
    for slot, x in zip(row, placed, strict=True):
        slot.x = x + shift
