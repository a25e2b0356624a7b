"""About how long opening a world would take: this decides when a snapshot is due, beside the tail's bytes.

Records are applied one by one. The cells they changed are read first: where cells lie anywhere in a large
world, almost each comes with a chunk of its own, which costs more than the cell.
"""

from __future__ import annotations

from math import expm1

from cellule.host.limits import RESTORE_CELL_S, RESTORE_CHUNK_S, RESTORE_RECORD_S
from cellule.kernel.index.chunk import CELLS
from cellule.kernel.state.ledger import Ledger


def restore_s(ledger: Ledger, start: int) -> float:
    """About how long it takes to restore this world from a snapshot at height `start`."""
    cells_s = 0.0
    for cells in ledger.modules.values():
        changed, chunks = cells.live.changed, cells.live.root_count * CELLS.ending_below / 256
        read = -chunks * expm1(-changed / chunks) if chunks else 0  # where they lie anywhere in the world
        cells_s += changed * RESTORE_CELL_S + read * RESTORE_CHUNK_S
    return (ledger.height - start) * RESTORE_RECORD_S + cells_s
