"""What the outbox holds, for people: the row of an intent with what is being done about it and why it waits.

The store is the truth, so any process can look; states that only the pool knows (running, no adapter) are
there where a pool is given.
"""

from __future__ import annotations

from dataclasses import dataclass

from cellule.errors import Corrupted
from cellule.host.outbox.pool import Pool
from cellule.host.outbox.rows import Row, read_row
from cellule.kernel.state.intent_id import intent_text
from cellule.sources import Clock
from cellule.store import keys
from cellule.store.engine import Engine
from cellule.store.sound_scan import sound_read


@dataclass(frozen=True, slots=True)
class ListedRow:
    """One row: `state` is waiting, running, retrying, no adapter or unreadable; `reason` says more."""

    at: bytes
    row: Row | None
    state: str
    reason: str

    @property
    def intent(self) -> str:
        """The id of the intent as text; empty where the row cannot be read."""
        return "" if self.row is None else intent_text(self.row.intent)


async def find_row(engine: Engine, clock: Clock, intent: bytes, pool: Pool | None = None) -> ListedRow | None:
    """The row of one intent, None if it has none; a damaged one is unreadable, and stops nobody."""
    place = keys.effect_at(intent)
    [at], damaged = await sound_read(engine, [place])
    if at is not None:
        [value], damaged = await sound_read(engine, [at])
        if value is not None:
            return _listed(at, value, clock.now_ns(), pool)
    return next((_unreadable(key, error) for key, error in damaged.items()), None)


def _listed(at: bytes, value: bytes, now_ns: int, pool: Pool | None) -> ListedRow:
    try:
        row = read_row(at, value).row
    except Corrupted as error:
        return _unreadable(at, error)
    state = None if pool is None else pool.state(row.intent)
    if state in ("checked", "running"):
        return ListedRow(
            at, row, "running", f"attempt {row.tried + 1}" + (f" of {row.attempts}" if row.attempts else "")
        )
    if state == "settling":
        return ListedRow(at, row, "running", "its outcome is being written")
    if pool is not None and not pool.has_adapter(row.kind):
        return ListedRow(at, row, "no adapter", f"no adapter for {row.kind} on this node")
    if row.tried:
        return ListedRow(at, row, "retrying", row.error or "")
    late = "for a free place of its adapter" if row.ready_ns <= now_ns else "for its time"
    return ListedRow(at, row, "waiting", late)


def _unreadable(at: bytes, error: Corrupted) -> ListedRow:
    return ListedRow(at, None, "unreadable", str(error))
