"""`--correlation`: timelines of one story only, and the runs of plans that have the id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Protocol

import typer

from cellule.host.ingress.handles import WorldHandle
from cellule.host.read.correlation import Correlations, runs_of
from cellule.host.read.record_view import RecordRenderer
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.records import Record

Correlation = Annotated[
    str | None, typer.Option(help="Only what follows from events or runs of plans with this id.")
]


class Story(Protocol):
    """Tells which records are wanted."""

    async def within(self, frame: Frame) -> set[int]:
        """The heights of a frame's records that are wanted."""

    async def has(self, height: int) -> bool:
        """Tell whether the record at a height is wanted."""


class _Everything:
    async def within(self, frame: Frame) -> set[int]:
        return set(range(frame.header.first, frame.header.last + 1))

    async def has(self, height: int) -> bool:  # noqa: ARG002 - all are wanted
        return True


async def correlations(world: WorldHandle, renderer: RecordRenderer, wanted: str | None) -> Story:
    """The records of one correlation id, or all where none is given."""
    if wanted is None:
        return _Everything()
    return Correlations(world.follower.journal, wanted, await runs_of(renderer, wanted))


def among(heights: set[int]) -> Callable[[int, Record], bool]:
    """Tells of a height and its record whether it is one of these."""
    return lambda height, _: height in heights
