"""What is kept: when snapshots are taken and frames leave the rows (a node's), and for how long (a world's).

w/<universe>/<world>/retention    {history: "keep" | "drop", snapshots}
retention/<universe>/<world>      counter: whether there is such a row
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args
from uuid import UUID

from cellule.errors import CelluleError, Corrupted, Rejected
from cellule.host.limits import (
    SNAPSHOT_RESTORE_S,
    SNAPSHOT_TAIL_BYTES,
    SNAPSHOTS_KEPT,
    SNAPSHOTS_KEPT_MAX,
    TAIL_RECORDS,
    TAIL_S,
)
from cellule.host.own.counted_rows import check_counted, set_counted
from cellule.host.own.directory import WorldInfo, lost_row
from cellule.store import keys
from cellule.store.engine import Engine
from cellule.values.cbor import decode, encode
from cellule.values.words import printed

KeptHistory = Literal["keep", "drop"]


@dataclass(frozen=True, slots=True)
class StoragePolicy:
    """When a node takes snapshots, and which frames stay in rows."""

    snapshot_bytes: int = SNAPSHOT_TAIL_BYTES  # of frames since the last snapshot
    snapshot_restore_s: float = SNAPSHOT_RESTORE_S  # or when opening the world again would take longer
    snapshot_every_s: float | None = None  # or so long after the last one, if anything has happened since
    tail_records: int = TAIL_RECORDS  # of each world; older ones are in segments
    tail_s: float = TAIL_S  # and records that are older than this


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept of one world: its history for ever, or from the oldest kept snapshot on."""

    history: KeptHistory = "keep"
    snapshots: int = SNAPSHOTS_KEPT

    def __post_init__(self) -> None:
        given: Any = self.history
        history = str.__str__(given) if isinstance(given, str) else None
        if history not in get_args(KeptHistory):
            raise Rejected(
                "host.retention_history", "history is {history}; it is keep or drop",
                history=printed(given),
                hint="keep: for ever. drop: what the oldest kept snapshot does not need goes.",
            )  # fmt: skip
        if type(self.snapshots) is not int or not 1 <= self.snapshots <= SNAPSHOTS_KEPT_MAX:
            raise Rejected(
                "host.retention_snapshots", "a world keeps 1 to {most} snapshots, not {count}",
                most=SNAPSHOTS_KEPT_MAX, count=printed(self.snapshots),
            )  # fmt: skip

        object.__setattr__(self, "history", history)

    def row(self) -> bytes:
        """As the store holds it."""
        return encode({"history": self.history, "snapshots": self.snapshots})

    @classmethod
    def of_row(cls, stored: bytes | None) -> Retention:
        """Read a stored row; without one everything is as usual."""
        if stored is None:
            return cls()
        try:
            row: Any = decode(stored)
            return cls(row["history"], row["snapshots"])
        except (CelluleError, LookupError, TypeError) as error:
            raise Corrupted(
                "host.retention_damaged", "what a world keeps cannot be read: {why}", why=error,
                hint="Nothing is dropped. Set it again: cellule world retention NAME --history keep",
            ) from error  # fmt: skip


async def read_retention(engine: Engine, universe: UUID, world: UUID) -> Retention:
    """What is kept of a world."""
    count = keys.row_count("retention", universe, world)
    row, counted = await engine.read([keys.world_retention(universe, world), count])
    return Retention.of_row(check_counted(row, counted, f"the row of what world {world} keeps"))


async def write_retention(engine: Engine, info: WorldInfo, retention: Retention) -> None:
    """Say what is kept of a world that is there; `Gone` where it was deleted."""
    universe, world = info.universe, info.id
    listing = keys.universe_world(universe, world)
    [listed] = await engine.read([listing])
    if listed is None:
        raise await lost_row(engine, info, "its row in the list of worlds")
    key, count = keys.world_retention(universe, world), keys.row_count("retention", universe, world)
    await set_counted(engine, key, retention.row(), count, {listing: listed})
