"""Whose heights are whose: a world, and the worlds that it was forked from.

Heights go on across a fork: a child's first record stands one above the height it was forked at, and all
below were written by its ancestors. So a height belongs to exactly one world, and what was made there (ids of
intents, what a step is told of its world) keeps that world's id for ever.

Rejected: a snapshot that knows its world. Parent and child share it at the fork.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from cellule.errors import ensure


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A world that wrote a part of another's history, and the last height of it."""

    world: UUID
    last: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Heights `first` to `last` of a history, which this world wrote; no `last` where it still does."""

    world: UUID
    first: int
    last: int | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """A world and its ancestors, oldest first."""

    world: UUID
    ancestors: tuple[Ancestor, ...] = ()

    def __post_init__(self) -> None:
        heights = [each.last for each in self.ancestors]
        ensure(
            heights == sorted(heights), "kernel.lineage_order", "ancestors of world {world} overlap",
            world=self.world,
        )  # fmt: skip

    @property
    def fork_height(self) -> int:
        """The height this world was forked at; 0 where it was not."""
        return self.ancestors[-1].last if self.ancestors else 0

    @property
    def parent(self) -> UUID | None:
        """The world it was forked from."""
        return self.ancestors[-1].world if self.ancestors else None

    def world_at(self, height: int) -> UUID:
        """The world that wrote the record at a height, or will write it."""
        for each in self.ancestors:
            if height <= each.last:
                return each.world
        return self.world

    def stretches(self) -> list[Stretch]:
        """Who wrote which heights, oldest first; ancestors that wrote none are left out."""
        found: list[Stretch] = []
        first = 1
        for each in self.ancestors:
            if each.last >= first:
                found.append(Stretch(each.world, first, each.last))
                first = each.last + 1
        return [*found, Stretch(self.world, first, None)]

    def child(self, world: UUID, height: int) -> Lineage:
        """The lineage of a world that is forked from this one at a height."""
        if height >= self.fork_height:
            return Lineage(world, (*self.ancestors, Ancestor(self.world, height)))
        older = tuple(each for each in self.ancestors if each.last < height)
        return Lineage(world, (*older, Ancestor(self.world_at(height), height)))
