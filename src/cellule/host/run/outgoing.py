"""What leaves a world with a frame: rows of the outbox, and markers of intents that are settled without one.

They stand in the batch of the frame, so an effect is asked for exactly if its intent is durable; the pool of
this node, if it has one, hears of them right after. What is in the rows is `outbox/rows.py`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from cellule.host.outbox.rows import Stored, closing_rows, opening_rows
from cellule.kernel.items import Beat
from cellule.values.cid import Cid


class Outgoing(NamedTuple):
    """What one beat's batch carries for the outside, and what the pool is told when it is durable."""

    stored: Sequence[Stored]
    closed: Sequence[bytes]
    set: Mapping[bytes, bytes]
    blocks: Mapping[Cid, bytes]

    @property
    def size(self) -> int:
        """How many bytes it adds to a batch."""
        return sum(len(key) + len(value) for key, value in self.set.items())


class Performs(Protocol):
    """What is told of rows and markers that are durable: the pool."""

    def offer(self, stored: Sequence[Stored]) -> None:
        """Perform these."""

    def closed(self, intents: Sequence[bytes]) -> None:
        """Stop these."""


class Dispatch:
    """The way from worlds to the pool, which comes and goes while they are hosted."""

    def __init__(self) -> None:
        self.pool: Performs | None = None

    def __call__(self, outgoing: Outgoing) -> None:
        """Tell the pool what is durable now; without one the rows wait in the store."""
        if self.pool is None:
            return
        if outgoing.stored:
            self.pool.offer(outgoing.stored)
        if outgoing.closed:
            self.pool.closed(outgoing.closed)


def outgoing_of(universe: UUID, world: UUID, beat: Beat, now_ns: int) -> Outgoing | None:
    """What a beat sends out, None where it is nothing."""
    if not (beat.opened or beat.closed):
        return None
    opened = opening_rows(universe, world, beat.opened, now_ns)
    rows = {**opened.set, **closing_rows(universe, world, beat.closed)}
    return Outgoing(opened.stored, beat.closed, rows, opened.blocks)
