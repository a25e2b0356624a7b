"""Cells of the kernel's own, such as the nodes of the tree: changed by Write records, by no step.

They have no queue and are never at work, so what a beat writes stands in their index at once. Called with
what a Write record says, live and in replay alike.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from cellule.errors import ensure
from cellule.kernel.index.live import MISSING
from cellule.kernel.need import Need, fetch
from cellule.kernel.state.cells import Entry
from cellule.kernel.state.heartbeat_rows import TREE
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.operations import MODULE as OPERATIONS
from cellule.kernel.state.operations import apply_write
from cellule.values.link import Link


def entry_at(ledger: Ledger, base: str, key: bytes) -> Generator[Need, None, Entry | None]:
    """The entry of a cell, or None."""
    return (yield from entries_at(ledger, base, (key,)))[key]


def entries_at(
    ledger: Ledger, base: str, keys: Iterable[bytes]
) -> Generator[Need, None, dict[bytes, Entry | None]]:
    """The entries of cells, read together."""
    live = ledger.cells(base).live
    found: dict[bytes, Any] = {key: live.cached(key) for key in keys}
    missing = [key for key, entry in found.items() if entry is MISSING]
    if missing:
        found.update((yield from live.load(missing)))
    return found


def state_at(ledger: Ledger, base: str, key: bytes) -> Generator[Need, None, bytes | None]:
    """The state of a cell; None where there is none."""
    if base not in ledger.modules:
        return None
    entry = yield from entry_at(ledger, base, key)
    return None if entry is None else (yield from state_of(ledger, entry))


def state_of(ledger: Ledger, entry: Entry) -> Generator[Need, None, bytes]:
    """The state of a cell."""
    state = entry.state
    if isinstance(state, Link):
        found = yield from fetch(ledger.nodes, (state.cid,))
        state = found[state.cid]
    assert state is not None
    return state


def apply(
    ledger: Ledger, base: str, key: bytes, height: int, state: bytes | Link | None, size: int
) -> Generator[Need, None, None]:
    """The cell has this state now, or is gone; a node of the tree takes its bindings along."""
    entry = yield from entry_at(ledger, base, key)
    heartbeat, live = ledger.open_heartbeat(), ledger.cells(base).live
    if base == OPERATIONS:
        old = None if entry is None else entry.state
        yield from apply_write(heartbeat.operations, ledger.nodes, ledger.beat, key, old, state)
    if state is None:
        live.delete(key)
        if base == TREE:
            yield from heartbeat.unbind_all(key)
        return
    version, born, born_ns = follow(entry, height, ledger.now_ns)
    era = len(ledger.eras) - 1
    live.put(key, Entry(state, size, version, born, born_ns, era, ledger.now_ns, height, None))


def follow(entry: Entry | None, height: int, now_ns: int) -> tuple[int, int, int]:
    """The version of a cell after a write, and when it was born."""
    is_later = entry is None or entry.last < height
    ensure(is_later, "kernel.write_order", "a write at {height} comes before the last", height=height)
    return (1, height, now_ns) if entry is None else (entry.version + 1, entry.born, entry.born_ns)
