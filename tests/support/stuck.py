"""Cells that wait for no named reason: there must be none."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from cellule.kernel.need import Need, Nodes
from cellule.kernel.state.wait_reasons import WaitingCell, find_waiting


def find_stuck(snapshot: dict[str, Any], nodes: Nodes) -> Generator[Need, None, list[WaitingCell]]:
    """The cells of a decoded snapshot that wait for no named reason."""
    waiting = yield from find_waiting(snapshot, nodes)
    return [cell for cell in waiting if not cell.reasons]
