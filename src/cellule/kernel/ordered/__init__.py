"""The ordered index: sorted entries in content-defined chunks, and its live view.

Used for timers, intents, dead letters and whatever else is read in key order. Equal contents, equal root,
whatever the history; a change rewrites the chunks it touches. The format is in `docs/formats/index.md`.
"""

from __future__ import annotations

from cellule.kernel.ordered.chunk import check
from cellule.kernel.ordered.index import OrderedIndex
from cellule.kernel.ordered.keys import pair_key, pair_of
from cellule.kernel.ordered.write import update

__all__ = ["OrderedIndex", "check", "pair_key", "pair_of", "update"]
