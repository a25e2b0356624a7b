"""Check: the chain of frames and the graph of nodes, without running anything.

`check_frames` proves that frames are canonical, contiguous and chained; `reachable` walks every link from
a root and proves that each node is there and is what its CID says. Indexes are also walked as indexes, so a
node that is intact but stands in the wrong place is found.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cellule.errors import Corrupted
from cellule.kernel.frame import Frame, decode_frame
from cellule.kernel.index.compare import check as check_index
from cellule.kernel.need import Need, Nodes, fetch
from cellule.values.cbor import decode, links_of
from cellule.values.cid import Cid

WALK_TOGETHER = 256  # nodes asked for at once


@dataclass(frozen=True, slots=True)
class Position:
    """Where a chain of frames stands."""

    height: int
    frame: bytes | None


def check_frames(frames: Iterable[bytes], start: Position) -> Iterator[Frame]:
    """Decode frames strictly and check that each follows the one before; yields them."""
    height, digest = start.height, start.frame
    for data in frames:
        frame = decode_frame(data, prove=True)
        if frame.header.first != height + 1:
            raise Corrupted(
                "kernel.chain_gap", "frame {cid} starts at height {first}; expected {height}",
                cid=str(frame.cid), first=frame.header.first, height=height + 1,
            )  # fmt: skip
        if frame.header.prev != digest:
            raise Corrupted(
                "kernel.chain_broken", "frame {cid} at height {first} follows {prev}, not {digest}",
                cid=str(frame.cid), first=frame.header.first, prev=frame.header.prev, digest=digest,
            )  # fmt: skip
        height, digest = frame.header.last, frame.cid.digest
        yield frame


def reachable(roots: Iterable[Cid], nodes: Nodes) -> Generator[Need, None, set[Cid]]:
    """All nodes reachable from `roots`; each is read, and so verified against its CID."""
    seen: set[Cid] = set()
    waiting = list(dict.fromkeys(roots))
    while waiting:
        together = tuple(cid for cid in waiting[:WALK_TOGETHER] if cid not in seen)
        waiting = waiting[WALK_TOGETHER:]
        found = yield from fetch(nodes, together)
        for cid in together:
            seen.add(cid)
            if cid.codec == "dag-cbor":
                waiting.extend(link for link in links_of(found[cid]) if link not in seen)
    return seen


def check_snapshot(cid: Cid, nodes: Nodes) -> Generator[Need, None, dict[str, int]]:
    """Walk a snapshot's indexes as indexes; returns how many cells each module has."""
    found = yield from fetch(nodes, (cid,))
    saved: Any = decode(found[cid])
    counts: dict[str, int] = {}
    for base, (link, count) in saved["modules"].items():
        counts[base] = yield from check_index(link.cid, nodes)
        if counts[base] != count:
            raise Corrupted(
                "kernel.snapshot_damaged", "snapshot {cid}: {what}",
                cid=str(cid), what=f"{base} has {counts[base]} cells, the snapshot says {count}",
            )  # fmt: skip
    return counts
