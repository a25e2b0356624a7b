"""The index: sorted entries in chunks that end by a digest of the key, in the CAS, and its live views.

Everything of a world that can grow is in one of these: equal contents, equal root, whatever the history; a
change rewrites the chunks it touches. `lookup`, `scan`, `update`, `diff` and `check` work on roots and are
pure generators. `LiveIndex` is the view of cells (much read, changed at random, larger than memory),
`OrderedIndex` that of lists (filled and emptied in order). The format is in `docs/formats/index.md`.
"""

from __future__ import annotations

from cellule.kernel.index.check import check
from cellule.kernel.index.chunk import CELLS, LISTS, Shape, Value
from cellule.kernel.index.compare import Changes, diff
from cellule.kernel.index.keys import pair_key, pair_of, prefix_end
from cellule.kernel.index.layer import MISSING, Spill
from cellule.kernel.index.live import LiveIndex
from cellule.kernel.index.ordered import OrderedIndex
from cellule.kernel.index.read import lookup, scan, scan_all
from cellule.kernel.index.write import Updated, build, update

__all__ = [
    "CELLS",
    "LISTS",
    "MISSING",
    "Changes",
    "LiveIndex",
    "OrderedIndex",
    "Shape",
    "Spill",
    "Updated",
    "Value",
    "build",
    "check",
    "diff",
    "lookup",
    "pair_key",
    "pair_of",
    "prefix_end",
    "scan",
    "scan_all",
    "update",
]
