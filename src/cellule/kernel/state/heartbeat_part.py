"""The heartbeat's part of a snapshot: six indexes by their roots, two counters, and whether it is paused.

    {bindings, by_head, by_name, counts, impulses, numbers, paused, queued, registry}

Opening a world reads roots only; the rows are proven as they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

from cellule.kernel.index import OrderedIndex
from cellule.kernel.need import Need, Nodes
from cellule.kernel.state import heartbeat_rows as parts
from cellule.kernel.state.heartbeat import Heartbeat
from cellule.kernel.state.operations import OperationBook
from cellule.kernel.state.snapshot_schema import HEARTBEAT_INDEXES
from cellule.kernel.state.wall_clock import WallClock
from cellule.values.cid import Cid

Row = TypeVar("Row")
_PACKS: Mapping[str, Callable[[Any], Any]] = {"registry": parts.pack_entry}
_PAGE = 1_000


def freeze(heartbeat: Heartbeat) -> None:
    """Fix what the indexes hold now."""
    for _, index, _ in indexes(heartbeat):
        index.freeze()


def fixed(heartbeat: Heartbeat) -> dict[str, Any]:
    """Everything small, as it is now."""
    return {
        "numbers": heartbeat.numbers, "queued": heartbeat.queued, "paused": heartbeat.paused,
        "clock": heartbeat.wall_clock.as_data(),
    }  # fmt: skip


def indexes(
    heartbeat: Heartbeat,
) -> list[tuple[str, OrderedIndex[Any], Callable[[Any], Any] | None]]:
    """The indexes by name, each with how its rows are stored."""
    own = [(name, getattr(heartbeat, name), _PACKS.get(name)) for name in HEARTBEAT_INDEXES]
    beside = {**heartbeat.operations.indexes(), "told": heartbeat.wall_clock.told}
    return [*own, *((name, index, None) for name, index in beside.items())]


def load(heartbeat: Heartbeat, saved: Mapping[str, Any], nodes: Nodes) -> None:
    """Take over what a snapshot says; its shape was proven."""
    heartbeat.numbers, heartbeat.queued = saved["numbers"], saved["queued"]
    heartbeat.paused = saved["paused"]
    for name in HEARTBEAT_INDEXES:
        setattr(heartbeat, name, open_index(saved[name], nodes, parts.UNPACKS[name]))
    heartbeat.operations = OperationBook.load(nodes, {name: _root(saved[name]) for name in ("armed", "due")})
    heartbeat.wall_clock = WallClock.load(nodes, _root(saved["told"]), saved["clock"])


def _root(saved: list[Any] | None) -> tuple[Cid, int] | None:
    return None if saved is None else (saved[0].cid, saved[1])


def open_index(saved: list[Any] | None, nodes: Nodes, unpack: Callable[[Any], Row]) -> OrderedIndex[Row]:
    """The index that a snapshot names as [root, count], or an empty one."""
    if saved is None:
        return OrderedIndex(None, nodes, unpack=unpack)
    link, count = saved
    return OrderedIndex(link.cid, nodes, count=count, unpack=unpack)


def wrong_part(heartbeat: Heartbeat) -> Generator[Need, None, str | None]:
    """The first thing that does not fit the rest, or None; reads every row."""
    registry = yield from _rows(heartbeat.registry)
    heads: dict[bytes, int] = {}
    names: dict[bytes, int] = {}
    for key, entry in registry.items():
        number = int.from_bytes(key, "big")
        if len(key) != parts.NUMBER_BYTES or number >= heartbeat.numbers:
            return f"entry {key.hex()} of the registry was never registered"
        heads[parts.head_key(entry, number)] = names[parts.name_key(entry.name, number)] = 0
    if heads != (yield from _rows(heartbeat.by_head)) or names != (yield from _rows(heartbeat.by_name)):
        return "the registry is not listed by heads and names"
    counts: dict[bytes, list[int]] = {}
    impulses = yield from _rows(heartbeat.impulses)
    for key, impulse in impulses.items():
        count = counts.setdefault(key[:8] + bytes(8), [0, 0])
        count[0] += 1
        count[1] += parts.is_promoted(impulse.kind)
    if counts != (yield from _rows(heartbeat.counts)) or len(impulses) != heartbeat.queued:
        return "the impulses are not as many as are counted"
    yield from _rows(heartbeat.bindings)
    return None


def _rows(index: OrderedIndex[Row]) -> Generator[Need, None, dict[bytes, Row]]:
    rows: dict[bytes, Row] = {}
    begin = b""
    while True:
        page = yield from index.scan(begin, None, _PAGE)
        rows.update(page)
        if len(page) < _PAGE:
            return rows
        begin = page[-1][0] + b"\0"
