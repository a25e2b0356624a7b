"""The family of worlds: who was forked from whom, as a tree; and who would lose history with a world."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from cellule.errors import Rejected
from cellule.host.own.directory import WorldInfo

NAMED_MAX = 8  # descendants that a refusal names


@dataclass(frozen=True, slots=True)
class Branching:
    """A world in the tree, and those that were forked from it; `info` is None where it was deleted."""

    world: UUID
    info: WorldInfo | None
    height: int  # at which it was forked
    children: tuple[Branching, ...]

    @property
    def name(self) -> str:
        """What people call it."""
        return f"({self.world})" if self.info is None else self.info.name


def tree_of(worlds: Iterable[WorldInfo]) -> list[Branching]:
    """The trees of these worlds, older ones first; a deleted world stands where its forks need it."""
    known = {each.id: each for each in worlds}
    places: dict[UUID, tuple[UUID | None, int]] = {}  # the parent of each, and where it was forked
    for info in known.values():
        parent, height = None, 0
        for older in () if info.origin is None else info.origin.ancestors:
            places.setdefault(older.world, (parent, height))
            parent, height = older.world, older.last
        places[info.id] = (parent, height)
    children: dict[UUID | None, list[UUID]] = {}
    for world, (parent, _) in sorted(places.items()):
        children.setdefault(parent, []).append(world)

    def below(parent: UUID | None) -> tuple[Branching, ...]:
        return tuple(
            Branching(world, known.get(world), places[world][1], below(world))
            for world in children.get(parent, ())
        )

    return list(below(None))


def descendants(world: WorldInfo, worlds: Iterable[WorldInfo]) -> list[WorldInfo]:
    """The worlds that read what was before their fork from this one."""
    return [
        each
        for each in worlds
        if each.origin is not None and any(older.world == world.id for older in each.origin.ancestors)
    ]


def check_no_descendants(world: WorldInfo, worlds: Sequence[WorldInfo]) -> None:
    """Refuse to delete a world whose history others need."""
    found = descendants(world, worlds)
    if found:
        names = ", ".join(each.name for each in found[:NAMED_MAX])
        raise Rejected(
            "host.has_forks", "{count} worlds were forked from world {world}: {names}", count=len(found),
            world=world.name, names=names + (", ..." if len(found) > NAMED_MAX else ""),
            hint="They lose their history below the fork if it goes: say force=True, or --force.",
        )  # fmt: skip
