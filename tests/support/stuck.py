"""Cells of a snapshot that wait, with their reasons; none may wait for no named one."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from cellule.kernel.index.read import scan
from cellule.kernel.need import Need, Nodes
from cellule.kernel.state import lists, rows
from cellule.kernel.state.cells import unpack
from cellule.kernel.state.heartbeat_part import open_index
from cellule.kernel.state.wait_reasons import Reason, _Indexes, reason_of

PAGE = 1_000
_BUSY = frozenset(("status", "queue", "intents"))


@dataclass(frozen=True, slots=True)
class WaitingCell:
    """A cell that has something to do, and what it waits for; no reason is what there must never be."""

    module: str
    key: bytes
    messages: int
    reasons: tuple[Reason, ...]

    @property
    def reason(self) -> Reason | None:
        """The first reason."""
        return self.reasons[0] if self.reasons else None


def find_waiting(snapshot: dict[str, Any], nodes: Nodes) -> Generator[Need, None, list[WaitingCell]]:
    """All cells of a decoded snapshot that have messages, open intents or are stopped, with their reasons."""
    ready = yield from _ready(snapshot, nodes)
    held = yield from _held(snapshot, nodes, is_busy=bool(ready))
    moves = yield from lists.read("moves", snapshot.get("moves"), nodes)
    indexes = _Indexes(
        open_index(snapshot["intents"], nodes, rows.unpack_intent),
        open_index(snapshot["timers"], nodes, rows.unpack_timer),
    )
    found: list[WaitingCell] = []
    for base, (link, _) in snapshot["modules"].items():
        begin: bytes | None = b""
        while begin is not None:
            page = yield from scan(link.cid, begin, None, PAGE, nodes)
            begin = page[-1][0] + b"\0" if len(page) == PAGE else None
            for key, value in page:
                entry, cell = unpack(value), (base, key)
                if not _BUSY & set(entry.extras or ()):
                    continue
                reason = reason_of(
                    entry, is_ready=cell in ready, paused=snapshot["paused"], is_held=cell in held,
                    is_moving=base.encode() in moves,
                )  # fmt: skip
                reasons: tuple[Reason, ...] = () if reason is None else (reason,)
                if reason is None and entry.get("queue") is None:
                    reasons = yield from indexes.reasons(entry)
                found.append(WaitingCell(base, key, len(entry.get("queue", ())), reasons))
    return found


def _ready(snapshot: dict[str, Any], nodes: Nodes) -> Generator[Need, None, set[tuple[str, bytes]]]:
    ready = yield from lists.read("ready", snapshot["ready"], nodes)
    return {(base, key) for base, key in ready.values()}


def _held(
    snapshot: dict[str, Any], nodes: Nodes, *, is_busy: bool
) -> Generator[Need, None, set[tuple[str, bytes]]]:
    """The held cells that will run again: by receipts of their module, or beat by beat while others run."""
    held = yield from lists.read("held", snapshot["held"], nodes)
    opened = yield from lists.read("open", snapshot["budgets"]["open"], nodes)
    over = {name.decode() for name, (count, is_over) in opened.items() if is_over and count}
    return {(base, key) for base, key in held.values() if is_busy or base in over}


def find_stuck(snapshot: dict[str, Any], nodes: Nodes) -> Generator[Need, None, list[WaitingCell]]:
    """The cells of a decoded snapshot that wait for no named reason."""
    waiting = yield from find_waiting(snapshot, nodes)
    return [cell for cell in waiting if not cell.reasons]
