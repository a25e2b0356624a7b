"""The cell index at 1,000 and 1,000,000 cells: updates, differences, lookups per second. CPU time.

The CAS is a dict; nodes read from it are verified, and an LRU of 64 MB (the default of a world) keeps some.
An update changes 1,000 cells, spread over all, into a new root and its blocks; a difference compares the
roots before and after; a lookup reads 1,000 cells from a root. The million is built once, from an empty root,
in batches of 50,000.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
from typing import Any, TypeVar

from bench.kernel_order import key_of
from bench.report import Row, measured
from bench.timing import Side, best_of
from cellule.kernel.index import CELLS, Value, diff, lookup, update
from cellule.kernel.need import Need, Nodes, Pause, drive
from cellule.kernel.state.module_cells import Budget
from cellule.values.cid import Cid

CHANGES = 1_000
BUILD_BATCH = 50_000
STATE_BYTES = 110

T = TypeVar("T")


class Indexed:
    """An index of cells over a CAS in memory."""

    def __init__(self) -> None:
        self.blocks: dict[Cid, bytes] = {}
        self.nodes = Nodes(Budget().nodes_bytes_max)
        self.root: Cid | None = None

    def change(self, numbers: Iterable[int], turn: int) -> None:
        """Give these cells a new entry, and the index a new root."""
        changes = {key_of(number).encode(): _entry(number, turn) for number in numbers}
        self.apply(changes)

    def apply(self, changes: dict[bytes, Value]) -> None:
        root, blocks, _ = self._driven(update(self.root, changes, self.nodes, CELLS))
        self.blocks.update(blocks)
        self.root = root

    def compare(self, old: Cid | None) -> int:
        """How many cells differ from another root."""
        return len(self._driven(diff(old, self.root, self.nodes)).changes)

    def look(self, keys: list[bytes]) -> int:
        return len(self._driven(lookup(self.root, keys, self.nodes)))

    def _driven(self, walk: Generator[Need | Pause, None, T]) -> T:
        return drive(walk, self.nodes, lambda cids: {cid: self.blocks[cid] for cid in cids})


def run(*, quick: bool) -> Iterator[Row]:
    """A small index, then a large one."""
    sizes = (200, 2_000) if quick else (1_000, 1_000_000)
    changes, rounds = (100, 1) if quick else (CHANGES, 7)
    for cells in sizes:
        yield from _one_size(cells, changes, rounds)


def _one_size(cells: int, changes: int, rounds: int) -> Iterator[Row]:
    index = Indexed()
    case = f"index of {cells:,} cells"
    start = time.process_time()
    for first in range(0, cells, BUILD_BATCH):
        index.change(range(first, min(cells, first + BUILD_BATCH)), 0)
    build_s = time.process_time() - start
    roots: list[Cid | None] = [index.root]
    turns = iter(range(1, rounds + 1))

    def prepare() -> dict[bytes, Value]:
        turn = next(turns)
        roots[0] = index.root
        return {key_of(number).encode(): _entry(number, turn) for number in _spread(cells, changes, turn)}

    def compare(_: None) -> None:
        assert index.compare(roots[0]) == changes

    def look(keys: list[bytes]) -> None:
        assert index.look(keys) == changes

    update_s, diff_s, look_s = best_of(
        Side(index.apply, prepare),
        Side(compare),
        Side(look, lambda: [key_of(number).encode() for number in _spread(cells, changes, 97)]),
        rounds=rounds,
    )
    yield measured("kernel", case, "updates", changes / update_s, "/s")
    yield measured("kernel", case, "diffs", changes / diff_s, "/s")
    yield measured("kernel", case, "lookups", changes / look_s, "/s")
    yield measured("kernel", case, "build", cells / build_s, "/s")


def _spread(cells: int, changes: int, turn: int) -> list[int]:
    """Different cells, spread over all; other ones each turn where there are enough."""
    step = cells // changes
    return [at * step + turn % step for at in range(changes)]


def _entry(number: int, turn: int) -> Any:
    """An entry as a snapshot writes it: the state in its envelope, version, born, era, times."""
    state = number.to_bytes(8, "big") + turn.to_bytes(8, "big") + bytes(STATE_BYTES - 16)
    return [[state], turn + 1, number + 1, 0, 1_700_000_000_000_000_000 + turn, number + 1]
