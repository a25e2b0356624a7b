"""Pages of a module's cells, in the order of their keys, as they are between two beats.

The live view merges the stored cells with the changed ones, so a page costs what it holds, not what changed.
"""

from __future__ import annotations

from collections.abc import Generator

from cellule.kernel.index.live import Page
from cellule.kernel.limits import CELL_PAGE_BYTES
from cellule.kernel.need import Need, fetch
from cellule.kernel.state.cells import Entry
from cellule.kernel.state.ledger import Ledger
from cellule.values.link import Link

CellPage = Page[Entry]


def page_of_cells(
    ledger: Ledger, base: str, begin: bytes, end: bytes | None, limit: int, *, with_states: bool = True
) -> Generator[Need, None, CellPage]:
    """Up to `limit` cells with keys of `[begin, end)`, and the key the next page begins with.

    With their states a page ends early when it holds many bytes.
    """
    cells = ledger.modules.get(base)
    if cells is None:
        return CellPage([], None)
    cells.rest()
    page = yield from cells.live.scan(begin, end, limit)
    if not with_states:
        return page
    entries, following = _bounded(page)
    linked = [entry.state.cid for _, entry in entries if isinstance(entry.state, Link)]
    found = yield from fetch(ledger.nodes, linked)
    whole = [
        (key, entry.changed(state=found[entry.state.cid]) if isinstance(entry.state, Link) else entry)
        for key, entry in entries
    ]
    return CellPage(whole, following)


def count_cells(ledger: Ledger, base: str) -> Generator[Need, None, int]:
    """How many cells a module has."""
    cells = ledger.modules.get(base)
    if cells is None:
        return 0
    cells.rest()
    return (yield from cells.live.count())


def _bounded(page: CellPage) -> CellPage:
    """The first cells of a page, until their states are too many bytes."""
    size = 0
    for count, (key, entry) in enumerate(page.entries, 1):
        size += entry.size
        if size >= CELL_PAGE_BYTES and count < len(page.entries):
            return CellPage(page.entries[:count], key + b"\0")
    return page
