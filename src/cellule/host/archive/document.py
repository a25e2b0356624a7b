"""What an exported world says about itself: the root block of its file.

    {kind: "cellule/world", format: 0, name, world, created_ns, from, made_ns, first, baseline,
     head: {beat, frame, height, wake}, snapshots: [[height, Link]], pages: [[last, Link]]}

    page = [[last, Link(frame)]]      frames by their last heights, each a block of its own

`first` is the oldest height that is in the file. `from` says where the world was forked, as its row does.
Every field of a foreign file is proven before it is used; what the frames say is proven by who imports them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from cellule.host.archive.fields import bytes_of, count_of, text_of, wrong
from cellule.host.journal import Head
from cellule.host.limits import LINEAGE_MAX, SNAPSHOTS_KEPT_MAX
from cellule.host.own.origin import Origin
from cellule.kernel.lineage import Lineage
from cellule.kernel.state.branch import EFFECTS
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid
from cellule.values.link import Link, Value

KIND = "cellule/world"
FORMAT = 0
PAGE_FRAMES = 500

_FIELDS = {
    "kind", "format", "name", "world", "created_ns", "from", "made_ns", "first", "baseline", "head",
    "snapshots", "pages",
}  # fmt: skip
_ORIGIN_FIELDS = {"beat", "effects", "frame", "lineage", "live", "who", "why"}


@dataclass(frozen=True, slots=True)
class WorldDocument:
    """An exported world."""

    name: str
    world: UUID
    created_ns: int
    origin: Origin | None
    made_ns: int
    first: int
    baseline: int
    head: Head
    snapshots: tuple[tuple[int, Cid], ...]
    pages: tuple[tuple[int, Cid], ...]

    @property
    def lineage(self) -> Lineage:
        """The world and those it was forked from."""
        return Lineage(self.world, () if self.origin is None else self.origin.ancestors)

    @property
    def needed(self) -> set[Cid]:
        """What it needs beside its frames: snapshots, and the answers that a fork was given."""
        answers = None if self.origin is None else self.origin.answers
        return {cid for _, cid in self.snapshots} | (set() if answers is None else {answers[0]})

    def encode(self) -> bytes:
        """The root block."""
        head = self.head
        return encode({
            "kind": KIND, "format": FORMAT, "name": self.name, "world": self.world.bytes,
            "created_ns": self.created_ns, "from": None if self.origin is None else self.origin.row(),
            "made_ns": self.made_ns, "first": self.first, "baseline": self.baseline,
            "head": {"beat": head.beat, "frame": head.frame, "height": head.height, "wake": head.wake_ns},
            "snapshots": _listed(self.snapshots), "pages": _listed(self.pages),
        })  # fmt: skip

    @classmethod
    def of_block(cls, data: bytes) -> WorldDocument:
        """Read the root block of a file; `Rejected` with the field that does not fit."""
        value: Any = decode(data)
        if not isinstance(value, dict) or value.get("kind") != KIND:
            raise wrong("kind", f"it is not {KIND}")
        if value.get("format") != FORMAT:
            raise wrong("format", f"it is {value.get('format')!r}; this Cellule reads {FORMAT}")
        if set(value) != _FIELDS:
            raise wrong("fields", f"they are {', '.join(sorted(map(str, value)))}")
        head = value["head"]
        if not isinstance(head, dict) or set(head) != {"beat", "frame", "height", "wake"}:
            raise wrong("head", "it has other fields")
        world = UUID(bytes=bytes_of(value, "world", 16))
        found = cls(
            text_of(value, "name"), world, count_of(value, "created_ns"), _origin(value["from"], world),
            count_of(value, "made_ns"), count_of(value, "first"), count_of(value, "baseline"),
            Head(
                count_of(head, "height"), count_of(head, "beat"),
                None if head["frame"] is None else bytes_of(head, "frame", 32),
                None if head["wake"] is None else count_of(head, "wake"),
            ),
            _places(value, "snapshots"), _places(value, "pages"),
        )  # fmt: skip
        found._check()
        return found

    def _check(self) -> None:
        heights = [height for height, _ in self.snapshots]
        if not 1 <= len(heights) <= 2 * SNAPSHOTS_KEPT_MAX or self.baseline not in heights:
            raise wrong("snapshots", "the baseline is not one of them, or they are too many")
        if max(heights) > self.head.height:
            raise wrong("snapshots", "one is of a height above the head")
        start = 0 if self.origin is None else self.origin.height
        if not start < self.first <= self.baseline + 1:
            raise wrong("first", "the frames do not reach from the baseline to the head")


def page_block(frames: list[tuple[int, Cid]]) -> bytes:
    """The block of one page."""
    return encode(_listed(frames))


def read_page(data: bytes) -> tuple[tuple[int, Cid], ...]:
    """The frames of one page: last heights and blocks."""
    return _places({"page": decode(data)}, "page")


def _listed(places: Any) -> Value:
    return [[height, Link(cid)] for height, cid in places]


def _places(value: dict[str, Any], field: str) -> tuple[tuple[int, Cid], ...]:
    found = []
    listed = value[field]
    for each in listed if isinstance(listed, list) else [None]:
        match each:
            case [int(height), Link() as link] if height >= 0 and type(height) is int:
                found.append((height, link.cid))
            case _:
                raise wrong(field, "it is no list of heights and links")
    heights = [height for height, _ in found]
    if heights != sorted(set(heights)):
        raise wrong(field, "its heights do not ascend")
    return tuple(found)


def _origin(row: Any, world: UUID) -> Origin | None:
    """Where the world was forked; a row of the store will say the same, so all of it is proven."""
    if row is None:
        return None
    try:
        found = Origin.of_row(row)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise wrong("from", f"it cannot be read: {error}") from error
    is_known = found.effects in EFFECTS and type(found.live) is bool
    if set(row) - {"answers"} != _ORIGIN_FIELDS or not is_known:
        raise wrong("from", "it has other fields, or does not say what a fork does")
    for field in ("who", "why"):
        text_of(row, field)
    count_of(row, "beat")
    if found.frame is not None:
        bytes_of(row, "frame", 32)
    if found.answers is not None:
        count_of({"answers": found.answers[1]}, "answers")
    heights = [count_of({"lineage": each.last}, "lineage") for each in found.ancestors]
    if not 1 <= len(heights) <= LINEAGE_MAX or heights != sorted(heights):
        raise wrong("from", "its lineage is none, too long, or its heights do not ascend")
    if world in {each.world for each in found.ancestors}:
        raise wrong("from", "the world is among those that it was forked from")
    return found
