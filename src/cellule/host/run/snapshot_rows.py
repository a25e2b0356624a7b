"""What a snapshot changes in the engine: its row and the baseline, under the owner's epoch, in one batch.

The batch roots the snapshot, so it expects the witness of its blocks. Rows of snapshots that are kept no
longer go in the same batch. What the owner cannot do for now is a row, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1
from uuid import UUID

from cellule.errors import Conflict, Unavailable
from cellule.host.limits import (
    ATTEMPTS_MAX,
    RESTORE_CELL_S,
    RESTORE_CHUNK_S,
    RESTORE_RECORD_S,
    SNAPSHOTS_KEPT_MAX,
)
from cellule.host.own.directory import baseline_row
from cellule.host.run.commits import fenced
from cellule.host.storage.policy import read_retention
from cellule.host.trouble import Trouble
from cellule.kernel.index.chunk import CELLS
from cellule.kernel.state.ledger import Ledger
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.store.engine import Batch, Engine
from cellule.values.cid import Cid


def restore_s(ledger: Ledger, start: int) -> float:
    """About how long it takes to restore this world from a snapshot at height `start`.

    It decides when a snapshot is due, beside the tail's bytes. Records are applied one by one; the cells they
    changed are read first, and where these lie anywhere in a large world, almost each comes with a chunk of
    its own, which costs more than the cell.
    """
    cells_s = 0.0
    for cells in ledger.modules.values():
        changed, chunks = cells.live.changed, cells.live.root_count * CELLS.ending_below / 256
        read = -chunks * expm1(-changed / chunks) if chunks else 0  # where they lie anywhere in the world
        cells_s += changed * RESTORE_CELL_S + read * RESTORE_CHUNK_S
    return (ledger.height - start) * RESTORE_RECORD_S + cells_s


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """The rows of one world's snapshots; `first` is the height of its first one, which stays."""

    engine: Engine
    cas: Cas
    universe: UUID
    world: UUID
    epoch: bytes
    first: int

    async def tell(self, trouble: Trouble) -> None:
        """Say what the owner cannot do for now; the next snapshot clears it."""
        expect = {keys.world_epoch(self.universe, self.world): self.epoch}
        row = {keys.world_trouble(self.universe, self.world): trouble.row()}
        try:
            await self.engine.commit(Batch(expect=expect, set=row))
        except Conflict as error:
            raise fenced(self.world) from error

    async def save(self, height: int, root: Cid, since: int) -> None:
        """Make a snapshot the baseline; its blocks were put since `generation()` was `since`."""
        epoch = keys.world_epoch(self.universe, self.world)
        rows = {
            keys.snapshot(self.universe, self.world, height): bytes(root),
            keys.world_baseline(self.universe, self.world): baseline_row(height, root),
        }
        clear = [*await self._outdated(height), keys.world_trouble(self.universe, self.world)]
        for _ in range(ATTEMPTS_MAX):
            parts = await self.cas.witness(since)
            try:
                batch = Batch(expect={epoch: self.epoch}, set=rows, clear=clear)
                await self.engine.commit(parts.into(batch))
            except Conflict as error:
                if await self.engine.read([epoch]) != [self.epoch]:
                    raise fenced(self.world) from error
            else:
                return
        raise Unavailable("host.snapshot_contended", "collections begin again and again while it is saved")

    async def _outdated(self, height: int) -> list[bytes]:
        """The rows of snapshots that are no longer kept."""
        if height <= self.first + 1:
            return []
        begin, end = keys.snapshot_range(self.universe, self.world, self.first + 1, height - 1)
        page = await self.engine.scan(begin, end, limit=2 * SNAPSHOTS_KEPT_MAX, reverse=True)
        kept = (await read_retention(self.engine, self.universe, self.world)).snapshots
        return [key for key, _ in page.items[kept - 1 :]]
