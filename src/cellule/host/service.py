"""An open store as users hold it: worlds by name, their creation and deploys, universes.

`deploy` says what happens when a world's stored manifest is not the app's: `auto` journals a compatible
change and refuses an incompatible one with the differences, `require` refuses any, `never` works with what
is stored. A manifest that the world ran in an earlier era is never deployed by `auto`: an old script does not
bring old code back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal
from uuid import UUID
from weakref import WeakValueDictionary

from cellule.app.built_app import Built
from cellule.errors import Rejected
from cellule.host.archive.exporter import Exported
from cellule.host.archive.files import export_world, import_world
from cellule.host.branches.answers import Script
from cellule.host.branches.difference import WorldDifference, difference_of
from cellule.host.branches.fork import At, ForkOptions, fork_codecs, fork_world
from cellule.host.branches.lineage import check_no_descendants
from cellule.host.branches.merge import MergeReport, merge_worlds
from cellule.host.branches.point import point_of
from cellule.host.branches.what_if import WhatIf, WhatIfOptions, what_if
from cellule.host.cas_fetch import put_blocks
from cellule.host.codecs import AppCodecs, StoredCodecs, WorldCodecs
from cellule.host.ingress.arguments import check_list, check_who_and_why
from cellule.host.ingress.checked_calls import checked_calls
from cellule.host.ingress.handles import WorldHandle
from cellule.host.ingress.outcomes import Applied
from cellule.host.ingress.world_storage import WorldStorage
from cellule.host.journal import Progress
from cellule.host.limits import COLLECT_GRACE_S, DEPLOY_PIN_S, SHADOW_RECENT
from cellule.host.manifest_document import Document, Folder, load_document
from cellule.host.node import DEFAULT_UNIVERSE, Node, unless_lost
from cellule.host.own.directory import UniverseInfo, WorldInfo, id_of
from cellule.host.own.ownership import SessionInfo
from cellule.host.own.refs import Ref, create_ref, delete_ref, list_refs, move_ref
from cellule.host.read.reader import Reader
from cellule.host.read.shadow import ShadowReport, shadow_world
from cellule.host.read.spill_report import SpillReport, follow_spill, preview_spill
from cellule.host.storage.collection_state import CollectionState
from cellule.host.storage.collector import CollectProgress
from cellule.host.storage.explain import Explanation
from cellule.host.storage.pins import Pin
from cellule.host.storage.quotas import Quotas, Usage
from cellule.kernel.items import Verb
from cellule.kernel.manifest.compare import ManifestChange, compare_manifests, is_spill, returning
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.state.branch import DROP
from cellule.values.cid import Cid
from cellule.values.link import Link
from cellule.values.records import EventLike

Deploy = Literal["auto", "require", "never"]
DEFAULT_WORLD = "main"

_log = logging.getLogger("cellule.host")


@checked_calls()
class Cellule:
    """An open store."""

    def __init__(self, node: Node, built: Built | None, deploy: Deploy) -> None:
        self.node = node
        self._built = built
        self._deploy = deploy
        self._handles: WeakValueDictionary[UUID, WorldHandle] = WeakValueDictionary()
        self._owed: dict[UUID, WorldInfo] = {}  # worlds to deploy to when this node owns them
        self._turns: WeakValueDictionary[UUID, asyncio.Lock] = WeakValueDictionary()
        node.when_owner(self._deploy_owed)

    @property
    def is_owner(self) -> bool:
        """Tell whether this process works on the worlds now; others read and enqueue."""
        return self.node.is_owner

    async def wait_owner(self) -> None:
        """Wait until this process works on the worlds: until the owner before it is gone."""
        await self.node.wait_owner()

    async def wait_guest(self) -> None:
        """Wait until this process does not work on the worlds: until it lost them."""
        await self.node.wait_guest()

    async def sessions(self) -> list[SessionInfo]:
        """The nodes of the store: who owns it, since when, and how long that lasts unless it is renewed."""
        return await self.node.ownership.sessions()

    async def world(
        self, name: str = DEFAULT_WORLD, *, universe: str = DEFAULT_UNIVERSE, create: bool | None = None
    ) -> WorldHandle:
        """A world by name. With an app it is made when it is missing (`create=False` refuses instead)."""
        info = await self._found(name, universe, create=create is not False)
        async with self._turn(info):  # so that a world is deployed to once
            if (handle := self._handles.get(info.id)) is None:
                handle = self._handles[info.id] = await self._handle(info)
            return handle

    async def create_world(
        self, name: str, *, manifest: Document | None = None, code: Folder | None = None,
        universe: str = DEFAULT_UNIVERSE,
    ) -> WorldInfo:  # fmt: skip
        """Make a world that runs the app, or a manifest: a map, or the path of a JSON or YAML file.

        `code` is the folder with the files of code that the manifest names.
        """
        found = await self.node.universe(universe)
        loaded, blocks = await self._loaded(manifest, code, found.id)
        await self.node.storage.check_new_world(found.id)
        return await self.node.create_world(found, name, loaded, blocks)

    async def deploy_world(
        self, name: str, *, manifest: Document | None = None, code: Folder | None = None,
        era: int | None = None, who: str = "cellule.deploy_world", why: str = "asked for",
        dry_run: bool = False, universe: str = DEFAULT_UNIVERSE,
    ) -> ManifestChange:  # fmt: skip
        """Bring a manifest, or the app, into a world; journaled with who and why. Returns what changed.

        `era` rolls back to what the world ran in that era, which is stored with it. A change that its cells
        cannot follow is refused with the reasons; `dry_run` only returns it.
        """
        info = await self.node.directory.world(await self.node.universe(universe), name)
        async with self._turn(info):
            stored = await Reader(self.node, info).manifest()
            loaded, blocks = await self._meant(info, manifest, code, era)
            change = await self._change(info, stored, loaded)
            if not dry_run and stored.cid != loaded.cid:
                if any(base not in loaded.modules for base in stored.modules):
                    await self.node.check_owner()  # only the owner knows whether a module that goes has cells
                change.check_compatible(info.name)
                await self._bring(info, stored, loaded, blocks, who, why)
            return change

    async def migrate_cells(
        self, name: str, *, manifest: Document | None = None, code: Folder | None = None,
        who: str = "cellule.migrate_cells", why: str = "asked for", dry_run: bool = False,
        universe: str = DEFAULT_UNIVERSE, progress: Progress | None = None,
    ) -> SpillReport:  # fmt: skip
        """Deploy a manifest, or the app, whose modules have cells where they had one map of all keys.

        Beat after beat the maps become cells; this waits for the last one, and holds each cell against its
        entry. `dry_run` does it to a copy. Again, it waits for a move under way, or finds nothing to move.
        """
        info = await self.node.directory.world(await self.node.universe(universe), name)
        reader = Reader(self.node, info)
        async with self._turn(info):
            stored = await reader.manifest()
            loaded, blocks = await self._loaded(manifest, code, info.universe)
            if stored.cid == loaded.cid:
                height = 0 if dry_run else await reader.moving()
            else:
                bases = [base for base in sorted(loaded.modules) if is_spill(stored, loaded, base)]
                (await self._change(info, stored, loaded, bases)).check_compatible(info.name)
                if dry_run:
                    return await preview_spill(self.node.loader, info, reader.cas, loaded, blocks, bases)
                height = (await self._bring(info, stored, loaded, blocks, who, why, verb="cell.spill")).height
        return await follow_spill(reader, self.node.loader, info, height, progress)

    async def shadow_world(
        self, name: str, *, manifest: Document | None = None, code: Folder | None = None,
        era: int | None = None, recent: int | None = SHADOW_RECENT, universe: str = DEFAULT_UNIVERSE,
        progress: Progress | None = None,
    ) -> ShadowReport:  # fmt: skip
        """Run the newest records of a world again under what would be deployed, in memory, and compare.

        `recent` is how many; None takes all history. Recorded receipts answer the effects, and nothing is
        written.
        """
        info = await self.node.directory.world(await self.node.universe(universe), name)
        loaded, blocks = await self._meant(info, manifest, code, era)
        cas = self.node.cas(info.universe)
        return await shadow_world(
            self.node.loader, info, cas, loaded, blocks, recent=recent, progress=progress
        )

    async def fork_world(
        self, source: str, name: str, *, at: At = None, effects: str = DROP, live: bool = False,
        script: Script | None = None, who: str = "cellule.fork_world", why: str = "asked for",
        universe: str = DEFAULT_UNIVERSE, progress: Progress | None = None,
    ) -> WorldHandle:  # fmt: skip
        """Make a world that begins where another one stands, or stood; nothing is deployed to either."""
        options = ForkOptions(effects, live, script, *check_who_and_why(who, why))
        info = await self.node.directory.world(await self.node.universe(universe), source)
        types = await self._types(Reader(self.node, info))
        made = await fork_world(self.node, info, types, name, at, options, progress)
        return WorldHandle(self.node, made, await fork_codecs(Reader(self.node, made), types))

    async def diff_worlds(
        self, left: str, right: str, *, left_at: At = None, right_at: At = None,
        universe: str = DEFAULT_UNIVERSE, progress: Progress | None = None,
    ) -> WorldDifference:  # fmt: skip
        """What differs between two worlds, or two heights of one: cells, and effects of one side only."""
        found = await self.node.universe(universe)
        points = [
            await point_of(self.node, await self.node.directory.world(found, name), at, progress)
            for name, at in ((left, left_at), (right, right_at))
        ]
        return await difference_of(*points)

    async def merge_worlds(
        self, source: str, into: str, *, dry_run: bool = False, who: str = "cellule.merge_worlds",
        why: str = "asked for", universe: str = DEFAULT_UNIVERSE,
    ) -> MergeReport:  # fmt: skip
        """Bring the cells that a fork changed into another world, unless both changed one of them."""
        found = await self.node.universe(universe)
        one, other = [await self.node.directory.world(found, name) for name in (source, into)]
        handle = WorldHandle(self.node, other, await self._types(Reader(self.node, other)))
        put = partial(handle.control, "cell.merge", who=who, why=why)
        return await merge_worlds(self.node, one, other, put, dry_run=dry_run)

    async def what_if(
        self, source: str, events: Iterable[EventLike] = (), *, at: At = None, deploy: bool = False,
        manifest: Document | None = None, code: Folder | None = None, effects: str = DROP,
        script: Script | None = None, replay: bool = False, advance: timedelta | None = None,
        universe: str = DEFAULT_UNIVERSE, progress: Progress | None = None,
    ) -> WhatIf:  # fmt: skip
        """What would happen with these events, this app (`deploy`) or manifest, these answers: in memory."""
        coming = check_list("events", events, "a list of events")
        info = await self.node.directory.world(await self.node.universe(universe), source)
        types = await self._types(Reader(self.node, info))
        loaded: Manifest | None = None
        blocks: dict[Cid, bytes] = {}
        if deploy or manifest is not None:
            loaded, blocks = await self._loaded(manifest, code, info.universe)
            built = None if manifest is not None else self._built
            types = StoredCodecs(loaded) if built is None else AppCodecs(built)
        fork = ForkOptions(effects, script=script, who="what-if", why="tried out")
        encoded = [types.event(event) for event in coming]
        options = WhatIfOptions(loaded, blocks, encoded, fork, replay, advance or timedelta())
        return await what_if(self.node, info, types, at, options, progress)

    async def refs(self, universe: str = DEFAULT_UNIVERSE) -> list[Ref]:
        """All names that point to worlds of a universe."""
        return await list_refs(self.node.engine, (await self.node.universe(universe)).id)

    async def create_ref(self, name: str, world: str, *, universe: str = DEFAULT_UNIVERSE) -> Ref:
        """Give a world one more name."""
        found = await self.node.universe(universe)
        info = await self.node.directory.world(found, world)
        return await create_ref(self.node.engine, self.node.directory, found, name, info)

    async def move_ref(
        self, name: str, world: str, *, expected: UUID | None = None, universe: str = DEFAULT_UNIVERSE
    ) -> Ref:
        """Let a name point to another world; returns where it pointed. `expected` refuses any other."""
        found = await self.node.universe(universe)
        info = await self.node.directory.world(found, world)
        return await move_ref(self.node.engine, self.node.directory, found, name, info, expected)

    async def delete_ref(self, name: str, *, universe: str = DEFAULT_UNIVERSE) -> Ref:
        """Remove a name; the world it pointed to stays."""
        node = self.node
        return await delete_ref(node.engine, node.directory, await node.universe(universe), name)

    async def worlds(self, universe: str = DEFAULT_UNIVERSE) -> list[WorldInfo]:
        """All worlds of a universe."""
        return await self.node.directory.worlds((await self.node.universe(universe)).id)

    async def delete_world(self, name: str, *, force: bool = False, universe: str = DEFAULT_UNIVERSE) -> None:
        """Remove a world and everything it wrote; with `force`, also one that others were forked from."""
        found = await self.node.universe(universe)
        info = await self.node.directory.leaving(found, name) or await self.node.directory.world(found, name)
        if not force:
            check_no_descendants(info, await self.node.directory.worlds(found.id))
        self._handles.pop(info.id, None)
        await self.node.delete_world(info)

    async def universes(self) -> list[UniverseInfo]:
        """All universes of the store."""
        return await self.node.directory.universes()

    async def create_universe(self, name: str) -> UniverseInfo:
        """Make a universe."""
        return await self.node.directory.create_universe(name)

    async def delete_universe(self, name: str) -> None:
        """Remove an empty universe."""
        await self.node.delete_universe(name)

    async def quotas(self, universe: str = DEFAULT_UNIVERSE) -> Quotas:
        """What a universe may have."""
        return await self.node.storage.quotas((await self.node.directory.universe(universe)).id)

    async def set_quotas(self, quotas: Quotas, *, universe: str = DEFAULT_UNIVERSE) -> None:
        """Say what a universe may have: `Quotas(worlds=10, events_per_s=500)`; what it has stays."""
        await self.node.storage.set_quotas(await self.node.universe(universe), quotas)

    async def usage(self, universe: str = DEFAULT_UNIVERSE) -> Usage:
        """What a universe has; looks at all its objects."""
        return await self.node.storage.usage((await self.node.directory.universe(universe)).id)

    async def storage(self, name: str = DEFAULT_WORLD, *, universe: str = DEFAULT_UNIVERSE) -> WorldStorage:
        """What one world keeps: snapshots, old frames, history."""
        found = await self.node.universe(universe)
        return WorldStorage(self.node, await self.node.directory.world(found, name))

    async def export_world(
        self, name: str, path: str | PathLike[str], *, redact: Iterable[str] = (),
        universe: str = DEFAULT_UNIVERSE, progress: Progress | None = None,
    ) -> Exported:  # fmt: skip
        """Write a world to a new CAR file: journal, snapshots, code, schemas, and all they link.

        With `redact`, only its journal without fields of these names: nothing can be made of that file.
        """
        info = await self.node.directory.world(await self.node.universe(universe), name)
        return await export_world(self.node, info, Path(path), redact, progress)

    async def import_world(
        self, path: str | PathLike[str], *, name: str | None = None, dry_run: bool = False,
        universe: str = DEFAULT_UNIVERSE,
    ) -> WorldInfo:  # fmt: skip
        """Make the world of an exported file, under its name or another; refused unless it is whole.

        It has the id it had, and may be in a store once. Its open effects wait for `effect repair`. A dry run
        proves all, and makes nothing.
        """
        found = await self.node.universe(universe)
        return await import_world(self.node, found, Path(path), name, dry_run=dry_run)

    async def collect_garbage(
        self, *, universe: str = DEFAULT_UNIVERSE, grace_s: float = COLLECT_GRACE_S, dry_run: bool = False,
        progress: CollectProgress = lambda _state: None,
    ) -> CollectionState:  # fmt: skip
        """Remove the objects that nothing keeps any more, and return what was found.

        Worlds go on meanwhile. An object goes at the earliest `grace_s` after it was put; with 0, at once.
        One that was interrupted goes on. `dry_run` only tells what would go.
        """
        storage, found = self.node.storage, (await self.node.directory.universe(universe)).id
        if dry_run:
            return await storage.would_collect(found, progress)
        return await storage.collect(found, grace_s=grace_s, progress=progress)

    async def collection(self, universe: str = DEFAULT_UNIVERSE) -> CollectionState | None:
        """How far the collection of garbage is, or how the last one ended; None before the first."""
        return await self.node.storage.state((await self.node.directory.universe(universe)).id)

    async def explain_retention(self, cid: Cid, *, universe: str = DEFAULT_UNIVERSE) -> Explanation:
        """Why an object is kept: one way from what keeps it, or that nothing does."""
        found = (await self.node.directory.universe(universe)).id
        return await self.node.storage.explain(found, cid)

    async def pin(
        self, cids: Sequence[Cid], seconds: float, *, who: str = "cellule.pin", why: str = "asked for",
        universe: str = DEFAULT_UNIVERSE,
    ) -> Pin:  # fmt: skip
        """Keep objects, and what they link, for a while, whatever else does."""
        pins = self.node.storage.pins((await self.node.directory.universe(universe)).id)
        who, why = check_who_and_why(who, why)
        return await pins.add(cids, seconds, who=who, why=why)

    async def pins(self, universe: str = DEFAULT_UNIVERSE) -> list[Pin]:
        """All pins; those that expired go with the next collection."""
        return await self.node.storage.pins((await self.node.directory.universe(universe)).id).all()

    async def unpin(self, pin: UUID, *, universe: str = DEFAULT_UNIVERSE) -> None:
        """Remove a pin."""
        await self.node.storage.pins((await self.node.directory.universe(universe)).id).remove(pin)

    async def _found(self, name: str, universe: str, *, create: bool) -> WorldInfo:
        """The world of that name, made if it is missing and may be."""
        found = await self.node.universe(universe)
        if not create or self._built is None or not self.is_owner or id_of(name) is not None:
            return await self.node.directory.world(found, name)
        if (known := await self.node.directory.find(found, name)) is not None:
            return known
        try:
            return await self.create_world(name, universe=universe)
        except Rejected as error:
            if error.code != "host.world_exists":
                raise
            return await self.node.directory.world(found, name)  # a former owner's commit arrived late

    async def _handle(self, info: WorldInfo) -> WorldHandle:
        reader = Reader(self.node, info)
        stored = await reader.manifest()
        types: WorldCodecs = StoredCodecs(stored)
        if self._built is not None:
            await self._deployed(info, stored, self._built)
            types = AppCodecs(self._built)
        return WorldHandle(self.node, info, types, reader)

    async def _types(self, reader: Reader) -> WorldCodecs:
        """The codecs of a world that nothing is deployed to: the app's where it runs just that."""
        stored = await reader.manifest()
        if self._built is not None and self._built.manifest.cid == stored.cid:
            return AppCodecs(self._built)
        return StoredCodecs(stored)

    async def _deploy_owed(self) -> None:
        """This node took the store over: its app comes into the worlds it was a guest of."""
        for info in list(self._owed.values()):
            async with self._turn(info):
                assert self._built is not None
                await self._deployed(info, await Reader(self.node, info).manifest(), self._built)
                if self.is_owner:
                    self._owed.pop(info.id, None)

    def _turn(self, info: WorldInfo) -> asyncio.Lock:
        """What lets one at a time deploy to a world; worlds do not wait for each other."""
        return self._turns.setdefault(info.id, asyncio.Lock())

    async def _inhabited(self, info: WorldInfo, modules: list[str]) -> list[str]:
        """Those of a world's modules that have cells; only its owner knows, and only its owner deploys."""
        if not modules or not self.is_owner:
            return []
        hosted = await self.node.hosted(info)
        with unless_lost(info):
            return [base for base in modules if await hosted.count(base)]

    async def _deployed(self, info: WorldInfo, stored: Manifest, built: Built) -> None:
        """Bring the app's manifest into the world, as far as `deploy` allows."""
        if stored.cid == built.manifest.cid or self._deploy == "never":
            return
        if self._deploy == "auto" and await Reader(self.node, info).had_manifest(built.manifest.cid):
            _log.warning(
                "world %s has moved on from this app, which it ran in an earlier era. Nothing is deployed; "
                "to go back to it on purpose: cellule world deploy",
                info.name,
            )
            return
        change = await self._change(info, stored, built.manifest)
        if self._deploy == "require":
            raise Rejected(
                "host.deploy_required", "world {world} runs another manifest than the app: {changes}",
                world=info.name, changes="; ".join(str(each) for each in change.changes) or "code only",
                hint='Deploy it, or open with deploy="auto".',
            )  # fmt: skip
        change.check_compatible(info.name)
        if not self.is_owner:
            self._owed[info.id] = info
            return
        await self._bring(info, stored, built.manifest, built.blocks, "cellule.open", "the app changed")
        _say_deployed(info.name, change)

    async def _meant(
        self, info: WorldInfo, manifest: Document | None, code: Folder | None, era: int | None
    ) -> tuple[Manifest, dict[Cid, bytes]]:
        """What a deploy to a world means: an era of its own, or what is given."""
        if era is None:
            return await self._loaded(manifest, code, info.universe)
        if manifest is not None or code is not None:
            raise Rejected(
                "host.deploy_which", "a deploy is of an era or of a manifest, not of both",
                hint="Leave out one of the two.",
            )  # fmt: skip
        return await Reader(self.node, info).era_manifest(era), {}

    async def _loaded(
        self, manifest: Document | None, code: Folder | None, universe: UUID
    ) -> tuple[Manifest, dict[Cid, bytes]]:
        """The manifest that is meant, and its blocks: the app's where none is given."""
        if manifest is not None:
            return await load_document(manifest, code, self.node.loader.programs, self.node.cas(universe))
        if self._built is None:
            raise Rejected(
                "host.no_app", "a world runs an app or a manifest, and neither is given",
                hint="Open the store with app=..., or give manifest=...; with the CLI: --app or --manifest.",
            )  # fmt: skip
        return self._built.manifest, dict(self._built.blocks)

    async def _change(
        self, info: WorldInfo, stored: Manifest, new: Manifest, spilled: Sequence[str] = ()
    ) -> ManifestChange:  # fmt: skip
        """What the new manifest would change for the world's cells."""
        inhabited = await self._inhabited(info, list(stored.modules))
        empty = [base for base in stored.modules if base not in inhabited] if self.is_owner else []
        earlier = await Reader(self.node, info).earlier_manifests() if returning(stored, new) else []
        return compare_manifests(stored, new, inhabited, empty=empty, earlier=earlier, spilled=spilled)

    async def _bring(
        self, info: WorldInfo, stored: Manifest, new: Manifest, blocks: Mapping[Cid, bytes], who: str,
        why: str, verb: Verb = "deploy",
    ) -> Applied[Any]:  # fmt: skip
        """Journal the deploy of a manifest that the world's cells can follow."""
        cas = self.node.cas(info.universe)
        since = await cas.generation()
        await put_blocks(cas, {**blocks, new.cid: new.data})
        handle = WorldHandle(self.node, info, StoredCodecs(stored))
        why_pinned, pins = f"a deploy to world {info.name}", self.node.storage.pins(info.universe)
        async with pins.held([new.cid], DEPLOY_PIN_S, why_pinned, since):
            done = await handle.control(verb, who=who, why=why, manifest=Link(new.cid))
        if (known := self._handles.get(info.id)) is not None and isinstance(known.types, StoredCodecs):
            known.types = StoredCodecs(new)
        return done


def _say_deployed(world: str, change: ManifestChange) -> None:
    level, told = logging.WARNING if change.removed else logging.INFO, "; ".join(map(str, change.changes))
    _log.log(level, "deployed the app to world %s, of another version: %s", world, told or "code only")
