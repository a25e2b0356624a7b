"""What differs between two points of worlds: cells, field by field, and the effects that only one asked for.

The indexes of cells are compared by their roots, so parts that both share are not read: it takes as long as
there are differences, however large the worlds are. A cell differs if its state, what it waits for, or why it
stopped does; which steps led there does not count. Effects are compared since the last height that both
histories share.

Rejected: comparing journals. Two worlds may come to the same state by other ways, and that is no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from cellule.host.branches.point import WorldPoint, common_height, driven
from cellule.host.read.record_view import shown
from cellule.kernel.index.compare import diff
from cellule.kernel.journal.records import IntentRecord
from cellule.kernel.manifest.model import TIMER_SET
from cellule.kernel.need import Nodes
from cellule.kernel.state.cells import Entry, unpack
from cellule.kernel.state.intent_id import params_digest
from cellule.values.envelope import value_of
from cellule.values.link import Link

CELLS_MAX: Final = 10_000  # cells of one difference
EFFECTS_MAX: Final = 10_000  # effects of one difference
FRAMES_MAX: Final = 100_000  # frames of each side that are looked through for effects
FIELDS_MAX: Final = 100  # fields that are told of one cell
_PAGE: Final = 1_000
_NODES_BYTES: Final = 64_000_000


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One field of a cell: where it is, and its value on both sides, as JSON data."""

    path: str
    left: Any
    right: Any


@dataclass(frozen=True, slots=True)
class CellDifference:
    """A cell that is not the same: `added` is only on the right, `removed` only on the left."""

    module: str
    key: bytes
    change: str
    fields: tuple[FieldDifference, ...]


@dataclass(frozen=True, slots=True)
class EffectDifference:
    """An effect that only one side asked for; `params` is JSON data."""

    side: str
    height: int
    kind: str
    module: str
    key: bytes
    params: Any


@dataclass(frozen=True, slots=True)
class WorldDifference:
    """What differs. `common` is the last height of both histories; `complete` is False beyond a limit."""

    left: str
    left_height: int
    right: str
    right_height: int
    common: int
    cells: tuple[CellDifference, ...]
    effects: tuple[EffectDifference, ...]
    complete: bool

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not self.cells and not self.effects and self.complete


async def difference_of(left: WorldPoint, right: WorldPoint) -> WorldDifference:
    """Compare two points."""
    cells: list[CellDifference] = []
    is_whole = True
    async for module, key, before, after in changed_cells(left, right):
        found = await _cell(left, right, module, key, before, after)
        if found is None:
            continue
        if len(cells) == CELLS_MAX:
            is_whole = False
            break
        cells.append(found)
    common = common_height(left, right)
    one, one_whole = await _asked(left, common)
    other, other_whole = await _asked(right, common)
    effects = [*await _only("left", left, one, other), *await _only("right", right, other, one)]
    complete = is_whole and one_whole and other_whole and len(effects) <= EFFECTS_MAX
    return WorldDifference(
        left.name, left.height, right.name, right.height, common, tuple(cells), tuple(effects[:EFFECTS_MAX]),
        complete,
    )  # fmt: skip


async def changed_cells(left: WorldPoint, right: WorldPoint) -> Any:
    """All cells whose entries differ: module, key, and both entries; None where there is no cell."""
    roots = [(await point.snapshot())["modules"] for point in (left, right)]
    nodes = Nodes(_NODES_BYTES)
    for module in sorted(roots[0].keys() | roots[1].keys()):
        old, new = (None if module not in each else each[module][0].cid for each in roots)
        begin: bytes | None = b""
        while begin is not None:
            page = await driven(diff(old, new, nodes, begin=begin, limit=_PAGE), nodes, (left, right))
            for key, before, after in page.changes:
                yield module, key, _entry(before), _entry(after)
            begin = page.cursor


def _entry(value: Any) -> Entry | None:
    return None if value is None else unpack(value)


async def _cell(
    left: WorldPoint, right: WorldPoint, module: str, key: bytes, before: Entry | None, after: Entry | None
) -> CellDifference | None:
    one, other = await seen_cell(left, module, before), await seen_cell(right, module, after)
    if one == other:
        return None
    change = "added" if one is None else "removed" if other is None else "changed"
    fields = tuple(_fields("", one or {}, other or {}))[:FIELDS_MAX]
    return CellDifference(module, key, change, fields)


async def seen_cell(point: WorldPoint, module: str, entry: Entry | None) -> dict[str, Any] | None:
    """What of a cell counts, as JSON data; None where there is none."""
    if entry is None:
        return None
    found: dict[str, Any] = {}
    data = await point.state_of(entry)
    if data is not None:
        manifest = await point.manifest(entry.era)
        known = manifest.modules.get(module)
        found["state"] = shown(data, None if known is None else known.state, manifest)
    queue = entry.get("queue", ())
    if queue:
        found["messages"] = len(queue)
    if entry.get("intents"):
        found["open effects"] = len(entry.get("intents"))
    if entry.get("status") is not None:
        text = await point.reader.keys.opened_text(entry.get("text"))
        found["stopped"] = {"why": entry.get("status"), "code": entry.get("code"), "text": text}
    return found


def _fields(path: str, left: Any, right: Any) -> Iterator[FieldDifference]:
    """The innermost fields where two values differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted({*left, *right}):
            if name not in left or name not in right or left[name] != right[name]:
                inner = f"{path}.{name}" if path else str(name)
                yield from _fields(inner, left.get(name), right.get(name))
        return
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for at, (one, other) in enumerate(zip(left, right, strict=True)):
            if one != other:
                yield from _fields(f"{path}[{at}]", one, other)
        return
    yield FieldDifference(path, left, right)


_Asked = tuple[str, bytes, str, bytes]
"""Module, key, kind and the digest of the params."""


async def _asked(point: WorldPoint, above: int) -> tuple[dict[_Asked, list[tuple[int, IntentRecord]]], bool]:
    """The effects that were asked for above a height, by what was asked; and whether these are all."""
    found: dict[_Asked, list[tuple[int, IntentRecord]]] = {}
    looked = 0
    async for frame in point.frames(above):
        looked += 1
        if looked > FRAMES_MAX:
            return found, False
        for height, record in frame.of(IntentRecord):
            if record.kind != TIMER_SET:
                asked = (record.module, record.key, record.kind, params_digest(record.params))
                found.setdefault(asked, []).append((height, record))
    return found, True


async def _only(
    side: str, point: WorldPoint, own: dict[_Asked, list[tuple[int, IntentRecord]]],
    others: dict[_Asked, list[tuple[int, IntentRecord]]],
) -> list[EffectDifference]:  # fmt: skip
    counts = Counter({asked: len(each) for asked, each in others.items()})
    found = []
    for asked, each in own.items():
        for height, record in each[counts[asked] :]:
            params = value_of(record.params)
            data = await point.bytes_of(params.cid) if isinstance(params, Link) else params
            manifest = await point.manifest()
            effect = manifest.effects.get(record.kind)
            data = await point.opened(data)
            told = shown(data, None if effect is None else effect.params, manifest)
            found.append(EffectDifference(side, height, record.kind, record.module, record.key, told))
    return sorted(found, key=lambda each: each.height)
