"""What moving whole maps to cells would do, and the proof that it did it.

A preview takes the very control to a private copy of the world, as that of other migrations does. The proof
restores the world from its journal to just before the frame of the control, and holds every entry of the maps
there against the step by which its cell was born. Neither writes anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cellule.errors import Corrupted
from cellule.host.cas_fetch import fetch_nodes
from cellule.host.own.directory import WorldInfo
from cellule.host.read.migration_preview import beat_of_copy, frame_of
from cellule.host.run.loader import Loader
from cellule.kernel.items import ControlItem
from cellule.kernel.journal.codes import OK
from cellule.kernel.journal.frame import Frame, decode_frame
from cellule.kernel.journal.records import ControlRecord, StepRecord
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.manifest.upcasts import map_of
from cellule.kernel.need import Need
from cellule.kernel.whole_map import WholeMap
from cellule.kernel.world import World
from cellule.store.cas import Cas
from cellule.values.cbor import encode
from cellule.values.cid import Cid
from cellule.values.envelope import value_of
from cellule.values.link import Link


@dataclass(frozen=True, slots=True)
class SpilledMap:
    """One map: how many cells it becomes, and how many messages and open effects go over to them.

    `upcast` tells that the states went through upcasters on the way.
    """

    cells: int
    messages: int
    effects: int
    upcast: bool


@dataclass(frozen=True, slots=True)
class SpillReport:
    """What a move did or would do, by module; `height` is that of the control, 0 where nothing was done.

    Without modules there was nothing to move: it was done before, or no map was there.
    """

    height: int
    modules: Mapping[str, SpilledMap]


@dataclass(frozen=True, slots=True)
class _MapBefore:
    """A map as it was: its entries, encoded, and how many open effects it waited for."""

    entries: Mapping[bytes, bytes]
    effects: int


async def preview_spill(
    loader: Loader, info: WorldInfo, cas: Cas, manifest: Manifest, blocks: Mapping[Cid, bytes],
    bases: list[str],
) -> SpillReport:  # fmt: skip
    """Do the control to a copy of the world; `Rejected` says what stands in the way."""
    world, _, _ = await loader.restore(info, cas, fast=False)
    before = {base: await _before(world, cas, base) for base in bases}
    made = {**blocks, manifest.cid: manifest.data}
    item = ControlItem("cell.spill", "preview", "preview", {"manifest": Link(manifest.cid)})
    frame = decode_frame(frame_of(await beat_of_copy(world, item, made, cas)))
    return _report(frame, _control_of(frame), before, 0)


async def prove_spill(
    loader: Loader, info: WorldInfo, cas: Cas, height: int, frame: Frame, bases: list[str]
) -> SpillReport:  # fmt: skip
    """The report of the control at a height; `Corrupted` where a cell is not what its entry was."""
    world, _, _ = await loader.restore(info, cas, upto=frame.header.first - 1, fast=False)
    before = {base: await _before(world, cas, base) for base in bases}
    report = _report(frame, height, before, height)
    for base, each in report.modules.items():
        born = _born(frame, height, base)
        entries = before[base].entries
        same = born.keys() == entries.keys() and (each.upcast or await _are_same(cas, born, entries))
        if not same:
            raise Corrupted(
                "host.spill_differs", "the cells of {module} are not the entries of its map before {height}",
                module=base, height=height, hint="Keep the store as it is, and report it.",
            )  # fmt: skip
    return report


async def _before(world: World, cas: Cas, base: str) -> _MapBefore:
    answer: Any = world.look(base, b"")
    while isinstance(answer, Need):
        answer = world.resume(await fetch_nodes(cas, answer.cids))
    if answer is None or answer.state is None:
        return _MapBefore({}, 0)
    data = answer.state if isinstance(answer.state, bytes) else await cas.get(answer.state.cid)
    manifest = load_manifest(await cas.get(world.ledger.eras[answer.era].manifest))
    schema = map_of(manifest, manifest.modules[base].state)
    assert schema is not None, "only maps are moved"
    entries = WholeMap(schema, manifest.schemas).entries(data)
    encoded = {key: encode(value) for key, value in entries.items()}
    return _MapBefore(encoded, len(answer.get("intents", ())))


def _report(frame: Frame, at: int, before: Mapping[str, _MapBefore], height: int) -> SpillReport:
    written = frame.expect(at, ControlRecord).arguments
    moved = [base for base, _, _ in written.get("queue", ())]
    modules = {}
    for base, _ in written["cells"]:
        born, entries = _born(frame, at, base), before[base].entries
        upcast = any(isinstance(state, bytes) and state != entries.get(key) for key, state in born.items())
        modules[base] = SpilledMap(len(born), moved.count(base), before[base].effects, upcast)
    return SpillReport(height, modules)


def _control_of(frame: Frame) -> int:
    ((height, _),) = frame.of(ControlRecord)
    return height


def _born(frame: Frame, height: int, base: str) -> dict[bytes, bytes | Link]:
    """The states of the cells that a control made of a map, by key."""
    return {
        step.key: value_of(step.state)
        for _, step in frame.of(StepRecord)
        if step.extras.get("control") == height and step.module == base and step.status == OK
    }


async def _are_same(cas: Cas, born: Mapping[bytes, bytes | Link], entries: Mapping[bytes, bytes]) -> bool:
    for key, state in born.items():
        data = await cas.get(state.cid) if isinstance(state, Link) else state
        if data != entries[key]:
            return False
    return True
