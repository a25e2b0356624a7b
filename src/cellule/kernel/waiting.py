"""Why a cell waits: every cell that exists has a named reason, and `find_stuck` proves it for a snapshot.

    an event             it has taken all its messages; the next event makes it step
    its turn             it has messages and runs in the next beat
    the world is paused  it has messages, and no step runs until the world is resumed
    halted               a step failed; `cell resume` lets it run again
    needs migration      its era does not take a message; `cell migrate` moves it

A cell with messages that is neither stopped nor in its turn in a world that is not paused would wait for ever
without anybody knowing. There must be none.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from cellule.errors import Corrupted
from cellule.kernel.cells import Entry, unpack
from cellule.kernel.index.compare import pages
from cellule.kernel.need import Need, Nodes, fetch
from cellule.values.cbor import decode_trusted

PAGE = 1_000

EVENT = "an event"
TURN = "its turn"
PAUSED = "the world is paused"


@dataclass(frozen=True, slots=True)
class Reason:
    """What a cell waits for; `since` is the height of the step that stopped it, 0 where none did."""

    what: str
    since: int = 0
    code: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class WaitingCell:
    """A cell that has something to do, and what it waits for; None is the reason there must never be."""

    module: str
    key: bytes
    messages: int
    reason: Reason | None


def reason_of(entry: Entry, *, is_ready: bool, paused: bool) -> Reason | None:
    """What a cell waits for. `is_ready`: the world's ring holds it."""
    more = entry[6] or {}
    if "status" in more:
        return Reason(more["status"], more["since"], more["code"], more["text"])
    if "queue" not in more:
        return Reason(EVENT)
    if paused:
        return Reason(PAUSED)
    return Reason(TURN) if is_ready else None


def find_waiting(snapshot: dict[str, Any], nodes: Nodes) -> Generator[Need, None, list[WaitingCell]]:
    """All cells of a decoded snapshot that have messages or are stopped, with their reasons."""
    ready = yield from _ready(snapshot, nodes)
    found: list[WaitingCell] = []
    for base, (link, _) in snapshot["modules"].items():
        cursor: bytes | None = b""
        while cursor is not None:
            page = yield from pages(link.cid, cursor, PAGE, nodes)
            for key, value in page.entries:
                entry = unpack(value)
                if entry[6] is not None and ("status" in entry[6] or "queue" in entry[6]):
                    reason = reason_of(entry, is_ready=(base, key) in ready, paused=snapshot["paused"])
                    count = yield from _messages(entry, nodes)
                    found.append(WaitingCell(base, key, count, reason))
            cursor = page.cursor
    return found


def find_stuck(snapshot: dict[str, Any], nodes: Nodes) -> Generator[Need, None, list[WaitingCell]]:
    """The cells of a decoded snapshot that wait for no named reason; there must be none."""
    waiting = yield from find_waiting(snapshot, nodes)
    return [cell for cell in waiting if cell.reason is None]


def _ready(snapshot: dict[str, Any], nodes: Nodes) -> Generator[Need, None, set[tuple[str, bytes]]]:
    link = snapshot["ready"]
    if link is None:
        return set()
    found = yield from fetch(nodes, (link.cid,))
    rows: Any = decode_trusted(found[link.cid])
    return {(base, key) for base, key in rows}


def _messages(entry: Entry, nodes: Nodes) -> Generator[Need, None, int]:
    queue = (entry[6] or {}).get("queue", ())
    if isinstance(queue, list | tuple):
        return len(queue)
    found = yield from fetch(nodes, (queue.cid,))
    rows: Any = decode_trusted(found[queue.cid])
    if not isinstance(rows, list):
        raise Corrupted("kernel.message_damaged", "a stored message is not a list of 6: {found}", found=rows)
    return len(rows)
