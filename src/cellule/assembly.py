"""The composition root: an address and options in, a wired node out. The one place that names concrete parts.

async with cellule.open("data", app=app) as node:
    world = await node.world("shop")

What belongs to a machine and not to the store (spilled cells, bodies at hand, secrets) is in a folder of its
own: the one the options name, else the data folder, else the system's temporary folder.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import get_args

from cellule.app import App, Built
from cellule.effects.adapter import Adapter, Adapters, check_adapter
from cellule.effects.registry import standard_adapters
from cellule.effects.secrets import Secrets
from cellule.effects.secrets.defaults import default_secrets
from cellule.effects.secrets.redactor import redacted_logs
from cellule.errors import Rejected
from cellule.host.ingress.arguments import check_list, refuse_argument, shown
from cellule.host.ingress.checked_calls import check_fields
from cellule.host.limits import (
    BEAT_INTERVAL_S,
    COLLECT_INTERVAL_S,
    IDLE_S,
    SESSION_CONNECTIONS,
    SESSION_TTL_S,
    SNAPSHOT_RESTORE_S,
    SNAPSHOT_TAIL_BYTES,
    STALL_S,
    TAIL_RECORDS,
    TAIL_S,
    WORLDS_MAX,
)
from cellule.host.node import Node
from cellule.host.outbox.pool import Pool
from cellule.host.outbox.signatures import NodeKey, copy_key, folder_key, shared_key
from cellule.host.own.folder import FolderLock, FolderOwnership, keep_private, make_folder
from cellule.host.own.keeper import ThreadKeeper
from cellule.host.own.lease import Lease
from cellule.host.own.ownership import Alone, Ownership
from cellule.host.run.loader import Loader, pace_of
from cellule.host.run.outgoing import Dispatch
from cellule.host.run.spill import FileSpill
from cellule.host.service import Cellule, Deploy
from cellule.host.storage.policy import StoragePolicy
from cellule.host.tuned_process import tuned
from cellule.kernel.state.module_cells import Budget
from cellule.modules.kinds import CodeKinds
from cellule.modules.python import check_not_loading
from cellule.sources import Clock, Entropy, SystemClock, SystemEntropy, uuid7
from cellule.store.address import MemoryAddress, StoreAddress, parse_address
from cellule.store.copy import Copied, Progress, copy_store
from cellule.store.engines.sqlite import SqliteEngine
from cellule.store.store import DATABASE, Store, StoreOptions, check_data, open_engine, open_store
from cellule.values.words import type_name

CACHE = "cache"
_SOURCES = (
    ("clock", "a Clock: an object with `now_ns` and `monotonic_ns`", ("now_ns", "monotonic_ns")),
    ("entropy", "an Entropy: an object with `bytes`", ("bytes",)),
)
_log = logging.getLogger("cellule.host")
logging.getLogger("cellule").addHandler(logging.NullHandler())  # quiet, unless somebody listens


@dataclass(frozen=True, slots=True)
class Options:
    """What can be chosen about a node."""

    budget: Budget = field(default_factory=Budget)  # memory of one world
    worlds_max: int = WORLDS_MAX  # worlds in memory; beyond it those without work leave first
    idle_s: float = IDLE_S  # a world without work leaves memory after this
    snapshot_bytes: int = SNAPSHOT_TAIL_BYTES  # a world's snapshot is taken when its journal grew by more
    snapshot_restore_s: float = SNAPSHOT_RESTORE_S  # or when opening it again would take longer
    snapshot_every_s: float | None = None  # or so long after the last one, if anything has happened
    tail_records: int = TAIL_RECORDS  # records of a world that stay in rows; older ones go into segments
    tail_s: float = TAIL_S  # and so do those that are older than this
    stall_s: float = STALL_S  # how long a failing disk is waited for before senders are told
    store: StoreOptions = field(default_factory=StoreOptions)  # timeouts, connections, credentials, cache
    scratch: Path | None = None  # for cells that leave memory; None: the data folder, or the temporary one
    create: bool = True  # False: refuse an address without data, and make nothing
    clock: Clock = field(default_factory=SystemClock)
    entropy: Entropy = field(default_factory=SystemEntropy)
    collect_s: float | None = COLLECT_INTERVAL_S  # how often garbage is collected; None: only when asked for
    beat_interval_s: float = BEAT_INTERVAL_S  # between beats that only count, while deadlines in beats wait
    session_ttl_s: float = SESSION_TTL_S  # on a shared store: an owner silent for this long is displaced
    own: bool = True  # False: read and enqueue only, even where nobody owns the folder
    perform: bool = True  # False: effects that are asked for wait for a node that performs them
    adapters: Sequence[Adapter] = ()  # beside the app's and those that come with Cellule; the last one counts
    secrets: Secrets | None = None  # where references are resolved; None: environment, files, vault
    tune_process: bool = True  # thread switching and garbage collection for a process that is mostly a node

    def __post_init__(self) -> None:
        for each in (self, self.budget, self.store):
            check_fields(each)
        adapters = tuple(check_list("adapters", self.adapters, "a list of adapters"))
        object.__setattr__(self, "adapters", adapters)
        for adapter in adapters:
            check_adapter(adapter)
        for name, wanted, methods in _SOURCES:
            if not all(callable(getattr(getattr(self, name), method, None)) for method in methods):
                refuse_argument(name, getattr(self, name), wanted)


def open(
    address: str | PathLike[str],
    app: App | None = None,
    *,
    objects: str | PathLike[str] | None = None,
    deploy: Deploy = "auto",
    options: Options | None = None,
) -> AbstractAsyncContextManager[Cellule]:
    """Open a store. The first process owns it and works; others read and enqueue.

    `address` is a folder (made when it is missing, with one SQLite file in it), `postgresql://...` or
    `memory:`. `objects` says where large values, snapshots and blobs go: a folder, `s3://bucket/prefix`,
    `gs://...` or `az://...`; without it they stay with the rows. Leaving the block finishes everything that
    was accepted. `deploy` says what happens when the app is not what a world runs (see `Cellule`).
    """
    check_not_loading("cellule.open")
    _check_app(app)
    _check_deploy(deploy)
    options = _checked(options)
    return _opened(
        parse_address(address, objects, credentials=options.store.credentials), app, deploy, options
    )


def _check_app(app: object) -> None:
    if app is None or isinstance(app, App):
        return
    what, hint = f"a {type_name(app)}", "Give the object that your decorators belong to."
    if isinstance(app, ModuleType):
        what = f"the module {app.__name__}"
        found = [name for name, value in vars(app).items() if isinstance(value, App)]
        hint = f"Write app={app.__name__}.{found[0]}." if found else hint
    raise Rejected("host.not_an_app", "app is {what}, not a cellule.App", what=what, hint=hint)


def _checked(options: Options | None) -> Options:
    """The options as they are given; the mistakes of the one place where people write them are told there."""
    options = Options() if options is None else options
    if isinstance(options, Options):
        return options
    raise Rejected(
        "host.option", "options is {what}, not cellule.Options", what=f"a {type_name(options)}",
        hint="Write options=cellule.Options(session_ttl_s=20).",
    )  # fmt: skip


def _check_deploy(deploy: object) -> None:
    if not isinstance(deploy, str) or str.__str__(deploy) not in get_args(Deploy):
        raise Rejected(
            "host.deploy", "deploy is {deploy}; it is auto, require or never", deploy=shown(deploy),
            hint="auto brings a compatible change of the app into its worlds, require refuses any, never "
            "works with what is stored.",
        )  # fmt: skip


@asynccontextmanager
async def _opened(
    address: StoreAddress, app: App | None, deploy: Deploy, options: Options
) -> AsyncIterator[Cellule]:
    built = None if app is None else await _built(app)
    async with AsyncExitStack() as stack:
        is_new = _check_folder(address, options)
        store = await stack.enter_async_context(
            open_store(
                address, _store_options(address, options), create=options.create, entropy=options.entropy
            )
        )
        if is_new:
            keep_private(address.folder)
        programs = CodeKinds()
        stack.callback(programs.close)
        scratch = options.scratch or address.folder or Path(tempfile.gettempdir())
        loader = Loader(
            store.engine, programs, options.clock, options.entropy, options.budget,
            pace_of(options.beat_interval_s), lambda: FileSpill(scratch), _policy(options),
            options.stall_s, dispatch=Dispatch(),
        )  # fmt: skip
        node = Node(
            store.engine, loader, options.clock, options.entropy, _ownership(store, options),
            options.idle_s, options.worlds_max, objects=store.objects, disk=store.disk,
            collect_s=options.collect_s,
        )  # fmt: skip
        node.vouch = lambda: _key(store, options)
        node.reigning = lambda: _reigning(node, store, built, options)
        cellule = Cellule(node, built, deploy)
        await stack.enter_async_context(node.running())
        _log.info("opened %s", address)
        try:
            yield cellule
        finally:
            _log.info("closing %s", address)


@asynccontextmanager
async def _reigning(node: Node, store: Store, built: Built | None, options: Options) -> AsyncIterator[None]:
    """What runs beside the worlds while the node owns them: a tuned process, and the pool."""
    assert node.loader.dispatch is not None
    node.loader.key = key = await _key(store, options)
    async with AsyncExitStack() as stack:
        if options.tune_process:
            stack.enter_context(tuned())
        if options.perform:
            secrets = options.secrets or default_secrets(store.address.folder)
            stack.enter_context(redacted_logs(secrets.redactor))
            node.pool = node.loader.dispatch.pool = _pool(node, key, built, secrets, options)
            await stack.enter_async_context(node.pool.running())
        _log.info("this node owns %s now", store.address)
        try:
            yield
        finally:
            node.pool = node.loader.dispatch.pool = None
            _log.info("this node does not own %s any more", store.address)


async def copy(
    source: StoreAddress,
    target: StoreAddress,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Copied:
    """Copy a whole store to an empty address, while nodes work on it; see `store/copy.py`.

    A node may run on the source; nobody may use the target before it is whole.
    """
    options = options or Options()
    async with AsyncExitStack() as stack:
        from_ = await stack.enter_async_context(open_store(source, options.store, create=False))
        if target.folder is not None:
            make_folder(target.folder)
            _lock(stack.enter_context(FolderLock(target.folder)), target)
        to = await stack.enter_async_context(open_store(target, options.store, entropy=options.entropy))
        return await copy_store(from_, to, progress, lambda: copy_key(from_, to, options.entropy))


def _lock(lock: FolderLock, target: StoreAddress) -> None:
    if not lock.acquire():
        raise Rejected(
            "store.in_use", "a node works on {target}, so nothing can be copied there", target=str(target),
            hint="Name an empty place.",
        )  # fmt: skip


def _check_folder(address: StoreAddress, options: Options) -> bool:
    """Make the data folder, or refuse one without data; tell whether a new database will be made."""
    if not options.create or address.folder is None:
        check_data(address)
        return False
    make_folder(address.folder)
    return not (address.folder / DATABASE).exists()


def _ownership(store: Store, options: Options) -> Ownership:
    """How this process may come to own the store."""
    folder, chance = store.address.folder, options.entropy
    if folder is not None:
        assert isinstance(store.engine, SqliteEngine)
        files = [folder / DATABASE, *store.engine.files]
        return FolderOwnership(folder, files, options.clock, chance, contends=options.own)
    if isinstance(store.address.rows, MemoryAddress):
        return Alone(uuid7(options.clock.now_ns(), chance.bytes(10)) if options.own else None)
    few = replace(options.store, pool_max=SESSION_CONNECTIONS)
    keeper = ThreadKeeper(lambda: open_engine(store.address, few, create=False))
    return Lease(store.engine, keeper, options.clock, chance, options.session_ttl_s, contends=options.own)


async def _key(store: Store, options: Options) -> NodeKey:
    """What vouches for receipts: a file of the data folder, or a row of a store without one."""
    if store.address.folder is not None:
        return folder_key(store.address.folder, options.entropy)
    return await shared_key(store.engine, options.entropy)


def _policy(options: Options) -> StoragePolicy:
    snapshots = (options.snapshot_bytes, options.snapshot_restore_s, options.snapshot_every_s)
    return StoragePolicy(*snapshots, options.tail_records, options.tail_s)


def _store_options(address: StoreAddress, options: Options) -> StoreOptions:
    """The options of the store; a data folder with a remote object store keeps bodies at hand."""
    if options.store.cache is not None or address.folder is None or not options.own:
        return options.store
    return replace(options.store, cache=address.folder / CACHE)


def _pool(node: Node, key: NodeKey, built: Built | None, secrets: Secrets, options: Options) -> Pool:
    """The adapters of this node: Cellule's own, then the app's, then those of the options."""
    by_kind = {adapter.kind: adapter for adapter in standard_adapters()}
    by_kind |= dict(built.adapters) if built is not None else {}
    by_kind |= {adapter.kind: adapter for adapter in options.adapters}
    return Pool(
        node.engine, Adapters(by_kind.values()), key, node.cas, options.clock, options.entropy,
        secrets=secrets, arrived=node.receipts_arrived, may_begin=node.may_act,
    )  # fmt: skip


async def _built(app: App) -> Built:
    """Build outside the loop: a script that opens a node at its top level must meet our refusal of it."""
    return app.build() if app.is_built() else await asyncio.to_thread(app.build)
