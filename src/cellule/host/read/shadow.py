"""A shadow run of a stored world: its recent history, or all of it, under a manifest that is not deployed.

It reads what any reader reads, runs in memory, and writes nothing: no row, no block, no effect.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from cellule.errors import Corrupted, Rejected
from cellule.host.cas_fetch import drive, fetch_present
from cellule.host.journal import Journal, Progress
from cellule.host.limits import SHADOW_BLOCKS_BYTES_MAX, SHADOW_RECORDS_MAX
from cellule.host.own.directory import WorldInfo, read_head
from cellule.host.run.loader import Loader
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.need import Need, Nodes
from cellule.kernel.prove.shadow import Shadow
from cellule.kernel.prove.shadow_compare import ShadowDifference
from cellule.kernel.world import World
from cellule.store.cas import Cas
from cellule.values.cid import Cid

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """What a shadow run found. `modules` counts the cells that differ; `differences` counts by what differs.

    `refused` are recorded events and verbs that the new manifest refuses, by the code of the refusal.
    `limited` tells why the run ended before the journal did, and is empty otherwise.
    """

    first: int
    last: int
    frames: int
    steps: int
    differences: Mapping[str, int]
    cells: int
    modules: Mapping[str, int]
    examples: tuple[ShadowDifference, ...]
    refused: Mapping[str, int]
    unanswered: int  # receipts of requests that the new code did not make
    skipped: int  # what people did and could not be repeated
    limited: str = ""

    @property
    def same(self) -> bool:
        """Whether the whole history gave the same."""
        return not (self.differences or self.refused or self.unanswered or self.limited)


async def shadow_world(
    loader: Loader, info: WorldInfo, cas: Cas, manifest: Manifest, blocks: Mapping[Cid, bytes], *,
    recent: int | None, progress: Progress | None = None,
) -> ShadowReport:  # fmt: skip
    """Run the newest `recent` records again under `manifest`, or all; see `Shadow`."""
    head = await read_head(loader.engine, info)
    start = 0 if recent is None else max(0, head.height - recent)
    world, at = await _standing(loader, info, cas, start)
    if world.ledger.keys.in_use or manifest.is_erasable:
        raise Rejected(
            "host.shadow_erasable", "world {world} has cells that can be erased: no shadow run of it is made",
            world=info.name, hint="Try the code on a fork: `cellule world what-if`.",
        )  # fmt: skip
    shadow = Shadow(world, manifest)
    shadow.blocks.update(blocks)
    nodes = world.ledger.nodes
    last = at
    async for found, frame in Journal(loader.engine, cas, info.lineage).frames(at + 1, head.height):
        if shadow.limited:
            break
        await _driven(shadow.apply(decode_frame(frame)), shadow, nodes, cas)
        last = found
        _limit(shadow, last - at)
        if progress is not None:
            progress(found - at, head.height - at)
    await _driven(shadow.end(), shadow, nodes, cas)
    return _report(shadow, at, last)


async def _standing(loader: Loader, info: WorldInfo, cas: Cas, start: int) -> tuple[World, int]:
    """The world as it was at a height, and the height of the beat that ends there."""
    if start:
        world, _, _ = await loader.restore(info, cas, upto=start, fast=False)
        return world, world.ledger.height
    first = await Journal(loader.engine, cas, info.lineage).start()
    if first is None:
        raise Corrupted("host.no_baseline", "world {world} has no first snapshot", world=info.name)
    restoring = World.restore(
        first.root, info.id, loader.programs, budget=loader.budget, fast=False, lineage=info.lineage
    )
    opened = await drive(restoring.open(), restoring.nodes, cas)
    return await drive(opened.world(), restoring.nodes, cas), first.height


async def _driven(generator: Generator[Need, None, T], shadow: Shadow, nodes: Nodes, cas: Cas) -> T:
    """Run a generator to its end, with what the run made and what is stored."""
    try:
        while True:
            need = next(generator)
            made = shadow.found(need.cids)
            nodes.add(made)
            rest = tuple(cid for cid in need.cids if cid not in made)
            if rest:
                nodes.add(await fetch_present(cas, rest))
    except StopIteration as stop:
        result: T = stop.value
        return result


def _limit(shadow: Shadow, records: int) -> None:
    if records > SHADOW_RECORDS_MAX:
        shadow.limited = f"a shadow run takes {SHADOW_RECORDS_MAX} records"
    elif sum(map(len, shadow.blocks.values())) > SHADOW_BLOCKS_BYTES_MAX:
        shadow.limited = f"a shadow run keeps {SHADOW_BLOCKS_BYTES_MAX} bytes of blocks"


def _report(shadow: Shadow, first: int, last: int) -> ShadowReport:
    tally = shadow.comparison.tally
    modules: dict[str, int] = {}
    for module, _ in tally.cells:
        modules[module] = modules.get(module, 0) + 1
    return ShadowReport(
        first + 1, last, shadow.frames, tally.steps, dict(tally.counts), len(tally.cells), modules,
        tuple(tally.examples), dict(shadow.refused),
        shadow.inputs.receipts_left + len(shadow.inputs.waiting), shadow.inputs.controls_left, shadow.limited,
    )  # fmt: skip
