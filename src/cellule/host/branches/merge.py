"""Merging: what a fork changed comes into another world, cell by cell, as steps of its journal.

Both are compared with the last height that their histories share. A cell that only the fork changed takes
over its state, or goes; one that both changed, each in its own way, overlaps: then nothing is merged, and all
overlaps are told. Cells that are busy, stopped or logs, those of other code, and the tree of paths are left
out, each with its reason; effects, timers and messages are never merged.

Rejected: one control for all cells. A merge would be as large as the difference, and one cell that moved on
meanwhile would refuse all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from cellule.errors import Rejected, readable
from cellule.host.branches.difference import CELLS_MAX, changed_cells
from cellule.host.branches.point import WorldPoint, common_height, point_of
from cellule.host.node import Node
from cellule.host.own.directory import WorldInfo
from cellule.kernel.limits import PARAMS_INLINE_MAX
from cellule.kernel.state.cells import Entry
from cellule.values.envelope import seal
from cellule.values.link import Link

TOGETHER: Final = 100  # controls that are on their way at once
NAMED_MAX: Final = 20  # overlapping cells that a refusal names

Put = Callable[..., Awaitable[Any]]
"""Does the control `cell.merge` with these arguments."""


@dataclass(frozen=True, slots=True)
class MergedCell:
    """A cell of a merge; `outcome` is merged, deleted, same, overlaps, or why it was left out."""

    module: str
    key: bytes
    outcome: str

    def __str__(self) -> str:
        return f"{self.module}/{readable(self.key)}"


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What a merge did, or would do; `common` is the last height that both histories share."""

    common: int
    merged: tuple[MergedCell, ...]
    overlaps: tuple[MergedCell, ...]
    left: tuple[MergedCell, ...]
    dry_run: bool


@dataclass(frozen=True, slots=True)
class _Plan:
    cell: MergedCell
    arguments: dict[str, Any]


async def merge_worlds(
    node: Node, source: WorldInfo, into: WorldInfo, put: Put, *, dry_run: bool = False
) -> MergeReport:
    """Merge what `source` changed into another world; `Rejected` names the cells that overlap."""
    theirs, ours = await point_of(node, source, None), await point_of(node, into, None)
    common = common_height(theirs, ours)
    if not common:
        raise Rejected(
            "host.merge_strangers", "worlds {source} and {into} share no history", source=source.name,
            into=into.name, hint="Merge a fork into its parent, or into another fork of it.",
        )  # fmt: skip
    base = await point_of(node, into, common)
    plans, overlaps, left = await _planned(base, theirs, ours)
    if overlaps and not dry_run:
        names = ", ".join(map(str, overlaps[:NAMED_MAX])) + (", ..." if len(overlaps) > NAMED_MAX else "")
        raise Rejected(
            "host.merge_overlaps", "{count} cells were changed in both worlds: {names}", count=len(overlaps),
            names=names, hint="Nothing was merged. See `cellule world diff`, and bring them into line first.",
        )  # fmt: skip
    merged = [plan.cell for plan in plans]
    if not dry_run:
        for start in range(0, len(plans), TOGETHER):
            some = plans[start : start + TOGETHER]
            moved = await asyncio.gather(*(_put(put, plan) for plan in some))
            left += [each for each in moved if each is not None]
        gone = {(each.module, each.key) for each in left}
        merged = [each for each in merged if (each.module, each.key) not in gone]
    return MergeReport(common, tuple(merged), tuple(overlaps), tuple(left), dry_run)


async def _put(put: Put, plan: _Plan) -> MergedCell | None:
    try:
        await put(**plan.arguments)
    except Rejected as error:
        return MergedCell(plan.cell.module, plan.cell.key, str(error))
    return None


async def _planned(
    base: WorldPoint, theirs: WorldPoint, ours: WorldPoint
) -> tuple[list[_Plan], list[MergedCell], list[MergedCell]]:
    mine = {(module, key): after async for module, key, _, after in changed_cells(base, ours)}
    plans: list[_Plan] = []
    overlaps: list[MergedCell] = []
    left: list[MergedCell] = []
    async for module, key, before, after in changed_cells(base, theirs):
        new, old = await _state(theirs, after), await _state(base, before)
        if new == old:
            continue  # it was looked at, and nothing more
        target = mine.get((module, key), before)
        now = await _state(ours, target)
        reason = _busy(module, after) or _busy(module, target)
        reason = reason or await _other_code(module, after, theirs, ours)
        if now == new:
            continue
        if now != old:
            overlaps.append(MergedCell(module, key, "overlaps"))
        elif reason:
            left.append(MergedCell(module, key, reason))
        else:
            stored = None if after is None else await theirs.stored_state(after)
            plans.append(await _plan(ours, module, key, target, stored, theirs))
        if len(plans) > CELLS_MAX:
            raise Rejected(
                "host.merge_max", "more than {most} cells would be merged", most=CELLS_MAX,
                hint="Move a ref to the fork instead: `cellule ref move`.",
            )  # fmt: skip
    return plans, overlaps, left


async def _state(point: WorldPoint, entry: Entry | None) -> bytes | None:
    return None if entry is None else await point.state_of(entry)


async def _plan(
    ours: WorldPoint, module: str, key: bytes, target: Entry | None, new: bytes | None, theirs: WorldPoint
) -> _Plan:
    arguments: dict[str, Any] = {
        "module": module, "key": key, "version": 0 if target is None else target.version,
        "born": 0 if target is None else target.born, "from": theirs.lineage.world.bytes, "at": theirs.height,
    }  # fmt: skip
    if new is not None:
        is_short = len(new) <= PARAMS_INLINE_MAX
        arguments["state"] = seal(new) if is_short else Link(await ours.cas.put(new, trusted=True))
    return _Plan(MergedCell(module, key, "deleted" if new is None else "merged"), arguments)


def _busy(module: str, entry: Entry | None) -> str:
    if module.startswith("sys/"):
        return "it belongs to the system"
    if entry is None:
        return ""
    if entry.get("queue"):
        return "messages wait for it"
    if entry.get("intents"):
        return "it waits for effects"
    if entry.get("status") is not None:
        return "it is stopped"
    return "it is a log" if entry.get("log") is not None else ""


async def _other_code(module: str, entry: Entry | None, theirs: WorldPoint, ours: WorldPoint) -> str:
    known = (await ours.manifest()).modules.get(module)
    if known is None:
        return "the world has no such module"
    if known.log:
        return "it is a log"
    written = None if entry is None else (await theirs.manifest(entry.era)).modules.get(module)
    if written is not None and written.state != known.state:
        return "its state is of another version"
    return ""
