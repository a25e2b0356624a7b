"""Check: the chain of frames and the graph of nodes, without running anything.

`check_frames` proves that frames are canonical, contiguous and chained; `reachable` walks every link from
a root and proves that each node is there and is what its CID says; what only users' values link need not be
there. `check_snapshot` proves what the nodes
mean: every cell, timer, list and bucket is what it should be, and the lists agree with the cells.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from cellule.errors import Corrupted, Rejected
from cellule.kernel.index.check import check
from cellule.kernel.index.chunk import CELLS, LISTS
from cellule.kernel.index.keys import pair_of
from cellule.kernel.index.ordered import OrderedIndex
from cellule.kernel.journal.frame import Frame, decode_frame
from cellule.kernel.journal.links import tells_of_snapshot
from cellule.kernel.journal.records import ControlRecord
from cellule.kernel.need import Need, Nodes, fetch, fetch_present
from cellule.kernel.prove.check_intents import BookRows, wrong_book
from cellule.kernel.state import heartbeat_part, lists
from cellule.kernel.state.branch import ANSWER_KEY_BYTES, RECORDED, SCRIPTED, Branch
from cellule.kernel.state.cells import Entry, Extras, LongQueue
from cellule.kernel.state.heartbeat import Heartbeat
from cellule.kernel.state.ledger import Ledger, Target
from cellule.kernel.state.module_cells import Budget
from cellule.kernel.state.snapshot import load_snapshot
from cellule.kernel.state.snapshot_schema import KEY_BYTES
from cellule.values.cbor import decode, links_of
from cellule.values.cid import Cid
from cellule.values.link import Link

WALK_TOGETHER = 256  # nodes asked for at once
_PAGE = 1_000
Row = TypeVar("Row")


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


def reachable(
    roots: Iterable[Cid], nodes: Nodes, absent: set[Cid] | None = None
) -> Generator[Need, None, set[Cid]]:
    """All nodes reachable from `roots`; each is read, and so verified against its CID.

    What is not there is `Corrupted`. With `absent`, only a root is; other links that lead nowhere are put
    there: values of users may link what was never stored.
    """
    seen: set[Cid] = set()
    needed = set(roots)
    waiting = list(dict.fromkeys(needed))
    while waiting:
        together = tuple(cid for cid in waiting[:WALK_TOGETHER] if cid not in seen)
        waiting = waiting[WALK_TOGETHER:]
        seen.update(together)
        strict = together if absent is None else tuple(cid for cid in together if cid in needed)
        found = yield from fetch(nodes, strict)
        if absent is not None:
            found |= yield from fetch_present(nodes, together)
            absent.update(cid for cid in together if cid not in found)
        for cid, data in found.items():
            if cid.codec == "dag-cbor":
                waiting.extend(link for link in links_of(data) if link not in seen)
    return seen - (absent or set())


def needed_links(frame: Frame) -> Iterator[Cid]:
    """The blocks that a frame needs: what stands in a record as a link, not what its values link."""
    for record in frame.records:
        for field in () if tells_of_snapshot(record) or isinstance(record, ControlRecord) else record:
            parts = field.values() if isinstance(field, dict) else (field,)
            yield from (part.cid for part in parts if isinstance(part, Link))


def check_snapshot(cid: Cid, nodes: Nodes) -> Generator[Need, None, dict[str, int]]:
    """Prove every part of a snapshot, and that they fit each other; returns the cells of each module."""
    try:
        return (yield from _check_snapshot(cid, nodes))
    except Rejected as error:
        _damaged(cid, str(error))


def _check_snapshot(cid: Cid, nodes: Nodes) -> Generator[Need, None, dict[str, int]]:
    ledger = yield from load_snapshot(cid, nodes, Budget(), None)
    yield from _check_lists(cid, nodes)
    ready: set[Target] = set()
    stopped: set[Target] = set()
    lives = (yield from _check_book(cid, ledger, nodes)).of_lives()
    counts: dict[str, int] = {}
    for base, cells in ledger.modules.items():
        counts[base] = yield from check(cells.live.root, nodes, CELLS)
        begin: bytes | None = b""
        while begin is not None:
            page = yield from cells.live.scan(begin, None, _PAGE)
            begin = page.next
            for key, entry in page.entries:
                more = yield from _proven(cid, base, key, entry, ledger)
                # A stopped cell keeps its queue and is not ready, so one list excludes the other.
                if "status" in more:
                    stopped.add((base, key))
                elif "queue" in more:
                    ready.add((base, key))
                if more.get("intents", []) != lives.get((base, key, entry.born), []):
                    _damaged(cid, f"the open intents of {base} {key!r} are not those that it asked for")
        if counts[base] != cells.live.root_count:
            _damaged(cid, f"{base} has {counts[base]} cells, not {cells.live.root_count}")
    yield from _check_waiting(cid, ledger, nodes, ready, stopped)
    yield from ledger.dedupe.check(nodes)
    if ledger.heartbeat is not None:
        yield from _check_heartbeat(cid, ledger.heartbeat, nodes)
    return counts


def _check_waiting(
    cid: Cid, ledger: Ledger, nodes: Nodes, ready: set[Target], stopped: set[Target]
) -> Generator[Need, None, None]:
    """Prove the lists of what waits against the cells that have messages, and those that are stopped."""
    yield from _fetch_needed((message for message, _ in ledger.pending), nodes)
    yield from _rows(cid, "dead_letters", ledger.dead_letters, nodes)
    rows = yield from _rows(cid, "stopped", ledger.stopped, nodes)
    if {(row.module, row.key) for row in rows.values()} != stopped:
        _damaged(cid, "the list of stopped cells is not that of the cells")
    yield from _check_answers(cid, ledger.branch, nodes)
    # Held cells have messages, too; they are in no ring until their module is below its limit.
    ring = [(slot.cells.base, slot.key) for slot in ledger.ring]
    ring += [(base, key) for base, keys in ledger.held.items() for key in keys]
    if len(ring) != len(ready) or set(ring) != ready:
        _damaged(cid, "the list of ready cells is not that of the cells with messages")
    for base in ledger.moves:
        if (yield from ledger.cells(base).live.load([b""]))[b""] is None:
            _damaged(cid, f"the map of {base}, which becomes cells, is not there")


def _check_heartbeat(cid: Cid, heartbeat: Heartbeat, nodes: Nodes) -> Generator[Need, None, None]:
    """Prove the indexes of the heartbeat, and that they fit each other."""
    for name, index, _ in heartbeat_part.indexes(heartbeat):
        if (yield from check(index.root, nodes, LISTS)) != index.root_count:
            _damaged(cid, f"{name} does not have {index.root_count} rows")
    wrong = yield from heartbeat_part.wrong_part(heartbeat)
    if wrong is not None:
        _damaged(cid, wrong)


def _check_answers(cid: Cid, branch: Branch | None, nodes: Nodes) -> Generator[Need, None, None]:
    """Prove the answers that a fork has left."""
    if branch is None:
        return
    rows = yield from _rows(cid, "fork.answers", branch.answers, nodes, ANSWER_KEY_BYTES)
    if branch.effects not in (RECORDED, SCRIPTED) and rows:
        _damaged(cid, f"a fork that has the effects {branch.effects} has answers")


def _check_lists(cid: Cid, nodes: Nodes) -> Generator[Need, None, None]:
    """Prove the indexes of the lists that were read whole: opening a world does not look where chunks end."""
    found = yield from fetch(nodes, (cid,))
    saved: Any = decode(found[cid])
    for _, part in lists.parts_of(saved):
        if part is not None:
            yield from check(part[0].cid, nodes, LISTS)


def _check_book(cid: Cid, ledger: Ledger, nodes: Nodes) -> Generator[Need, None, BookRows]:
    """Read and prove what a snapshot tells of intents, timers and idempotency keys."""
    book = ledger.book
    intents = yield from _rows(cid, "intents", book.open, nodes)
    timers = yield from _rows(cid, "timers", ledger.timers, nodes)
    keys = yield from _rows(cid, "idempotency.keys", book.keys, nodes)
    ages = yield from _rows(cid, "idempotency.ages", book.ages, nodes)
    rows = BookRows({pair_of(key)[0]: intent for key, intent in intents.items()}, timers, keys, ages)
    wrong = wrong_book(book, rows)
    if wrong is not None:
        _damaged(cid, wrong)
    if max((*rows.intents, *(pair_of(key)[1] for key in timers)), default=0) > ledger.height:
        _damaged(cid, f"an intent or timer is of a record above height {ledger.height}")
    return rows


def _size(entry: Entry, nodes: Nodes) -> Generator[Need, None, int]:
    """How many bytes the state has, with what is linked."""
    parts: list[Any] = [*entry.get("log", ()), *(() if entry.state is None else (entry.state,))]
    found = yield from fetch(nodes, tuple(part.cid for part in parts if isinstance(part, Link)))
    return sum(len(found[part.cid] if isinstance(part, Link) else part) for part in parts)


def _proven(cid: Cid, base: str, key: bytes, entry: Entry, ledger: Ledger) -> Generator[Need, None, Extras]:
    """What an entry holds besides its state; the values in it are proven to be canonical bytes."""
    if entry.era >= len(ledger.eras):
        _damaged(cid, f"{base} {key!r} is of era {entry.era}, which is not in the table")
    if max(entry.born, entry.last) > ledger.height:
        _damaged(cid, f"{base} {key!r} has a step above height {ledger.height}")
    if entry.size != (yield from _size(entry, ledger.nodes)):
        _damaged(cid, f"the state of {base} {key!r} does not have {entry.size} bytes")
    more = entry.extras or {}
    queue = more.get("queue", ())
    if isinstance(queue, LongQueue):
        yield from check(queue.root, ledger.nodes, LISTS)
        queue = yield from queue.messages(ledger.nodes)
    for data in (entry.state, *(message.value for message in queue)):
        if isinstance(data, bytes):
            decode(data)
    yield from _fetch_needed(queue, ledger.nodes)
    return more


def _fetch_needed(parts: Iterable[Any], nodes: Nodes) -> Generator[Need, None, None]:
    """Read the blocks that parts of a snapshot keep their values in; what the values link is not needed."""
    cids = tuple(dict.fromkeys(_links_in(list(parts))))
    for at in range(0, len(cids), WALK_TOGETHER):
        yield from fetch(nodes, cids[at : at + WALK_TOGETHER])


def _links_in(part: Any) -> Iterator[Cid]:
    """The links in rows and messages, but those of values that stand there in an envelope."""
    if isinstance(part, Link):
        yield part.cid
    elif isinstance(part, dict):
        for each in part.values():
            yield from _links_in(each)
    elif isinstance(part, list | tuple) and not _is_envelope(part):
        for each in part:
            yield from _links_in(each)


def _is_envelope(part: Sequence[Any]) -> bool:
    return len(part) in (2, 3) and isinstance(part[0], bytes) and isinstance(part[1], list)


def _rows(
    cid: Cid, name: str, index: OrderedIndex[Row], nodes: Nodes, key_bytes: int = KEY_BYTES
) -> Generator[Need, None, dict[bytes, Row]]:
    """All rows of a list, each proven as it is read."""
    yield from check(index.root, nodes, LISTS)
    rows: dict[bytes, Row] = {}
    begin = b""
    while True:
        page = yield from index.scan(begin, None, _PAGE)
        rows.update(page)
        if len(page) < _PAGE:
            break
        begin = page[-1][0] + b"\0"
    if not all(len(key) == key_bytes for key in rows):
        _damaged(cid, f"a key of {name} does not have {key_bytes} bytes")
    if len(rows) != index.root_count:
        _damaged(cid, f"{name} has {len(rows)} rows, not {index.root_count}")
    yield from _fetch_needed(rows.values(), nodes)
    return rows


def _damaged(cid: Cid, what: str) -> NoReturn:
    raise Corrupted("kernel.snapshot_damaged", "snapshot {cid}: {what}", cid=str(cid), what=what)
