"""Which diaries of a family of worlds can be read: a model of keys, by the rules of the guide.

What a world writes is sealed by its own key of the cell, and by those of the worlds it was forked from while
the cell was there. It is read while each of them is the one that its world has for the cell now.
"""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple
from uuid import UUID

from cellule.host.own.directory import WorldInfo

MARK = "secret-"  # every text of a diary says it again and again
ERASED_TEXT = "(erased)"

Cell = tuple[str, str]


class Page(NamedTuple):
    """What a diary says: written in a life that began at a height, under these keys."""

    text: str
    born: int
    keys: frozenset[int]


class DiaryKeys:
    """The keys that are there, by their numbers, of each world and cell."""

    def __init__(self) -> None:
        self._there: dict[tuple[UUID, Cell], int] = {}
        self._numbers = count()

    def write(self, world: WorldInfo, cell: Cell, before: Page | None, text: str, height: int) -> Page:
        """The page after an event at a height; a diary that nobody can read halts, and stays as it is."""
        place = (world.id, cell)
        if place not in self._there:
            self._there[place] = next(self._numbers)
        if before is None:
            return Page(text, height, frozenset({self._there[place]}))
        if not self.can_read(before):
            return before
        above = [(each.world, cell) for each in world.lineage.ancestors if each.last >= before.born]
        return Page(
            text, before.born, frozenset(self._there[each] for each in [place, *above] if each in self._there)
        )

    def can_read(self, page: Page) -> bool:
        """Tell whether all of its keys are there."""
        return page.keys <= set(self._there.values())

    def destroy(self, world: WorldInfo, cell: Cell) -> None:
        """A world erases a cell."""
        self._there.pop((world.id, cell), None)

    def lose(self, world: WorldInfo) -> None:
        """A world comes back without its keys."""
        self._there = {place: key for place, key in self._there.items() if place[0] != world.id}

    def shown(self, cells: dict[Cell, Any]) -> dict[Cell, Any]:
        """Cells as they are read now."""
        return {
            cell: self._shown(value) if isinstance(value, Page) else value for cell, value in cells.items()
        }

    def _shown(self, page: Page) -> str:
        return page.text if self.can_read(page) else ERASED_TEXT
