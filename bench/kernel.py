"""The kernel: events, the cell index, snapshots, restore, verification; each part says what its sides do."""

from __future__ import annotations

from collections.abc import Iterator

from bench import kernel_events, kernel_index, kernel_world
from bench.report import Row


def run(*, quick: bool) -> Iterator[Row]:
    """All parts, one after another."""
    for part in (kernel_events, kernel_index, kernel_world):
        yield from part.run(quick=quick)
