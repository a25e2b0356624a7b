"""What a migration would do, found by doing it to a private copy of the world that is dropped afterwards.

The copy takes the very control that the world would take, in quiet beats in which no cell steps, so what is
shown is what happens. Nothing is written.

Rejected: a second search that only looks. It would have to keep up with every rule of the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cellule.host.cas_fetch import fetch_present
from cellule.host.erasure_keys import ErasureKeys
from cellule.host.limits import MIGRATE_PREVIEW_BEATS_MAX, MIGRATE_PREVIEW_STAYS_MAX
from cellule.host.own.directory import WorldInfo
from cellule.host.run.loader import Loader
from cellule.kernel.items import Beat, ControlItem, RefusedItem
from cellule.kernel.journal.frame import ENTROPY_BYTES, decode_frame
from cellule.kernel.journal.records import ControlRecord, MigratedRecord
from cellule.kernel.need import Need
from cellule.kernel.world import World
from cellule.store.cas import Cas
from cellule.values.cid import Cid


@dataclass(frozen=True, slots=True)
class Stays:
    """A cell that would not be moved, and why."""

    module: str
    key: bytes
    why: str


@dataclass(frozen=True, slots=True)
class MigrationPreview:
    """`moves` counts cells by module, the era they leave and the one they go to.

    `released` are cells that are where they belong and would only be let go on. `is_whole` is false where
    the migration takes more beats than a preview does.
    """

    moves: Mapping[tuple[str, int, int], int]
    released: int
    stays: tuple[Stays, ...]
    batches: int
    is_whole: bool


async def preview_migration(
    loader: Loader, info: WorldInfo, cas: Cas, arguments: Mapping[str, Any]
) -> MigrationPreview:
    """Do the control `cell.migrate` to a copy of the world, to its end; see `MigrationPreview`."""
    world, _, _ = await loader.restore(info, cas, fast=False)
    keys = ErasureKeys(loader.engine, info.universe)
    moves: dict[tuple[str, int, int], int] = {}
    blocks: dict[Cid, bytes] = {}
    stays: list[Stays] = []
    released, batches, rest = 0, 0, dict(arguments)
    for batches in range(1, MIGRATE_PREVIEW_BEATS_MAX + 1):
        item = ControlItem("cell.migrate", "preview", "preview", rest)
        beat = await beat_of_copy(world, [item], blocks, cas, keys)
        frame = decode_frame(frame_of(beat))
        moved = [record for _, record in frame.of(MigratedRecord)]
        for each in moved:
            place = (each.module, each.era_from, each.era_to)
            moves[place] = moves.get(place, 0) + 1
        ((height, control),) = frame.of(ControlRecord)
        written = control.arguments
        released += len(written["cells"]) - len(moved)
        stays += [Stays(*each) for each in written.get("stays", ())]
        if "next" in written:
            rest = {**arguments, "after": written["next"]}
        elif written.get("more"):
            rest = {**arguments, "until": height}
        else:
            return MigrationPreview(moves, released, tuple(stays[:MIGRATE_PREVIEW_STAYS_MAX]), batches, True)
    return MigrationPreview(moves, released, tuple(stays[:MIGRATE_PREVIEW_STAYS_MAX]), batches, False)


async def beat_of_copy(
    world: World, items: Sequence[ControlItem], blocks: dict[Cid, bytes], cas: Cas, keys: ErasureKeys
) -> Beat:  # fmt: skip
    """One beat of a private copy of a world; `blocks` are those that are not stored, and get more."""
    answer = world.beat(items, world.ledger.now_ns, bytes(ENTROPY_BYTES), quiet=True)
    while isinstance(answer, Need):
        await keys.feed(world.ledger.keys, answer)
        made = {cid: blocks[cid] for cid in answer.cids if cid in blocks}
        stored = await fetch_present(cas, tuple(cid for cid in answer.cids if cid not in made))
        answer = world.resume({**made, **stored})
    blocks.update(answer.blocks)
    return answer


def frame_of(beat: Beat) -> bytes:
    """The frame of a control that was taken; raises what it was refused with."""
    for outcome in beat.outcomes:
        if isinstance(outcome, RefusedItem):
            raise outcome.error
    assert beat.frame is not None, "a control that was taken is recorded"
    return beat.frame
