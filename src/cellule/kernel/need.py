"""How the kernel reads the CAS without waiting: `Need`, `Pause`, and the bounded view `Nodes`.

Whatever walks the CAS is a generator. It yields `Need(cids)` with all missing nodes of a level at once; the
driver puts them into `Nodes` and resumes it. Long work also yields `Pause` so that beats can run in
between. A whole beat is one generator: `found = yield from index.lookup(...)`.

A node delivered for an open request stays until the walk that asked has taken it, however small the
budget is, so a walk always makes progress. Nothing here fetches, and nothing here decodes.

Rejected: a callback that fetches. It would hide I/O inside the kernel and ask for one node at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from cellule.errors import Corrupted
from cellule.values.cid import Cid, check_cid

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Need:
    """The walk goes on once these nodes are in `Nodes`; resuming without one says that it does not exist.

    `is_optional`: that one does not exist is no error. `keys` are ids of erasure keys, for `KeyRing.add`;
    resuming without one says that it is not to be had here.
    """

    cids: tuple[Cid, ...]
    is_optional: bool = False
    keys: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Pause:
    """A good place to do something else.

    `blocks` is the dict the work under way is filling: the driver may make blocks durable here and take
    them out, so that long work needs no long memory. What is left in it is returned at the end.
    """

    blocks: dict[Cid, bytes]


class Nodes:
    """The encoded nodes in reach: a byte-bounded LRU, blocks not yet durable, and open deliveries."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._recent: OrderedDict[Cid, bytes] = OrderedDict()
        self._pinned: dict[Cid, bytes] = {}
        self._requests: dict[Cid, int] = {}
        self._delivered: dict[Cid, bytes] = {}

    @property
    def bytes_held(self) -> int:
        """How many bytes the LRU holds; pinned blocks and deliveries come on top."""
        return self._bytes

    def get(self, cid: Cid) -> bytes | None:
        """The bytes of `cid` if they are in reach."""
        data = self._recent.get(cid)
        if data is not None:
            self._recent.move_to_end(cid)
            return data
        data = self._pinned.get(cid)
        return data if data is not None else self._delivered.get(cid)

    def add(self, nodes: Mapping[Cid, bytes]) -> None:
        """Take nodes read from the CAS; each must hash to its CID."""
        for cid, data in nodes.items():
            check_cid(cid, data)
            if cid in self._requests:
                self._delivered[cid] = data
            self._remember(cid, data)

    def pin(self, blocks: Mapping[Cid, bytes]) -> None:
        """Keep new blocks in reach until they are durable."""
        self._pinned.update(blocks)

    def unpin(self, cids: Iterable[Cid]) -> None:
        """These blocks are durable now: from here on they may be evicted like any other node."""
        for cid in cids:
            data = self._pinned.pop(cid, None)
            if data is not None:
                self._remember(cid, data)

    def evict(self) -> None:
        """Forget everything that can be read again."""
        self._recent.clear()
        self._bytes = 0

    def request(self, cids: Iterable[Cid]) -> None:
        """Hold what is delivered for `cids` until `settle`."""
        for cid in cids:
            self._requests[cid] = self._requests.get(cid, 0) + 1

    def settle(self, cids: Iterable[Cid]) -> None:
        """End a request; the last one to end lets the delivery go."""
        for cid in cids:
            waiting = self._requests[cid] - 1
            if waiting:
                self._requests[cid] = waiting
            else:
                del self._requests[cid]
                self._delivered.pop(cid, None)

    def _remember(self, cid: Cid, data: bytes) -> None:
        if len(data) > self._bytes_max or cid in self._recent:
            return
        self._recent[cid] = data
        self._bytes += len(data)
        while self._bytes > self._bytes_max:
            _, oldest = self._recent.popitem(last=False)
            self._bytes -= len(oldest)


def fetch(nodes: Nodes, cids: Iterable[Cid]) -> Generator[Need, None, dict[Cid, bytes]]:
    """The bytes of all `cids`; yields one `Need` for those that are not in reach."""
    cids = tuple(cids)
    found = yield from fetch_present(nodes, cids, is_optional=False)
    for cid in cids:
        if cid not in found:
            raise Corrupted("kernel.node_missing", "node {cid} is not in the CAS", cid=str(cid))
    return found


def fetch_present(
    nodes: Nodes, cids: Iterable[Cid], *, is_optional: bool = True
) -> Generator[Need, None, dict[Cid, bytes]]:
    """The bytes of those of `cids` that exist."""
    found: dict[Cid, bytes] = {}
    missing: list[Cid] = []
    for cid in cids:
        data = nodes.get(cid)
        if data is None:
            missing.append(cid)
        else:
            found[cid] = data
    if not missing:
        return found
    wanted = tuple(dict.fromkeys(missing))
    nodes.request(wanted)
    try:
        yield Need(wanted, is_optional)
        for cid in wanted:
            data = nodes.get(cid)
            if data is not None:
                found[cid] = data
    finally:
        nodes.settle(wanted)
    return found


def drive(
    walk: Generator[Need | Pause, None, T],
    nodes: Nodes,
    read: Callable[[tuple[Cid, ...]], Mapping[Cid, bytes]],
) -> T:
    """Run a walk to its end with a reader that answers at once; what it leaves out does not exist."""
    while True:
        try:
            step = next(walk)
        except StopIteration as end:
            result: T = end.value
            return result
        if isinstance(step, Need):
            nodes.add(read(step.cids))
