"""The cell index: an IPLD HashMap in the CAS, and its live view.

Same entries, same root CID, whatever the history. `lookup`, `update`, `pages`, `diff` and `check` work on
roots and are pure generators; `LiveIndex` adds the changes that are not yet in a root. The format is in
`docs/formats/index.md`.
"""

from __future__ import annotations

from cellule.kernel.index.compare import Changes, Entries, check, diff, pages
from cellule.kernel.index.live import MISSING, LiveIndex, Materialised, Spill
from cellule.kernel.index.read import lookup
from cellule.kernel.index.write import Updated, update

__all__ = [
    "MISSING",
    "Changes",
    "Entries",
    "LiveIndex",
    "Materialised",
    "Spill",
    "Updated",
    "check",
    "diff",
    "lookup",
    "pages",
    "update",
]
