"""The storage of a whole store, for a node: collections, pins, and why something is kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol
from uuid import UUID

from cellule.errors import CelluleError, Conflict, Unavailable
from cellule.host.limits import (
    COLLECT_GRACE_S,
    COLLECT_LOOK_S,
    COLLECT_NODES_BYTES,
    COLLECT_SHARE,
    COMPACT_SHARE,
    QUOTA_COUNT_S,
    QUOTA_LOOK_S,
)
from cellule.host.own.directory import Directory, UniverseInfo, WorldInfo
from cellule.host.storage.collection_state import DONE, CollectionState
from cellule.host.storage.collector import Collector, CollectProgress
from cellule.host.storage.compaction import Compacted, Compactor
from cellule.host.storage.event_rates import allowance, counted, read_counts
from cellule.host.storage.explain import Explanation, explain_retention
from cellule.host.storage.history import drop_history
from cellule.host.storage.marks import Marks
from cellule.host.storage.pins import Pins
from cellule.host.storage.policy import Retention, StoragePolicy, read_retention, write_retention
from cellule.host.storage.quotas import (
    Gate,
    Quotas,
    Usage,
    check_more_snapshots,
    check_new_world,
    exceeded,
    full_quota,
    read_quotas,
    usage_of,
    write_quotas,
    write_usage,
)
from cellule.host.storage.snapshot_list import KeptSnapshot, kept_snapshots
from cellule.sources import Clock, Entropy
from cellule.store.cache import NodeCache
from cellule.store.cas import Cas
from cellule.store.engine import Batch, Engine
from cellule.store.engines.memory import MemoryEngine
from cellule.values.cid import Cid

_log = logging.getLogger("cellule.host")
_RUN_BYTES = 16
USUAL = StoragePolicy()


class CasOf(Protocol):
    """Gives the objects of a universe."""

    def __call__(self, universe: UUID, cache: NodeCache | None = None) -> Cas:
        """With a cache of its own for whoever reads very many objects once."""


class Storage:
    """What keeps a store from growing without bounds."""

    def __init__(
        self, engine: Engine, cas_of: CasOf, directory: Directory, clock: Clock, entropy: Entropy,
        policy: StoragePolicy = USUAL,
    ) -> None:  # fmt: skip
        self._policy = policy
        self._due: dict[UUID, WorldInfo] = {}
        self._news = asyncio.Event()
        self.gates: dict[UUID, Gate] = {}  # of universes with quotas, on the owner
        self._rated = asyncio.Event()  # one of them has a quota of events
        self._is_owners = False
        self._engine = engine
        self._cas_of = cas_of
        self._directory = directory
        self._clock = clock
        self._entropy = entropy
        self._run = entropy.bytes(_RUN_BYTES)

    def pins(self, universe: UUID) -> Pins:
        """The pins of a universe."""
        return Pins(self._engine, self._cas_of(universe), self._clock, self._entropy)

    async def state(self, universe: UUID) -> CollectionState | None:
        """How far the collection of a universe is, or how the last one ended; None before the first."""
        return await Marks(self._engine, universe).read_state()

    async def collect(
        self, universe: UUID, *, grace_s: float = COLLECT_GRACE_S, share: float = 1.0,
        progress: CollectProgress = lambda _state: None,
    ) -> CollectionState:  # fmt: skip
        """Remove what nothing keeps; see `Collector.collect`."""
        collector = self._collector(universe, Marks(self._engine, universe), share, progress)
        collector.pins = self.pins(universe)
        return await collector.collect(grace_s)

    async def would_collect(
        self, universe: UUID, progress: CollectProgress = lambda _state: None
    ) -> CollectionState:
        """Find out what a collection would remove; marks are kept in memory, and nothing is changed."""
        async with MemoryEngine() as scratch:
            return await self._collector(universe, Marks(scratch, universe), 1.0, progress).collect()

    async def explain(self, universe: UUID, cid: Cid) -> Explanation:
        """Why an object is kept."""
        worlds = await self._directory.worlds(universe)
        cas = self._cas_of(universe, NodeCache(COLLECT_NODES_BYTES))
        return await explain_retention(self._engine, cas, worlds, cid, self._clock.now_ns())

    async def compact(self, info: WorldInfo, *, everything: bool = False, share: float = 1.0) -> Compacted:
        """Move old frames of a world into segments, and drop what it does not keep."""
        cas = self._cas_of(info.universe, NodeCache(COLLECT_NODES_BYTES))
        compactor = Compactor(self._engine, cas, self._clock, self._policy, share)
        done = await compactor.compact(info, everything=everything)
        done.dropped = await drop_history(self._engine, cas, info)
        return done

    async def snapshots(self, info: WorldInfo) -> list[KeptSnapshot]:
        """The snapshots that a world keeps, oldest first."""
        return await kept_snapshots(self._engine, self._cas_of(info.universe), info)

    async def retention(self, info: WorldInfo) -> Retention:
        """What is kept of a world."""
        return await read_retention(self._engine, info.universe, info.id)

    async def retain(self, info: WorldInfo, retention: Retention) -> None:
        """Say what is kept of a world from its next snapshot on."""
        more = retention.snapshots - (await self.retention(info)).snapshots
        await self._check_more_snapshots(info.universe, more)
        await write_retention(self._engine, info, retention)

    def check_events(self, universe: UUID, count: int) -> None:
        """Refuse events that a quota of the universe does not allow."""
        if self.gates and universe in self.gates:
            self.gates[universe].check(count)

    async def counted_events(self, universe: UUID, stored: bytes | None, count: int) -> Batch:
        """What counts events that a process sends which does not own the store; refuses what a quota forbids.

        `stored` is the row of the quotas. Cells and bytes are those that the owner measured last.
        """
        quotas, usage = Quotas.of_row(stored)
        now_ns, per_s = self._clock.now_ns(), quotas.events_per_s
        full = full_quota(quotas, usage)
        if full is None and per_s is not None:
            counts = await read_counts(self._engine, universe, now_ns)
            if allowance(counts, per_s, now_ns) < count:
                full = ("events_per_s", per_s, per_s)
        if full is not None:
            raise exceeded(await self._name(universe), *full)
        return Batch() if per_s is None else counted(universe, now_ns, count)

    async def check_more_cells(self, universe: UUID) -> None:
        """Refuse a cell from elsewhere where cells or bytes are at their quota; from any process."""
        quotas = await self.quotas(universe)
        if quotas == Quotas():
            return
        usage = await self.usage(universe, with_bytes=quotas.stored_bytes is not None)
        Gate(await self._name(universe), quotas, usage, self._clock).check(0)

    async def quotas(self, universe: UUID) -> Quotas:
        """The quotas of a universe."""
        return await read_quotas(self._engine, universe)

    async def set_quotas(self, universe: UniverseInfo, quotas: Quotas) -> None:
        """Set the quotas of a universe; its owner heeds them within seconds, this process at once."""
        await write_quotas(self._engine, universe.id, quotas)
        await self._measure(universe)

    async def usage(self, universe: UUID, *, with_bytes: bool = True) -> Usage:
        """Measure what a universe has."""
        worlds = await self._directory.worlds(universe)
        return await usage_of(self._engine, self._cas_of(universe), worlds, with_bytes=with_bytes)

    async def check_new_world(self, universe: UUID) -> None:
        """Refuse a world, and its first snapshot, that would be one too many."""
        if await self.quotas(universe) == Quotas():
            return
        await check_new_world(self._engine, universe, await self._name(universe))
        await self._check_more_snapshots(universe, 1)

    async def _check_more_snapshots(self, universe: UUID, count: int) -> None:
        if (await self.quotas(universe)).snapshots is None:
            return
        name, worlds = await self._name(universe), await self._directory.worlds(universe)
        await check_more_snapshots(self._engine, self._cas_of(universe), name, worlds, count)

    async def _name(self, universe: UUID) -> str:
        known = await self._directory.universes()
        return next((each.name for each in known if each.id == universe), str(universe))

    async def _measure_regularly(self) -> None:
        while True:
            await self._each_universe("quotas are not measured", self._measure)
            await asyncio.sleep(QUOTA_LOOK_S)

    async def _each_universe(self, trouble: str, work: Callable[[UniverseInfo], Awaitable[None]]) -> None:
        """Do something for every universe; one where it fails holds back no other, and never the node."""
        try:
            universes = await self._directory.universes()
        except CelluleError as error:
            _log.warning("%s for now; it is tried again: %s", trouble, error)
            return
        for universe in universes:
            try:
                await work(universe)
            except CelluleError as error:
                _log.warning("universe %s: %s for now; it is tried again: %s", universe.name, trouble, error)
            except Exception:  # noqa: BLE001 - a defect in one universe leaves the others, and the worlds, alone
                _log.exception("universe %s: %s: this is a defect of Cellule", universe.name, trouble)

    async def _measure(self, universe: UniverseInfo) -> None:
        quotas = await read_quotas(self._engine, universe.id)
        if quotas == Quotas():
            self.gates.pop(universe.id, None)
            return
        usage = await self.usage(universe.id, with_bytes=quotas.stored_bytes is not None)
        await write_usage(self._engine, universe.id, quotas, usage)
        if not self._is_owners:
            return
        gate = Gate(universe.name, quotas, usage, self._clock)
        gate.follow(self.gates.get(universe.id))
        self.gates[universe.id] = gate
        if gate.per_s is not None:
            self._rated.set()

    async def _share_regularly(self) -> None:
        """Count events together with other processes, as long as a universe has a quota of them."""
        while True:
            await self._rated.wait()
            self._rated.clear()
            for universe, gate in list(self.gates.items()):
                if gate.per_s is not None:
                    self._rated.set()
                    try:
                        await gate.share(self._engine, universe)
                    except (CelluleError, Conflict) as error:
                        _log.warning("events are counted for this process alone for now: %s", error)
            await asyncio.sleep(QUOTA_COUNT_S)

    def saved(self, info: WorldInfo) -> None:
        """A world has a new snapshot: frames below it may leave the rows, soon."""
        self._due[info.id] = info
        self._news.set()

    async def look_after(self, collect_s: float | None) -> None:
        """Compact worlds that have new snapshots, and collect now and then; for a node that owns."""
        self._is_owners = True
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._compact_due())
                tasks.create_task(self._collect_regularly(collect_s))
                tasks.create_task(self._measure_regularly())
                tasks.create_task(self._share_regularly())
        finally:
            self._is_owners = False
            self.gates.clear()

    async def _compact_due(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._due:
                _, info = self._due.popitem()
                try:
                    await self.compact(info, share=COMPACT_SHARE)
                except CelluleError as error:
                    _log.warning("world %s was not compacted, and is again later: %s", info.name, error)
                except Exception:  # noqa: BLE001 - a defect in one world leaves the others alone
                    _log.exception("world %s was not compacted: this is a defect of Cellule", info.name)

    async def _collect_regularly(self, every_s: float | None) -> None:
        """Collect in each universe whenever its last collection began so long ago; None: never."""
        while every_s is not None:
            await asyncio.sleep(min(every_s, COLLECT_LOOK_S))
            await self._each_universe("no garbage is collected", partial(self._collect_due, every_s))

    async def _collect_due(self, every_s: float, universe: UniverseInfo) -> None:
        state = await self.state(universe.id)
        now_ns = self._clock.now_ns()
        is_over = state is None or state.phase == DONE
        if universe.deleting or (state is not None and is_over and now_ns < state.started_ns + every_s * 1e9):
            return
        try:
            done = await self.collect(universe.id, share=COLLECT_SHARE)
        except Unavailable as error:
            _log.info("the collection in universe %s waits: %s", universe.name, error)
        else:
            _log.info(
                "collected in universe %s: %d objects of %d bytes removed, %d kept",
                universe.name, done.counts.removed, done.counts.removed_bytes, done.counts.kept,
            )  # fmt: skip

    def _collector(self, universe: UUID, marks: Marks, share: float, progress: CollectProgress) -> Collector:
        cas = self._cas_of(universe, NodeCache(COLLECT_NODES_BYTES))
        return Collector(
            self._engine, cas, lambda: self._directory.worlds(universe), marks, self._clock, self._run,
            share=share, progress=progress,
        )  # fmt: skip
