"""What the outbox holds, for people: every row with what is being done about it and why it waits.

The store is the truth, so any process can list; states that only the pool knows (running, no adapter) are
there where a pool is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from cellule.errors import Corrupted, Rejected
from cellule.host.outbox.limits import LIST_MAX, SCAN_PAGE
from cellule.host.outbox.pool import Pool
from cellule.host.outbox.rows import Row, read_row, rows_range, shard_range
from cellule.kernel.state.intent_id import intent_text
from cellule.sources import Clock
from cellule.store import keys
from cellule.store.engine import Engine


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


class RowPage(NamedTuple):
    """Some rows; `cursor` continues behind them, None at the end."""

    rows: list[ListedRow]
    cursor: bytes | None


async def list_rows(
    engine: Engine, clock: Clock, *, world: UUID | None = None, pool: Pool | None = None,
    after: bytes | None = None, limit: int = 100,
) -> RowPage:  # fmt: skip
    """Up to `limit` rows of the outbox, of one world or of all, behind a cursor; by priority, then time."""
    if not 1 <= limit <= LIST_MAX:
        raise Rejected(
            "effects.list_limit", "a page has 1 to {most} rows, not {limit}", limit=limit, most=LIST_MAX
        )
    begin, end = rows_range() if world is None else shard_range(keys.shard_of(world))
    begin = begin if after is None else after + b"\0"
    found: list[ListedRow] = []
    while True:
        page = await engine.scan(begin, end, limit=SCAN_PAGE)
        for at, value in page.items:
            listed = _listed(at, value, clock.now_ns(), pool)
            if world is not None and (listed.row is None or listed.row.world != world):
                continue
            found.append(listed)
            if len(found) == limit:
                return RowPage(found, at)
        if not page.more:
            return RowPage(found, None)
        begin = page.items[-1][0] + b"\0"


async def find_row(engine: Engine, clock: Clock, intent: bytes, pool: Pool | None = None) -> ListedRow | None:
    """The row of one intent, None if it has none."""
    [at] = await engine.read([keys.effect_at(intent)])
    if at is None:
        return None
    [value] = await engine.read([at])
    return None if value is None else _listed(at, value, clock.now_ns(), pool)


def _listed(at: bytes, value: bytes, now_ns: int, pool: Pool | None) -> ListedRow:
    try:
        row = read_row(at, value).row
    except Corrupted as error:
        return ListedRow(at, None, "unreadable", str(error))
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
