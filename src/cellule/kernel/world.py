"""A world: the deterministic kernel behind one small door.

Bytes in, bytes out. `beat`, `restore` and `snapshot` answer their result, or `Need`: the CIDs of nodes the
host has to bring, all at once, to `resume`. One of them is under way at a time; only a snapshot's slices
may come between beats. An error other than a refused item leaves the world poisoned: drop it and restore.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from cellule.errors import InvariantBroken, ensure
from cellule.kernel.decide.beat import BeatRun
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.eras import Eras
from cellule.kernel.decide.registry import check_entries
from cellule.kernel.decide.short_ways import GeneralWay, ShortWays
from cellule.kernel.decide.steps import Stepper
from cellule.kernel.fast.modules import FastModules
from cellule.kernel.fast.ways import FastWays
from cellule.kernel.index.live import Spill
from cellule.kernel.items import QUIET, Beat, EventItem, Item, Pace
from cellule.kernel.journal.frame import ENTROPY_BYTES, Frame, decode_frame
from cellule.kernel.key_ring import KeyRing
from cellule.kernel.limits import BURST_DEFAULT, QUOTA_DEFAULT
from cellule.kernel.lineage import Lineage
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.manifest.system import WORLD_STARTED
from cellule.kernel.need import Need, Nodes, Pause
from cellule.kernel.program import Programs
from cellule.kernel.prove.replay import Replay, Witness
from cellule.kernel.state.cells import Entry
from cellule.kernel.state.ledger import Ledger, Target
from cellule.kernel.state.module_cells import Budget
from cellule.kernel.state.snapshot import SnapshotJob, load_snapshot
from cellule.values.cbor import encode
from cellule.values.cid import Cid

T = TypeVar("T")


class World:
    """One world in memory. With `fast=False` everything goes the general way, to the same bytes."""

    def __init__(
        self, ledger: Ledger, world_id: UUID, programs: Programs, pace: Pace | None = None, *,
        fast: bool = True, lineage: Lineage | None = None,
    ) -> None:  # fmt: skip
        self.ledger = ledger
        self.world_id = world_id
        self.lineage = lineage or Lineage(world_id)
        self.pace = pace or Pace(QUOTA_DEFAULT, BURST_DEFAULT)
        ledger.keys.begin(world_id.bytes)
        self.eras = Eras(ledger, ledger.nodes, programs)
        self.stepper = Stepper(ledger, self.eras, world_id.bytes)
        self._fast = FastModules() if fast else None
        self._under_way: Generator[Need, None, Any] | None = None
        self._job: tuple[SnapshotJob, Generator[Need | Pause, None, Cid]] | None = None
        self._beating: BeatRun | None = None
        self._poisoned: BaseException | None = None

    @classmethod
    def create(
        cls, manifest: Manifest, world_id: UUID, now_ns: int, programs: Programs, *,
        pace: Pace | None = None, budget: Budget | None = None, spill: Spill | None = None,
        fast: bool = True, keys: KeyRing | None = None,
    ) -> World:  # fmt: skip
        """A new world, empty, in the manifest's era. Its first beat admits `started()`."""
        budget = budget or Budget()
        nodes = Nodes(budget.nodes_bytes_max)
        nodes.pin({manifest.cid: manifest.data})
        ledger = Ledger(nodes, budget, spill, now_ns=now_ns, keys=keys or KeyRing())
        ledger.begin_era(manifest.cid, 0)
        ledger.keys.allow(erasable=manifest.is_erasable)
        world = cls(ledger, world_id, programs, pace, fast=fast)
        world.eras.check_code(manifest)
        check_entries(manifest)
        finished(world.eras.open())
        return world

    @staticmethod
    def started() -> EventItem:
        """The first event of every world."""
        return EventItem(WORLD_STARTED, encode({}), system=True)

    @classmethod
    def restore(
        cls, snapshot: Cid, world_id: UUID, programs: Programs, *,
        pace: Pace | None = None, budget: Budget | None = None, spill: Spill | None = None,
        fast: bool = True, lineage: Lineage | None = None, keys: KeyRing | None = None,
    ) -> Restoring:  # fmt: skip
        """Begin to restore from a snapshot and the frames strictly above it.

        `lineage` says which of them were written by the worlds that this one was forked from.
        """
        lineage = lineage or Lineage(world_id)
        return Restoring(snapshot, lineage, programs, pace, budget or Budget(), spill, fast=fast, keys=keys)

    def beat(self, items: Sequence[Item], now_ns: int, entropy: bytes, *, quiet: bool = False) -> Beat | Need:
        """Do one beat; the same world, items, time and entropy always give the same bytes.

        A `quiet` one admits items and does nothing else: no timer fires, and no cell steps.
        """
        ensure(len(entropy) == ENTROPY_BYTES, "kernel.entropy", "a beat takes 16 bytes of entropy")
        pace = QUIET if quiet else self.pace
        if self.ledger.keys.in_use:
            self.ledger.keys.begin(self.stepper.world)
        run = BeatRun(
            self.ledger, self.eras, self.stepper, pace, now_ns, entropy, self._short_ways, self.lineage
        )  # fmt: skip
        self._beating = run
        answer: Beat | Need = self._start(run.run(items))
        return answer

    def renamed(self, lineage: Lineage) -> World:
        """The same world as a fork of itself: what it does from now on has another id."""
        self.world_id, self.lineage = lineage.world, lineage
        self.stepper.world = lineage.world.bytes
        return self

    @property
    def frame_size(self) -> int:
        """What the newest beat counted of its frame; by this it closed."""
        return 0 if self._beating is None else self._beating.frame_size

    @property
    def failed_cell(self) -> Target | None:
        """The cell whose step was under way when a beat failed; None where it was something else."""
        slot = None if self._poisoned is None or self._beating is None else self._beating.stepping
        return None if slot is None else (slot.cells.base, slot.key)

    def _short_ways(self, context: BeatContext) -> ShortWays:
        if self._fast is None or self.ledger.keys.in_use:
            return GeneralWay(self.ledger.ring)
        return FastWays(context, self._fast)

    def resume(self, nodes: Mapping[Cid, bytes]) -> Any:
        """Go on with what answered `Need`, with the nodes it asked for."""
        self.ledger.nodes.add(nodes)
        return self._advance()

    def look(self, base: str, key: bytes) -> Entry | Need | None:
        """The entry of a cell as of the newest beat (state bytes, version, born, era, ...), or None."""
        answer: Entry | Need | None = self._start(self._look(base, key))
        return answer

    def snapshot(self) -> SnapshotJob:
        """Fix the state at this beat boundary; then call `snapshot_slice` until it is done."""
        ensure(self._job is None, "kernel.snapshot_under_way", "a snapshot is under way already")
        ensure(self._under_way is None, "kernel.busy", "a beat is under way")
        job = SnapshotJob(self.ledger)
        self._job = (job, job.run())
        return job

    def snapshot_slice(self) -> Need | Pause | Cid:
        """Write one slice of the snapshot under way; the CID when it is complete."""
        ensure(self._job is not None, "kernel.no_snapshot", "no snapshot is under way")
        assert self._job is not None
        try:
            return next(self._job[1])
        except StopIteration as stop:
            self._job = None
            cid: Cid = stop.value
            return cid

    def drop_snapshot(self) -> None:
        """Give up the snapshot under way: nothing has changed, and the next one writes what it would have."""
        if self._job is not None:
            self._job[1].close()
            self._job = None

    def _look(self, base: str, key: bytes) -> Generator[Need, None, Entry | None]:
        ledger = self.ledger
        yield from ledger.slots([(base, key)])
        slot = ledger.cells(base).slot(key)
        if slot.entry is not None and slot.entry.state is not None:
            yield from ledger.state_bytes(slot)
        entry = slot.at_rest()
        ledger.drop_idle()
        return entry

    def _start(self, generator: Generator[Need, None, Any]) -> Any:
        ensure(self._under_way is None, "kernel.busy", "the last call answered Need: resume it first")
        if self._poisoned is not None:
            raise InvariantBroken("kernel.poisoned", "this world failed before: {why}", why=self._poisoned)
        self._under_way = generator
        return self._advance()

    def _advance(self) -> Any:
        ensure(self._under_way is not None, "kernel.nothing_under_way", "there is nothing to resume")
        assert self._under_way is not None
        try:
            return next(self._under_way)
        except StopIteration as stop:
            self._under_way = None
            return stop.value
        except BaseException as error:
            self._under_way = None
            self._poisoned = error
            raise


