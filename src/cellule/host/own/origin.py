"""Where a world was forked, as its rows say it.

from = {beat, frame, lineage: [[world, last], ...]}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from cellule.kernel.lineage import Ancestor


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a world was forked: after this beat, whose frame has this digest, with this history."""

    ancestors: tuple[Ancestor, ...]
    beat: int
    frame: bytes | None

    @property
    def height(self) -> int:
        """The height it was forked at: its own records come above."""
        return self.ancestors[-1].last

    def row(self) -> dict[str, Any]:
        """What a world's rows say of it."""
        lineage = [[each.world.bytes, each.last] for each in self.ancestors]
        return {"beat": self.beat, "frame": self.frame, "lineage": lineage}

    @classmethod
    def of_row(cls, row: Any) -> Origin:
        """Read what a world's row says."""
        lineage = tuple(Ancestor(UUID(bytes=world), last) for world, last in row["lineage"])
        return cls(lineage, row["beat"], row["frame"])
