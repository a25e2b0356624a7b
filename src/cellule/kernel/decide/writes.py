"""Cells of the kernel's own are written: a Write record, and the change.

The world tree is cells of `sys/Tree`. Writing a leaf makes the nodes above it that are missing; deleting a
node deletes what is below it, and the bindings at all of them.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.heartbeat.paths import ROOT, ancestors_of, tree_key
from cellule.kernel.journal.heartbeat_records import (
    WriteExtras,
    WriteRecord,
)
from cellule.kernel.need import Need
from cellule.kernel.state import tree, writes
from cellule.kernel.state.heartbeat_rows import TREE
from cellule.values.link import Link


def write(
    context: BeatContext, cause: int, base: str, key: bytes, state: bytes | None
) -> Generator[Need, None, int]:
    """Give a cell another state, or none; returns the height of the record."""
    writer, ledger = context.writer, context.ledger
    entry = yield from writes.entry_at(ledger, base, key)
    height = writer.next_height()
    version, born, _ = writes.follow(entry, height, ledger.now_ns)
    stored, extras = writer.state(state), WriteExtras()
    size = 0 if state is None else len(state)
    if isinstance(stored, Link):
        assert state is not None
        extras["size"] = size
        ledger.keep_block(stored.cid, state)
    prev = 0 if entry is None else entry.last
    record = WriteRecord(cause, base, key, born, version, prev, stored, extras)
    writer.add(record)
    yield from writes.apply(ledger, base, key, height, state, size)
    return height


def write_node(
    context: BeatContext, cause: int, path: str, value: Any = None, *, only_if_missing: bool = False
) -> Generator[Need, None, None]:
    """Give a node of the tree a value, and make the nodes above it that are missing."""
    places = [*ancestors_of(path)[1:], path] if path != ROOT else [path]
    nodes = {place: tree_key(place) for place in places}
    entries = yield from writes.entries_at(context.ledger, TREE, nodes.values())
    for place, key in nodes.items():
        is_leaf = place == path
        if entries[key] is None or (is_leaf and not only_if_missing):
            yield from write(context, cause, TREE, key, tree.node_state(place, value if is_leaf else None))


def delete_node(context: BeatContext, cause: int, path: str) -> Generator[Need, None, None]:
    """Delete a node and all below it; nothing happens where there is none."""
    for key in (yield from tree.keys_below(context.ledger, path, None)):
        yield from write(context, cause, TREE, key, None)