class Restoring:
    """A restore under way: `frames` in order, then `world`."""

    def __init__(
        self, snapshot: Cid, lineage: Lineage, programs: Programs, pace: Pace | None, budget: Budget,
        spill: Spill | None, *, fast: bool, keys: KeyRing | None = None,
    ) -> None:  # fmt: skip
        self.nodes = Nodes(budget.nodes_bytes_max)
        self._opening = load_snapshot(snapshot, self.nodes, budget, spill, keys)
        self._lineage = lineage
        self._programs = programs
        self._pace = pace
        self._fast = fast

    def open(self, witness: Callable[[World], Witness] | None = None) -> Generator[Need, None, Opened]:
        """Read the snapshot; yields `Need`."""
        ledger = yield from self._opening
        lineage = self._lineage
        world = World(ledger, lineage.world, self._programs, self._pace, fast=self._fast, lineage=lineage)
        return Opened(world, Replay(ledger, lineage, witness(world) if witness else None))


class Opened:
    """A world at its snapshot, taking frames."""

    def __init__(self, world: World, replay: Replay) -> None:
        self._world = world
        self._replay = replay

    def apply(self, frame: bytes | Frame) -> Generator[Need, None, None]:
        """Apply the next frame; yields `Need`."""
        yield from self._replay.apply(frame if isinstance(frame, Frame) else decode_frame(frame))

    def world(self) -> Generator[Need, None, World]:
        """The restored world, ready for beats."""
        yield from self._world.eras.open()
        return self._world


def finished(generator: Generator[Need, None, T]) -> T:
    """The result of a generator that has all it needs."""
    try:
        need = next(generator)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise InvariantBroken(
        "kernel.unexpected_need", "nodes are missing: {cids}", cids=[str(cid) for cid in need.cids]
    )
