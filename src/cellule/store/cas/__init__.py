"""The content-addressed store: bytes by CID, per universe, verified both ways; begin with `store.py`."""

from __future__ import annotations

from cellule.store.cas.contract import NOTHING, OVERTAKEN_ROOT, Entry, Orphan, OrphanPage, Parts
from cellule.store.cas.store import Cas

__all__ = ["NOTHING", "OVERTAKEN_ROOT", "Cas", "Entry", "Orphan", "OrphanPage", "Parts"]
