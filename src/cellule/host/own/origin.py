"""Where a world was forked and how it deals with the outside, as its rows say it.

    from = {answers?: [root, count], beat, effects, frame, lineage: [[world, last], ...], live, who, why}

The journal says the same once the fork has had its first beat; until then these rows do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from cellule.kernel.items import ForkItem
from cellule.kernel.lineage import Ancestor
from cellule.kernel.state.branch import DROP
from cellule.values.cid import Cid
from cellule.values.link import Link


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a world was forked: after this beat, whose frame has this digest, with this history."""

    ancestors: tuple[Ancestor, ...]
    beat: int
    frame: bytes | None
    effects: str = DROP
    live: bool = False
    who: str = ""
    why: str = ""
    answers: tuple[Cid, int] | None = None  # the root of their index, and how many they are

    @property
    def height(self) -> int:
        """The height it was forked at: its own records come above."""
        return self.ancestors[-1].last

    @property
    def parent(self) -> UUID:
        """The world it was forked from."""
        return self.ancestors[-1].world

    def item(self) -> ForkItem:
        """What its first beat is told."""
        return ForkItem(
            self.parent.bytes, self.height, self.effects, self.live, self.who, self.why, self.answers
        )

    def row(self) -> dict[str, Any]:
        """What a world's rows say of it."""
        row: dict[str, Any] = {
            "beat": self.beat, "effects": self.effects, "frame": self.frame, "live": self.live,
            "lineage": [[each.world.bytes, each.last] for each in self.ancestors], "who": self.who,
            "why": self.why,
        }  # fmt: skip
        if self.answers is not None:
            row["answers"] = [Link(self.answers[0]), self.answers[1]]
        return row

    @classmethod
    def of_row(cls, row: Any) -> Origin:
        """Read what a world's row says."""
        lineage = tuple(Ancestor(UUID(bytes=world), last) for world, last in row["lineage"])
        given = row.get("answers")
        answers = None if given is None else (given[0].cid, given[1])
        return cls(
            lineage, row["beat"], row["frame"], row["effects"], row["live"], row["who"], row["why"], answers
        )
