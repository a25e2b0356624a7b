"""Changing a root: a batch of puts and deletes becomes a new root and its new blocks.

Changes are sorted by hash and go down the tree a level at a time, many nodes together; every touched node
is read once and written at most once. Batches of more than `RUN_CHANGES` go down in runs, so memory is
bounded however many changes there are. The result depends only on the entries, never on the batch.

Rejected: one key after the other. Every put would write the path from the root again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, NamedTuple

from cellule.kernel.index.build import Block, rebuild, spread
from cellule.kernel.index.node import BUCKET_SIZE, WIDTH, Bucket, Element, Node, Value, hash_of, shift_of
from cellule.kernel.need import Need, Nodes, Pause, fetch
from cellule.values.cid import Cid

RUN_CHANGES = 2_048  # changes that go down the tree together
SMALL_CHANGES = 8  # up to so many are merged into a bucket at once
SLICE_NODES = 256  # nodes written between two pauses
SLICE_KEYS = 16  # keys hashed or sorted count as one node written

FastSteps = Generator[Need | Pause, None, Any]
_Job = tuple[Cid | Bucket | None, int, int]  # a node or a bucket, and its range of the sorted changes
_Plan = tuple[Node | None, dict[int, Element], list[int]]  # node, replaced slots, slots waiting for below


class Updated(NamedTuple):
    """A new root (None = empty), the blocks it needs that were not taken at a pause, and entries added."""

    root: Cid | None
    blocks: dict[Cid, bytes]
    added: int


def update(
    root: Cid | None, changes: Mapping[bytes, Value | None], nodes: Nodes, *, slice_nodes: int = SLICE_NODES
) -> Generator[Need | Pause, None, Updated]:
    """Apply `changes` (None deletes) to `root`; yields `Need`s, and a `Pause` every `slice_nodes` nodes."""
    return (yield from update_from(root, changes, changes.__getitem__, nodes, slice_nodes=slice_nodes))


def update_from(
    root: Cid | None, keys: Iterable[bytes], value_of: Callable[[bytes], Value | None], nodes: Nodes,
    *, slice_nodes: int = SLICE_NODES,
) -> Generator[Need | Pause, None, Updated]:  # fmt: skip
    """Like `update`, with each value made only when its node is written; it is asked for exactly once."""
    work = _Update(nodes, value_of, slice_nodes)
    yield from work.sort(keys)
    made: list[Element] = [root]
    if work.order:
        made = yield from work.level([(root, 0, len(work.order))], 0)
    return Updated(None if made[0] is None else Cid(made[0]), work.blocks, work.added)


class _Update:
    """One batch on its way through the tree."""

    def __init__(self, nodes: Nodes, value_of: Callable[[bytes], Value | None], slice_nodes: int) -> None:
        self.order: list[tuple[int, bytes]] = []
        self.blocks: dict[Cid, bytes] = {}
        self.added = 0
        self._nodes = nodes
        self._value_of = value_of
        self._pause = Pause(self.blocks)
        self._slice_nodes = slice_nodes
        self._written = 0

    def sort(self, keys: Iterable[bytes]) -> FastSteps:
        """Hash and sort the keys in slices: by the hash's first byte, then each part."""
        parts: list[list[tuple[int, bytes]]] = [[] for _ in range(256)]
        most = self._slice_nodes * SLICE_KEYS
        for count, key in enumerate(keys, 1):
            hashed = hash_of(key)
            parts[hashed >> 248].append((hashed, key))
            if count % most == 0:
                yield self._pause
        sorted_since = 0
        for part in parts:
            part.sort()
            self.order += part
            sorted_since += len(part)
            if sorted_since >= most:
                sorted_since = 0
                yield self._pause

    def level(self, jobs: list[_Job], depth: int) -> FastSteps:
        """The new elements of `jobs`, in their order."""
        blocks = yield from fetch(self._nodes, [element for element, _, _ in jobs if type(element) is Cid])
        made: list[Element] = []
        unfinished: list[tuple[int, _Plan]] = []
        below: list[_Job] = []
        for element, low, high in jobs:
            if isinstance(element, Cid):
                plan = self._plan_node(Node(element, blocks.pop(element), depth), low, high, below)
            else:
                plan = self._plan_bucket(element or [], low, high, depth, below)
            if plan[2]:
                unfinished.append((len(made), plan))
                made.append(None)
            else:  # most nodes: written at once, so that few decoded ones are in memory
                made.append(self._write(plan[0], depth, plan[1]))
            if self._is_slice_full():
                yield self._pause
        results = iter((yield from self._runs(below, depth + 1)) if below else ())
        for position, (node, replaced, waiting) in unfinished:
            for slot in waiting:
                element = next(results)
                if node is None or type(element) is list or element != node.at(slot):
                    replaced[slot] = element
            made[position] = self._write(node, depth, replaced)
            if self._is_slice_full():
                yield self._pause
        return made

    def _runs(self, jobs: list[_Job], depth: int) -> FastSteps:
        """`level` in runs of bounded size."""
        made: list[Element] = []
        run: list[_Job] = []
        size = 0
        for job in jobs:
            count = job[2] - job[1]
            if run and size + count > RUN_CHANGES:
                made += yield from self.level(run, depth)
                run, size = [], 0
            run.append(job)
            size += count
        made += yield from self.level(run, depth)
        return made

    def _is_slice_full(self) -> bool:
        if self._written < self._slice_nodes:
            return False
        self._written = 0
        return True

    def _groups(self, low: int, high: int, depth: int) -> list[tuple[int, int, int]]:
        """The changes by hash prefix at that depth: (prefix, low, high) each."""
        shift = shift_of(depth)
        order = self.order
        groups = []
        while low < high:
            prefix = order[low][0] >> shift
            end = high if low + 1 == high else bisect_left(order, ((prefix + 1) << shift,), low + 1, high)
            groups.append((prefix, low, end))
            low = end
        return groups

    def _plan_node(self, node: Node, low: int, high: int, below: list[_Job]) -> _Plan:
        replaced: dict[int, Element] = {}
        waiting: list[int] = []
        for prefix, start, end in self._groups(low, high, node.depth):
            slot = prefix & (WIDTH - 1)
            element = node.at(slot)
            if type(element) is bytes:
                waiting.append(slot)
                below.append((node.child(element), start, end))
                continue
            bucket = [] if element is None else node.entries(slot, prefix)
            self._change(slot, bucket, start, end, node.depth, replaced, waiting, below)
        return node, replaced, waiting

    def _plan_bucket(self, entries: Bucket, low: int, high: int, depth: int, below: list[_Job]) -> _Plan:
        """A bucket that gets many changes becomes a node; few entries make it a bucket again."""
        replaced: dict[int, Element] = dict(spread(entries, depth))
        waiting: list[int] = []
        for prefix, start, end in self._groups(low, high, depth):
            slot = prefix & (WIDTH - 1)
            self._change(slot, replaced.get(slot, []), start, end, depth, replaced, waiting, below)
        return None, replaced, waiting

    def _change(
        self, slot: int, bucket: Bucket, start: int, end: int, depth: int,
        replaced: dict[int, Element], waiting: list[int], below: list[_Job],
    ) -> None:  # fmt: skip
        """Few changes are merged here; many go below, where what is too small collapses again."""
        if end - start > SMALL_CHANGES:
            waiting.append(slot)
            below.append((bucket, start, end))
            return
        entries = {entry[0]: entry[1] for entry in bucket}
        before = len(entries)
        changed = False
        for position in range(start, end):
            key = self.order[position][1]
            value = self._value_of(key)
            if value is not None:
                entries[key] = value
                changed = True
            elif key in entries:
                del entries[key]
                changed = True
        if not changed:
            return
        self.added += len(entries) - before
        merged = [[key, entries[key]] for key in sorted(entries)]
        replaced[slot] = self._placed(merged, depth + 1)

    def _placed(self, entries: Bucket, depth: int) -> Element:
        """A bucket where the entries fit into one, else a new subtree."""
        if len(entries) <= BUCKET_SIZE:
            return entries or None
        slots = {slot: self._placed(part, depth + 1) for slot, part in spread(entries, depth).items()}
        return self._write(None, depth, slots)

    def _write(self, node: Node | None, depth: int, replaced: dict[int, Element]) -> Element:
        if not replaced:
            return None if node is None else bytes(node.cid)
        self._written += 1
        made = rebuild(node, depth, replaced)
        if not isinstance(made, Block):
            return made
        if node is None or made.cid != node.cid:
            self.blocks[made.cid] = made.data
        return bytes(made.cid)
