"""Verification of a stored world: the steps of all frames it wrote and keeps are run again, and compared.

The copy that results must also be the world that is stored: its state at the baseline's height is written
into nodes (in memory) and must have the baseline's root.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cellule.errors import Corrupted
from cellule.host.cas_fetch import drive, fetch_nodes
from cellule.host.erasure_keys import ErasureKeys
from cellule.host.journal import Journal, Progress
from cellule.host.own.directory import WorldInfo, baseline_of, read_head
from cellule.host.run.loader import Loader
from cellule.kernel.need import Need
from cellule.kernel.prove.replay import Witness
from cellule.kernel.prove.verify import Difference, Verifier
from cellule.kernel.world import World
from cellule.store import keys
from cellule.store.cas import Cas
from cellule.values.cid import Cid


@dataclass(frozen=True, slots=True)
class Verified:
    """What was run again; `difference` is the first disagreement, if any."""

    height: int
    steps: int
    skipped: int
    baseline: int
    difference: Difference | None
    not_run: Mapping[str, int]  # steps whose code cannot be loaded here, by the reason
    erased: int = 0  # steps that nobody can run again, because what they read is erased


async def verify_world(
    loader: Loader, info: WorldInfo, cas: Cas, progress: Progress | None = None
) -> Verified:
    """Run every recorded step again; `Corrupted` where the journal or the baseline contradicts itself."""
    head = await read_head(loader.engine, info)
    journal = Journal(loader.engine, cas, info.lineage)
    start, first, height, baseline = await _snapshots(loader, info, journal)
    verifier = Verifier()
    restoring = World.restore(
        first, info.id, loader.programs, budget=loader.budget, pace=loader.pace, lineage=info.lineage
    )
    world: list[World] = []

    def witness(made: World) -> Witness:
        world.append(made)
        return verifier.witness(made)

    async def feed(need: Need) -> None:
        await ErasureKeys(loader.engine, info.universe).feed(world[0].ledger.keys, need)

    def verified(height: int, baseline: int) -> Verified:
        return Verified(
            height, verifier.steps, verifier.skipped, baseline, verifier.difference, verifier.not_run,
            verifier.erased,
        )  # fmt: skip

    opened = await drive(restoring.open(witness), restoring.nodes, cas)
    async for last, frame in journal.frames(start + 1, head.height):
        await drive(opened.apply(frame), restoring.nodes, cas, feed)
        if verifier.difference is not None:
            return verified(last, 0)
        if last == height:
            await _check_baseline(world[0], info, cas, baseline)
        if progress is not None:
            progress(last, head.height)
    ledger = world[0].ledger
    if (ledger.height, ledger.frame) != (head.height, head.frame):
        raise Corrupted(
            "host.head_mismatch", "world {world}: the journal ends at {height}, its head says {head}",
            world=info.name, height=ledger.height, head=head.height,
            hint="Run `cellule check` on the folder.",
        )  # fmt: skip
    return verified(head.height, height)


async def _check_baseline(world: World, info: WorldInfo, cas: Cas, baseline: Cid) -> None:
    """The state run again must have the root of the baseline that restore starts from."""
    job = world.snapshot()
    while not isinstance(answer := world.snapshot_slice(), Cid):
        if isinstance(answer, Need):
            world.ledger.nodes.add(await fetch_nodes(cas, answer.cids))
    if answer != baseline:
        raise Corrupted(
            "host.baseline_differs",
            "world {world}: its baseline at height {height} is {stored}, its journal gives {computed}",
            world=info.name, height=job.height, stored=str(baseline), computed=str(answer),
            hint="The journal is the truth: keep the folder as it is and report this.",
        )  # fmt: skip


async def _snapshots(loader: Loader, info: WorldInfo, journal: Journal) -> tuple[int, Cid, int, Cid]:
    """The snapshot to start from with its height, and the baseline with its own."""
    [baseline] = await loader.engine.read([keys.world_baseline(info.universe, info.id)])
    start = await journal.start()
    if start is None or baseline is None:
        raise Corrupted("host.no_baseline", "world {world} has no first snapshot", world=info.name)
    return start.height, start.root, *baseline_of(baseline)
