"""Reading a whole index to prove it: order, boundaries, levels, canonical bytes, and how many entries."""

from __future__ import annotations

from collections.abc import Generator
from itertools import pairwise

from cellule.errors import CelluleError
from cellule.kernel.index.chunk import Chunk, Shape, is_ending, malformed
from cellule.kernel.need import Need, Nodes, fetch
from cellule.values.cbor import decode
from cellule.values.cid import Cid

CHECK_TOGETHER = 512  # chunks asked for, and held, at once

_Row = list[tuple[bytes | None, Cid]]  # the chunks of a level, each with the key it is linked by


def check(root: Cid | None, nodes: Nodes, shape: Shape) -> Generator[Need, None, int]:
    """The number of entries; `Corrupted` where anything is wrong."""
    if root is None:
        return 0
    found = yield from fetch(nodes, (root,))
    top = Chunk(root, found[root], None, None)
    if top.level and len(top.keys) == 1:
        malformed(root, "it is a root with a single chunk below")
    row: _Row = [(None, root)]
    for level in range(top.level, 0, -1):
        _, row = yield from _check_level(row, level, nodes, shape.at(level))
    count, _ = yield from _check_level(row, 0, nodes, shape)
    return count


def _check_level(
    row: _Row, level: int, nodes: Nodes, shape: Shape
) -> Generator[Need, None, tuple[int, _Row]]:
    """Prove the chunks of a level; returns how many entries they have, and the chunks below."""
    below: _Row = []
    count = 0
    before: bytes | None = None
    for start in range(0, len(row), CHECK_TOGETHER):
        run = row[start : start + CHECK_TOGETHER]
        blocks = yield from fetch(nodes, [cid for _, cid in run])
        for last, cid in run:
            chunk = _proven(cid, blocks[cid], level, last)
            if before is not None and chunk.keys[0] <= before:
                malformed(cid, "its keys do not follow those of the chunk before")
            before = chunk.keys[-1]
            _check_end(chunk, shape, is_last=cid == row[-1][1])
            count += len(chunk.keys)
            if level:
                below += ((key, chunk.child(at)) for at, key in enumerate(chunk.keys))
    return count, below


def _proven(cid: Cid, data: bytes, level: int, last: bytes | None) -> Chunk:
    try:
        decode(data)
    except CelluleError as error:
        malformed(cid, f"its bytes are not canonical: {error}", error)
    return Chunk(cid, data, level, last)


def _check_end(chunk: Chunk, shape: Shape, *, is_last: bool) -> None:
    """The chunk ends exactly where the rule says."""
    size = len(chunk.keys)
    if size > shape.entries_max:
        malformed(chunk.cid, f"it has {size} entries, more than {shape.entries_max}")
    early = any(is_ending(chunk.level, key, shape) for key, _ in pairwise(chunk.keys))
    done = is_last or size == shape.entries_max or is_ending(chunk.level, chunk.keys[-1], shape)
    if early or not done:
        malformed(chunk.cid, "it does not end where its keys say")
