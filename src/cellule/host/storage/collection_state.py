"""How far the collection of a universe is: one row, which every write of the collector expects.

    u/<universe>/collection =
        {advanced_ns, at, counts, ended_ns, generation, moved_ns, phase, run, started_ns}

`run` is of the process that collects. Another one may go on with it once the row has not moved for a while:
marks are rows, and what was reached stays reached. So there is one collector at a time, and a crash costs the
page it was at.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from cellule.errors import CelluleError, Corrupted
from cellule.values.cbor import decode, encode

MARK: Final = "mark"
SWEEP: Final = "sweep"
ORPHANS: Final = "orphans"
DONE: Final = "done"
PHASES: Final = (MARK, SWEEP, ORPHANS, DONE)


@dataclass(slots=True)
class Counts:
    """What a collection found, in objects and their bytes."""

    kept: int = 0
    kept_bytes: int = 0
    removed: int = 0
    removed_bytes: int = 0
    waiting: int = 0  # linked by nothing, and not old enough
    waiting_bytes: int = 0
    orphans: int = 0  # bodies whose object went, or never came
    dangling: int = 0  # links in values of users to what is not stored


@dataclass(frozen=True, slots=True)
class CollectionState:
    """The row."""

    generation: int
    run: bytes
    started_ns: int
    moved_ns: int
    advanced_ns: int
    phase: str = MARK
    at: str = ""
    ended_ns: int | None = None
    counts: Counts = field(default_factory=Counts)

    def row(self) -> bytes:
        """As the store holds it."""
        return encode(asdict(self))

    @classmethod
    def of_row(cls, stored: bytes) -> CollectionState:
        """Read a stored row; `Corrupted` where it is none."""
        try:
            row: Any = decode(stored)
            found = cls(**{**row, "counts": Counts(**row["counts"])})
            if found.phase not in PHASES:
                raise ValueError(f"there is no phase {found.phase}")
        except (CelluleError, LookupError, TypeError, ValueError) as error:
            raise Corrupted(
                "host.collection_damaged", "the row of the collection cannot be read: {why}", why=error,
                hint="Nothing is collected. Run `cellule check`, and restore a backup.",
            ) from error  # fmt: skip
        return found

    def moved(self, now_ns: int, **changes: Any) -> CollectionState:
        """The state after one more page."""
        return replace(self, moved_ns=now_ns, **changes)
