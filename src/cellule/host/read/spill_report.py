"""What moving whole maps to cells would do, and the proof that it did it.

A preview takes the very control to a private copy of the world, as that of other migrations does, and the
beats behind it. The proof restores the world from its journal to just before the frame of the control, and
holds every entry of the maps there against the step by which its cell was born. Neither writes anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cellule.errors import Corrupted
from cellule.host.cas_fetch import fetch_block, fetch_nodes
from cellule.host.erasure_keys import ErasureKeys
from cellule.host.journal import Progress
from cellule.host.own.directory import WorldInfo
from cellule.host.read.migration_preview import beat_of_copy, frame_of
from cellule.host.read.reader import Reader
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


@dataclass(slots=True)
class _Map:
    """A map as it was, encoded, with how many open effects it waited for; and what became of it so far."""

    entries: Mapping[bytes, bytes]
    effects: int
    born: dict[bytes, bytes | Link] = field(default_factory=dict)
    messages: int = 0
    is_gone: bool = False

    def report(self) -> SpilledMap:
        """What is told of it."""
        upcast = any(
            isinstance(each, bytes) and each != self.entries.get(key) for key, each in self.born.items()
        )
        return SpilledMap(len(self.born), self.messages, self.effects, upcast)

    async def is_kept(self, cas: Cas) -> bool:
        """Tell whether the cells are its entries, as they were unless they were upcast."""
        if self.born.keys() != self.entries.keys():
            return False
        is_upcast = self.report().upcast
        for key, state in self.born.items():
            data = await fetch_block(cas, state.cid) if isinstance(state, Link) else state
            if data != self.entries[key] and not is_upcast:
                return False
        return True


class _Move:
    """The move that the control at a height began, read from its frames."""

    def __init__(self, height: int, maps: Mapping[str, _Map]) -> None:
        self.height = height
        self.maps = maps

    @property
    def is_done(self) -> bool:
        """Tell whether all maps are gone."""
        return all(each.is_gone for each in self.maps.values())

    def take(self, frame: Frame) -> None:
        """Note what a frame moved."""
        for _, step in frame.of(StepRecord):
            found = self.maps.get(step.module)
            if found is None or step.extras.get("control") != self.height:
                continue
            if step.status == OK:
                found.born[step.key] = value_of(step.state)
            else:
                found.is_gone = True
        for _, record in frame.of(ControlRecord):
            if record.cause == self.height:
                for base, _, _ in record.arguments["queue"]:
                    self.maps[base].messages += 1

    def tell(self, progress: Progress) -> None:
        """How many entries are cells, of how many."""
        maps = self.maps.values()
        progress(sum(len(each.born) for each in maps), sum(len(each.entries) for each in maps))

    def report(self, height: int) -> SpillReport:
        """What is told of all of them."""
        return SpillReport(height, {base: each.report() for base, each in self.maps.items()})


async def preview_spill(
    loader: Loader, info: WorldInfo, cas: Cas, manifest: Manifest, blocks: Mapping[Cid, bytes],
    bases: Sequence[str],
) -> SpillReport:  # fmt: skip
    """Do the control, and the beats behind it, to a copy; `Rejected` says what stands in the way."""
    world, _, _ = await loader.restore(info, cas, fast=False)
    maps = {base: await _map(world, cas, base) for base in bases}
    made = {**blocks, manifest.cid: manifest.data}
    item = ControlItem("cell.spill", "preview", "preview", {"manifest": Link(manifest.cid)})
    keys = ErasureKeys(loader.engine, info.universe)
    beat = await beat_of_copy(world, [item], made, cas, keys)
    frame = decode_frame(frame_of(beat))
    ((height, control), *_) = frame.of(ControlRecord)
    move = _Move(height, {base: maps[base] for base, _ in control.arguments["cells"]})
    move.take(frame)
    while beat.more and not move.is_done:
        beat = await beat_of_copy(world, [], made, cas, keys)
        if beat.frame is not None:
            move.take(decode_frame(beat.frame))
    return move.report(0)


async def follow_spill(
    reader: Reader, loader: Loader, info: WorldInfo, height: int, progress: Progress | None
) -> SpillReport:
    """Wait until the move of the control at a height is done; `Corrupted` where a cell is not its entry.

    A height of 0 stands for no move.
    """
    if not height:
        return SpillReport(0, {})
    first = await reader.frame(height)
    start = first.header.first
    before, _, _ = await loader.restore(info, reader.cas, upto=start - 1, fast=False)
    cells = first.expect(height, ControlRecord).arguments["cells"]
    move = _Move(height, {base: await _map(before, reader.cas, base) for base, _ in cells})
    head = await reader.journal.head()
    while True:
        async for frame in reader.journal.frames(start, head.height):
            start = frame.header.last + 1
            move.take(frame)
        if progress is not None:
            move.tell(progress)
        if move.is_done:
            break
        head = await reader.next_head(head)
    for base, each in move.maps.items():
        if not await each.is_kept(reader.cas):
            raise Corrupted(
                "host.spill_differs", "the cells of {module} are not the entries of its map before {height}",
                module=base, height=height, hint="Keep the store as it is, and report it.",
            )  # fmt: skip
    return move.report(height)


async def _map(world: World, cas: Cas, base: str) -> _Map:
    answer: Any = world.look(base, b"")
    while isinstance(answer, Need):
        answer = world.resume(await fetch_nodes(cas, answer.cids))
    if answer is None or answer.state is None:
        return _Map({}, 0)
    data = answer.state if isinstance(answer.state, bytes) else await fetch_block(cas, answer.state.cid)
    manifest = load_manifest(await fetch_block(cas, world.ledger.eras[answer.era].manifest))
    schema = map_of(manifest, manifest.modules[base].state)
    assert schema is not None, "only maps are moved"
    entries = WholeMap(schema, manifest.schemas).entries(data)
    encoded = {key: encode(value) for key, value in entries.items()}
    return _Map(encoded, len(answer.get("intents", ())))
