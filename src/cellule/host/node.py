"""A node: the process that owns a store and hosts its worlds, loaded when they are needed.

Each loaded world is one task, from its opening to its end, all in one task group. Worlds without work are
let go after a while and come back when something arrives: a send here, a row in their inbox, or a timer that
is due. What ends one world (`Fenced`, `Corrupted`, a defect) leaves the others alone.

A node works on worlds while it has the claim on its store; without it, it is a guest that reads and enqueues.
That changes while it runs: a guest begins to work when it gets the claim; an owner that lost it drops its
worlds at once, tells everyone who waits, and is a guest.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from uuid import UUID

from cellule.errors import CelluleError, Corrupted, Fenced, InvariantBroken, Rejected, Unavailable
from cellule.host.cas_fetch import put_blocks
from cellule.host.journal import Progress
from cellule.host.limits import FAILED_REST_S, IDLE_S, LEFT_COLLECT, LOOK_S, WORLDS_MAX
from cellule.host.outbox.pool import Pool
from cellule.host.outbox.receipts import Rows
from cellule.host.outbox.repair import Wanted, repair
from cellule.host.outbox.signatures import NodeKey
from cellule.host.own.deletion import delete_names, delete_rows, delete_universe
from cellule.host.own.directory import Directory, UniverseInfo, WorldInfo
from cellule.host.own.ownership import Claim, Ownership, node_closed, not_owner
from cellule.host.own.wakes import Waker
from cellule.host.run.commits import fenced
from cellule.host.run.loader import Loader
from cellule.host.run.world_runner import WorldRunner
from cellule.host.storage.storage import Storage
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.state.snapshot import SnapshotJob
from cellule.kernel.world import World
from cellule.sources import Clock, Entropy
from cellule.store.cache import DiskCache, NodeCache
from cellule.store.cas import Cas, Parts
from cellule.store.engine import Engine
from cellule.store.object_store import ObjectStore
from cellule.values.cid import Cid

DEFAULT_UNIVERSE = "default"
_log = logging.getLogger("cellule.host")


class _Place:
    """A world's place on the node: opening, at work, or ending."""

    __slots__ = ("error", "gone", "hosted", "info", "is_closing", "opened", "task")

    def __init__(self, info: WorldInfo) -> None:
        self.info = info
        self.hosted: WorldRunner | None = None
        self.error: CelluleError | None = None
        self.opened = asyncio.Event()
        self.gone = asyncio.Event()
        self.is_closing = False
        self.task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Node:
    """One process's view of a store."""

    engine: Engine
    loader: Loader
    clock: Clock
    entropy: Entropy
    ownership: Ownership
    idle_s: float = IDLE_S
    worlds_max: int = WORLDS_MAX
    pool: Pool | None = None
    vouch: Callable[[], Awaitable[NodeKey]] | None = None  # the store's key, for receipts that people give
    collect_s: float | None = None  # between collections of garbage that begin by themselves; None: none do
    objects: ObjectStore | None = None  # where large bodies are; None: with the rows
    disk: DiskCache | None = None
    reigning: Callable[[], AbstractAsyncContextManager[object]] = nullcontext  # what else an owner runs
    claim: Claim | None = None
    directory: Directory = field(init=False)
    storage: Storage = field(init=False)
    _cache: NodeCache = field(default_factory=NodeCache)
    _places: dict[UUID, _Place] = field(default_factory=dict)
    _failed: dict[UUID, int] = field(default_factory=dict)
    _tasks: asyncio.TaskGroup | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _crowded: asyncio.Event = field(default_factory=asyncio.Event)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _owed: Callable[[], Awaitable[None]] | None = None
    _waker: Waker | None = None
    _left: int = 0
    _settled: asyncio.Event = field(default_factory=asyncio.Event)
    _owns: asyncio.Event = field(default_factory=asyncio.Event)
    _is_guest: asyncio.Event = field(default_factory=asyncio.Event)
    _lapsed: UUID | None = None  # the session under which this node last lost the store
    _ends: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        clock, entropy, policy = self.clock, self.entropy, self.loader.policy
        self.directory = Directory(self.engine, clock, entropy)
        self.storage = Storage(self.engine, self.cas, self.directory, clock, entropy, policy)
        self.loader.saved = self.storage.saved

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Node]:
        """Host worlds until the block ends; then everything accepted is finished, and the tasks end.

        What the block raises is raised as it is, not in a group. When it is cancelled, finishing may take
        `stall_s` and no longer.
        """
        failure: BaseException | None = None
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as tasks, self.ownership.contending(self._news.set):
                self._tasks = tasks
                ruling = tasks.create_task(self._rule(tasks), name="ownership")
                await self._settled.wait()
                try:
                    yield self
                except BaseException as error:  # noqa: BLE001 - raised again behind the group
                    failure = error
                is_cut_off = isinstance(failure, asyncio.CancelledError)
                self._ends.set()
                self._news.set()
                if is_cut_off:
                    ruling.cancel()  # what runs beside the worlds has no grace then
                await asyncio.wait([ruling])
                self._tasks = None
                await self._close_all(self.loader.stall_s if is_cut_off else None)
                failure = failure or ruling.result()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from failure
        finally:
            self._tasks = None
        if failure is not None:
            raise failure

    @property
    def is_owner(self) -> bool:
        """Tell whether this node works on the worlds."""
        return self.claim is not None

    def when_owner(self, owed: Callable[[], Awaitable[None]]) -> None:
        """Do this whenever the node begins to own the store."""
        self._owed = owed

    async def wait_owner(self) -> None:
        """Wait until this node works on the worlds."""
        await self._owns.wait()

    async def wait_guest(self) -> None:
        """Wait until this node does not work on the worlds."""
        await self._is_guest.wait()

    def may_act(self) -> bool:
        """Tell whether this node owns the store at this very moment."""
        return self.claim is not None and self.claim.is_valid()

    async def _rule(self, tasks: asyncio.TaskGroup) -> Exception | None:
        """Work whenever this node has the claim; until the node ends. Returns what then failed beside worlds.

        That is not raised here: it would end the worlds at once, which have yet to finish.
        """
        while not self._ends.is_set():
            self._news.clear()
            claim = self.ownership.claim
            if claim is None:
                self._is_guest.set()
                self._settled.set()
                await self._news.wait()
                continue
            try:
                await self._reign(claim, tasks)
            except Exception as error:
                if self._ends.is_set():
                    return error
                if not isinstance(error, Unavailable) or not self._settled.is_set():
                    raise
                await asyncio.sleep(LOOK_S)  # the store failed while it began
        return None

    async def _reign(self, claim: Claim, tasks: asyncio.TaskGroup) -> None:
        """Work under one claim, until it is lost or the node ends; then the worlds are closed behind it."""
        watchers: list[asyncio.Task[None]] = []
        self.claim = claim
        self._is_guest.clear()
        try:
            with suppress(Fenced):  # raised here, so that nothing is waited for
                async with self.reigning():
                    self._waker = Waker(self)
                    watchers = [*await self._waker.start(tasks), tasks.create_task(self._look_after())]
                    watchers.append(tasks.create_task(self.storage.look_after(self.collect_s)))
                    if self._owed is not None:
                        watchers.append(tasks.create_task(self._pay(self._owed)))
                    self._owns.set()
                    self._settled.set()
                    await self._until_over(claim)
        finally:
            for watcher in watchers:
                watcher.cancel()
            if not self._ends.is_set():  # a node that is closed says so, and takes nothing as a guest
                self.claim = None
                self._owns.clear()

    async def _until_over(self, claim: Claim) -> None:
        while self.ownership.claim is claim:
            if self._ends.is_set():
                return
            await self._news.wait()
            self._news.clear()
        self._drop_all(fenced("store"))
        raise fenced("store")

    async def _pay(self, owed: Callable[[], Awaitable[None]]) -> None:
        try:
            await owed()
        except CelluleError as error:
            context = {"message": "what this node owed as the new owner failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def _drop_all(self, error: Fenced) -> None:
        """The claim is lost: end all worlds now, whatever they were about to do."""
        self._lapsed = None if self.claim is None else self.claim.node
        self.claim = None
        self._owns.clear()
        self._is_guest.set()
        for place in self._places.values():
            if place.hosted is not None:
                place.hosted.fence(error)
            if place.task is not None:
                place.task.cancel()

    def check_loop(self) -> None:
        """Refuse whoever calls from another event loop than the one that the node runs on."""
        if self._loop is not None and asyncio.get_running_loop() is not self._loop:
            raise Rejected(
                "host.other_loop",
                "this store was opened on another event loop; its worlds work there only",
                hint="Call it where it was opened, or open it as `cellule.open_sync`, for any thread.",
            )

    async def check_owner(self) -> None:
        """Refuse what only the owner of the store may do."""
        if self.may_act():
            return
        self.ownership.check_store()
        raise not_owner(await self.ownership.sessions(), self._lapsed)

    def cas(self, universe: UUID, cache: NodeCache | None = None) -> Cas:
        """The objects of a universe; with a cache of its own for whoever reads very many once."""
        return Cas(
            self.engine, universe, objects=self.objects, cache=cache or self._cache, disk=self.disk,
            entropy=self.entropy,
        )  # fmt: skip

    @property
    def loaded(self) -> int:
        """How many worlds are in memory."""
        return len(self._places)

    def is_loaded(self, world: UUID) -> bool:
        """Tell whether a world is in memory: opening, at work, or leaving."""
        return world in self._places

    def may_rouse(self, world: UUID) -> bool:
        """Tell whether a world may be opened without a caller: not soon after it was found broken."""
        return self.clock.monotonic_ns() >= self._failed.get(world, 0)

    def receipts_arrived(self, _universe: UUID, world: UUID, rows: Rows, ready: bytes) -> None:
        """The pool put receipts into a world's inbox: one at work gets them at once, others hear the bell."""
        hosted = self.at_work(world)
        if hosted is not None:
            hosted.bring(rows, ready)

    # Universes and worlds

    async def universe(self, name: str = DEFAULT_UNIVERSE, *, create: bool = False) -> UniverseInfo:
        """A universe by name; the owner makes the default one when it is first needed."""
        self.check_loop()
        may_create = create or (name == DEFAULT_UNIVERSE and self.is_owner)
        if not may_create or await self.directory.find_universe(name) is not None:
            return await self.directory.universe(name)
        try:
            return await self.directory.create_universe(name)
        except Rejected:
            return await self.directory.universe(name)

    async def create_world(
        self, universe: UniverseInfo, name: str, manifest: Manifest, code: dict[Cid, bytes]
    ) -> WorldInfo:
        """Make a world that starts with this manifest; its blocks go into the CAS first."""
        await self.check_owner()
        world = World.create(manifest, UUID(int=0), self.clock.now_ns(), self.loader.programs)
        job, root = _whole_snapshot(world)
        cas, blocks = self.cas(universe.id), {**code, manifest.cid: manifest.data, **job.blocks}

        async def witness() -> Parts:
            since = await cas.generation()
            await put_blocks(cas, blocks)
            return await cas.witness(since)

        try:
            info = await self.directory.create_world(universe, name, root, witness)
        except Rejected:
            # The name of a world that is being deleted is free as soon as that is done.
            leaving = await self.directory.leaving(universe, name)
            if leaving is None:
                raise
            await self.delete_world(leaving)
            info = await self.directory.create_world(universe, name, root, witness)
        hosted = await self.hosted(info)
        with unless_lost(info, hint="It was made all the same: open it by its name."):
            await hosted.wait_durable(1)
        return info

    async def hosted(self, info: WorldInfo, progress: Progress | None = None) -> WorldRunner:
        """The world at work here, loaded if it is not; one that is leaving is waited for."""
        self.check_loop()
        while True:
            await self.check_owner()
            found = self.at_work(info.id)
            if found is not None:
                return found
            place = self._places.get(info.id) or self._open(info, progress)
            if place.opened.is_set():
                await place.gone.wait()
                continue
            await place.opened.wait()
            if isinstance(place.error, Fenced):
                raise lost_world(info, place.error) from place.error
            if place.error is not None:
                raise place.error
            if place.hosted is not None and place.hosted.accepts:
                return place.hosted  # even if it is to leave: whoever waited for it gets a turn

    def at_work(self, world: UUID) -> WorldRunner | None:
        """The world if it is loaded and stays: what `hosted` finds without waiting."""
        place = self._places.get(world)
        if place is None or place.hosted is None or place.is_closing or not place.hosted.accepts:
            return None
        return place.hosted

    async def delete_world(self, info: WorldInfo) -> None:
        """Remove a world and everything it wrote."""
        await self.check_owner()
        await self.release(info)
        await delete_rows(self.engine, self.directory, info, self.clock.now_ns())
        await repair(self.engine, self.cas(info.universe), info.id, _none, self.clock.now_ns())
        await delete_names(self.engine, info)

    async def delete_universe(self, name: str) -> None:
        """Remove an empty universe and everything in its CAS."""
        await self.check_owner()
        universe = await self.directory.find_universe(name) or await self.directory.universe(name)
        await delete_universe(self.engine, self.directory, self.objects, universe)

    async def release(self, info: WorldInfo) -> None:
        """Let a world finish and leave memory; it comes back when it is needed."""
        place = self._places.get(info.id)
        if place is not None:
            await self._close(place)

    def _open(self, info: WorldInfo, progress: Progress | None) -> _Place:
        if self._tasks is None:
            raise node_closed()
        place = self._places[info.id] = _Place(info)
        place.task = self._tasks.create_task(self._live(place, progress), name=f"world {info.name}")
        if len(self._places) > self.worlds_max:
            self._crowded.set()
        return place

    async def _live(self, place: _Place, progress: Progress | None) -> None:
        """A world's whole life here."""
        try:
            if self.claim is None:
                raise fenced(place.info.name)
            cas = self.cas(place.info.universe)
            hosted = await self.loader.open(place.info, cas, self.claim, progress)
            place.hosted = hosted
            _log.info("world %s is loaded", place.info.name)
            place.opened.set()
            if place.is_closing:
                hosted.close()
            await hosted.run()
            if isinstance(hosted.ended, InvariantBroken | Corrupted):
                self.report(place.info, hosted.ended)
        except CelluleError as error:
            place.error = error
        except Exception as error:  # noqa: BLE001 - a defect in one world leaves the others alone
            place.error = InvariantBroken(
                "host.world_failed",
                "world {world} could not be opened: {why!r}",
                world=place.info.name,
                why=error,
            )
            place.error.__cause__ = error
        finally:
            if place.hosted is not None:
                self.loader.leave(place.info, place.hosted)
            _log.info("world %s left memory", place.info.name)
            del self._places[place.info.id]
            self._collect()
            if self._waker is not None:
                self._waker.leaves(place.info.id)
            place.opened.set()
            place.gone.set()

    def _collect(self) -> None:
        """A world that leaves is a circle of many objects, and Python looks for old ones too rarely."""
        self._left += 1
        if self._left >= LEFT_COLLECT and gc.isenabled():
            self._left = 0
            gc.collect()

    def report(self, info: WorldInfo, error: CelluleError) -> None:
        """A person has to look at this, whether or not somebody waits; only callers open it for now."""
        self._failed[info.id] = self.clock.monotonic_ns() + int(FAILED_REST_S * 1e9)
        _log.error("world %s (%s) was stopped: %s", info.name, info.id, error)
        context = {"message": f"world {info.name} ({info.id}) was stopped", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)

    def report_store(self, error: CelluleError) -> None:
        """The store itself is damaged where worlds are looked for; those at work go on."""
        context = {"message": "the store is damaged", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)

    async def _close(self, place: _Place) -> None:
        place.is_closing = True
        if place.hosted is not None:
            place.hosted.close()
        await place.gone.wait()

    async def _close_all(self, most_s: float | None) -> None:
        """Let all worlds finish and go."""
        places = list(self._places.values())
        for place in places:
            place.is_closing = True
            if place.hosted is not None:
                place.hosted.close()
        tasks = [place.task for place in places if place.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=most_s)
        for task in tasks:
            task.cancel()

    async def _look_after(self) -> None:
        """Let worlds go that have nothing to do."""
        while True:
            await self._release_idle()
            self._crowded.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._crowded.wait()

    async def _release_idle(self) -> None:
        now_ns = self.clock.monotonic_ns()
        at_work = [(each.hosted, each) for each in self._places.values() if each.hosted is not None]
        by_age = sorted(at_work, key=lambda pair: pair[0].idle_since_ns)
        excess = len(by_age) - self.worlds_max
        for position, (hosted, place) in enumerate(by_age):
            old = now_ns - hosted.idle_since_ns > self.idle_s * 1e9
            if hosted.is_idle and not place.is_closing and (old or position < excess):
                await self._close(place)


def lost_world(info: WorldInfo, why: Fenced, hint: str = "Nothing was changed: try again.") -> Unavailable:
    """What callers are told when a world was lost before they got it, or while they waited."""
    return Unavailable(
        "host.world_lost", "world {world} is not this node's any more: {why}", world=info.name, why=why,
        hint=hint,
    )  # fmt: skip


@contextmanager
def unless_lost(info: WorldInfo, hint: str = "Try again.") -> Iterator[None]:
    """Wait for a world at work; `Fenced` is for the node, callers are told what they can do."""
    try:
        yield
    except Fenced as error:
        raise lost_world(info, error, hint) from error


async def _none() -> Wanted:
    return Wanted([])  # of a world that is gone


def _whole_snapshot(world: World) -> tuple[SnapshotJob, Cid]:
    """The snapshot of a world that needs nothing from the CAS: a new one."""
    job = world.snapshot()
    while not isinstance(answer := world.snapshot_slice(), Cid):
        pass
    return job, answer
