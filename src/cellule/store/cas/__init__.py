"""The content-addressed store: bytes by CID, per universe, verified both ways; begin with `store.py`."""

from __future__ import annotations

from cellule.store.cas.contract import Entry, Orphan, OrphanPage, Parts
from cellule.store.cas.store import Cas

__all__ = ["Cas", "Entry", "Orphan", "OrphanPage", "Parts"]
