"""Universes and worlds by name: what exists in a store, and the rows a new world starts with.

universes/<name>            -> id (16 bytes), and the same under named/<digest of the name>
u/<universe>/meta           -> {created_ns, name, deleting?}
u/<universe>/worlds/<world> -> {created_ns, name}
u/<universe>/refs/<name>    -> id (16 bytes), and the same under named/<digest>; the first ref is the name
u/<universe>/gone/<world>   -> {deleted_ns, name}: it was deleted
w/<universe>/<world>/meta   -> {created_ns, name}

A damaged page may hide a row, and a row that is not there says nothing. So every name has two rows, and
lists are counted: what must be there and is not is `Corrupted`, and nothing new is made in its place.
Deleting lives in `deletion.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from cellule.errors import CelluleError, Corrupted, Gone, Rejected, Unavailable
from cellule.host.journal import Head
from cellule.host.limits import ATTEMPTS_MAX
from cellule.host.own.counted_rows import HIDDEN, counted_rows, readable
from cellule.host.own.origin import Origin
from cellule.host.own.ready_row import unshared
from cellule.host.own.suggestions import suggestion
from cellule.host.store_retry import settle
from cellule.kernel.lineage import Lineage
from cellule.sources import Clock, Entropy, uuid7
from cellule.store import keys
from cellule.store.cas import Parts
from cellule.store.engine import Batch, Engine
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid


@dataclass(frozen=True, slots=True)
class UniverseInfo:
    """A universe as the directory knows it; `deleting` where its deletion did not end."""

    id: UUID
    name: str
    created_ns: int
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class WorldInfo:
    """A world as the directory knows it."""

    id: UUID
    universe: UUID
    name: str
    created_ns: int
    origin: Origin | None = None  # where it was forked

    @property
    def lineage(self) -> Lineage:
        """The world and those it was forked from."""
        return Lineage(self.id, () if self.origin is None else self.origin.ancestors)


class Directory:
    """What exists in one store."""

    def __init__(self, engine: Engine, clock: Clock, entropy: Entropy) -> None:
        self._engine = engine
        self._clock = clock
        self._entropy = entropy

    # Universes

    async def universes(self) -> list[UniverseInfo]:
        """All universes, by name."""
        rows, _ = await counted_rows(
            self._engine, keys.universe_name_range(), keys.universe_count(), "universes"
        )
        with readable("a universe by its name"):
            ids = [UUID(bytes=value) for _, value in rows]
        found = await self._engine.read([keys.universe_meta(each) for each in ids])
        names = [keys.universe_name_of(key) for key, _ in rows]
        return [_universe(*each) for each in zip(ids, names, found, strict=True)]

    async def find_universe(self, name: str) -> UniverseInfo | None:
        """The universe of that name, if there is one."""
        found = await self._named(name, keys.universe_name(name), keys.universe_named(name))
        if found is None:
            return None
        [row] = await self._engine.read([keys.universe_meta(found)])
        return _universe(found, name, row)

    async def universe(self, name: str) -> UniverseInfo:
        """The universe of that name; `Rejected` with suggestions where there is none."""
        found = await self.find_universe(name)
        if found is None:
            known = [each.name for each in await self.universes()]
            raise Rejected(
                "host.no_universe", "there is no universe {name}", name=name, hint=suggestion(name, known)
            )
        if found.deleting:
            raise Gone(
                "host.universe_deleting", "universe {name} is being deleted", name=name,
                hint=f"If nobody is at it, delete it again: cellule universe delete {name}",
            )  # fmt: skip
        return found

    async def create_universe(self, name: str) -> UniverseInfo:
        """Make a universe."""
        now_ns = self._clock.now_ns()
        universe = uuid7(now_ns, self._entropy.bytes(10))
        key, second = keys.universe_name(name), keys.universe_named(name)
        row = encode({"created_ns": now_ns, "name": name})
        batch = Batch(
            expect={key: None, second: None},
            set={key: universe.bytes, second: universe.bytes, keys.universe_meta(universe): row},
            add={keys.universe_count(): 1},
        )
        if not await settle(self._engine, batch, key, universe.bytes):
            await self.find_universe(name)  # a name of which one row is hidden is damage, not a name in use
            raise Rejected("host.universe_exists", "there is a universe {name} already", name=name)
        return UniverseInfo(universe, name, now_ns)

    # Worlds

    async def worlds(self, universe: UUID) -> list[WorldInfo]:
        """All worlds of a universe, by creation; a damaged row of the list is read from the world's own."""
        rows, damaged = await counted_rows(
            self._engine, keys.universe_world_range(universe), keys.row_count("worlds", universe),
            f"worlds of universe {universe}",
        )  # fmt: skip
        found = [_world(universe, UUID(bytes=key[-16:]), value) for key, value in rows]
        for key in damaged:
            world = UUID(bytes=key[-16:])
            [row] = await self._engine.read([keys.world_meta(universe, world)])
            found.append(_world(universe, world, _present(row, f"the row of world {world}")))
        return sorted(found, key=lambda each: each.id.bytes)

    async def pointed(self, universe: UniverseInfo, name: str) -> UUID | None:
        """The world a ref points to, if there is such a ref."""
        row, second = keys.ref(universe.id, name), keys.ref_named(universe.id, name)
        return await self._named(f"{universe.name}/{name}", row, second)

    async def find(self, universe: UniverseInfo, name: str) -> WorldInfo | None:
        """The world of that name, if there is one; one that is being deleted is none."""
        world = await self.pointed(universe, name)
        return None if world is None else await self.listed(universe.id, world)

    async def world(self, universe: UniverseInfo, name: str) -> WorldInfo:
        """The world a ref of that name points to, or of that id; `Rejected` with suggestions."""
        found = await self.find(universe, name)
        world = id_of(name)
        if found is None and world is not None and any(await self._rows(universe.id, world)):
            found = await self.listed(universe.id, world)
            if found is None:
                raise world_gone(name)
        if found is None:
            known = [each.name for each in await self.worlds(universe.id)]
            raise Rejected(
                "host.no_world", "there is no world {name} in universe {universe}",
                name=name, universe=universe.name, hint=suggestion(name, known),
            )  # fmt: skip
        return found

    async def leaving(self, universe: UniverseInfo, name: str) -> WorldInfo | None:
        """The deleted world that still has this name, or this id, because its deletion did not end."""
        [stored] = await self._engine.read([keys.ref(universe.id, name)])
        world = id_of(name) if stored is None else UUID(bytes=stored)
        _, listed, gone = [None] * 3 if world is None else await self._rows(universe.id, world)
        if world is None or gone is None or stored is listed is None:
            return None
        return WorldInfo(world, universe.id, name, 0)

    async def create_world(
        self, universe: UniverseInfo, name: str, baseline: Cid, witness: Callable[[], Awaitable[Parts]],
        origin: Origin | None = None,
    ) -> WorldInfo:  # fmt: skip
        """Make a world in one batch, with a baseline whose blocks are in the CAS: an empty state, or a fork.

        `witness` gives what the batch expects so that no collection removes them (`Cas.witness`).
        """
        if id_of(name) is not None:
            raise Rejected(
                "host.world_name", "{name} reads as the id of a world, so it cannot be the name of one",
                name=name, hint="Choose a name that is no UUID.",
            )  # fmt: skip
        now_ns = self._clock.now_ns()
        world = uuid7(now_ns, self._entropy.bytes(10))
        from_ = {} if origin is None else {"from": origin.row()}
        row = encode({"created_ns": now_ns, "name": name, **from_})
        head, shard = Head(0, 0, None), keys.shard_of(world)
        if origin is not None:
            head = Head(origin.height, origin.beat, origin.frame)
        named, second = keys.ref(universe.id, name), keys.ref_named(universe.id, name)
        rows = {
            named: world.bytes,
            second: world.bytes,
            keys.universe_world(universe.id, world): row,
            keys.world_meta(universe.id, world): row,
            keys.world_head(universe.id, world): head.row(),
            keys.world_baseline(universe.id, world): baseline_row(head.height, baseline),
            keys.snapshot(universe.id, world, head.height): bytes(baseline),
        }
        add = {keys.row_count("worlds", universe.id): 1}
        if origin is not None:  # whoever owns the store opens it, for its first beat
            rows[keys.ready(shard, universe.id, world)] = unshared(world.bytes)
            add[keys.bell(shard)] = 1
        for _ in range(ATTEMPTS_MAX):
            parts = await witness()
            batch = Batch(expect={named: None, second: None}, set=rows, add=add)
            if await settle(self._engine, parts.into(batch), named, world.bytes):
                return WorldInfo(world, universe.id, name, now_ns, origin)
            if await self.pointed(universe, name) is not None:  # one row of it alone would be damage
                what = "there is a world {name} in universe {universe} already"
                raise Rejected("host.world_exists", what, name=name, universe=universe.name)
        raise Unavailable("host.world_contended", "collections begin again and again while it is made")

    async def listed(self, universe: UUID, world: UUID) -> WorldInfo | None:
        """A world by its id; None where it was deleted."""
        own, row, gone = await self._rows(universe, world)
        if gone is not None:
            return None
        if own is None or row is None:
            raise world_rows(world, "its own row" if own is None else "its row in the list of worlds")
        return _world(universe, world, row)

    async def _rows(self, universe: UUID, world: UUID) -> list[bytes | None]:
        """A world's own row, its row in the list of worlds, and the row that says it was deleted."""
        return await self._engine.read(
            [
                keys.world_meta(universe, world),
                keys.universe_world(universe, world),
                keys.world_gone(universe, world),
            ]
        )

    async def _named(self, name: str, key: bytes, second: bytes) -> UUID | None:
        """The id a name stands for; `Corrupted` where its two rows contradict each other."""
        stored = await self._engine.read([key, second])
        if stored[0] != stored[1]:
            raise Corrupted(
                "host.name_damaged", "the name {name} has two rows, and they contradict each other: {rows}",
                name=name, rows=", ".join("missing" if each is None else each.hex() for each in stored),
                hint=HIDDEN,
            )  # fmt: skip
        return None if stored[0] is None else UUID(bytes=stored[0])


def baseline_row(height: int, snapshot: Cid) -> bytes:
    """The row that says where restore starts."""
    return encode({"height": height, "snapshot": bytes(snapshot)})


def baseline_of(stored: bytes) -> tuple[int, Cid]:
    """Read a baseline row."""
    with readable("the row of a world's baseline"):
        row: Any = decode(stored)
        return row["height"], Cid.of_bytes(row["snapshot"])


def world_rows(world: object, what: str) -> Corrupted:
    """The error of a world of which a row is missing that must be there."""
    return Corrupted(
        "host.world_rows", "world {world} has lost {what}", world=world, what=what,
        hint="Rows are hidden by damage, or there is no world of that id: run `cellule check`.",
    )  # fmt: skip


def world_gone(name: str) -> Gone:
    """The error of a handle whose world was deleted."""
    return Gone("host.world_gone", "world {world} was deleted", world=name)


def id_of(name: str) -> UUID | None:
    """The id that a name reads as, if it does."""
    try:
        return UUID(name)
    except (ValueError, AttributeError, TypeError):
        return None


def _present(row: bytes | None, what: str) -> bytes:
    if row is None:
        raise Corrupted("host.row_missing", "{what} is missing", what=what, hint="Run `cellule check`.")
    return row


def _universe(universe: UUID, name: str, stored: bytes | None) -> UniverseInfo:
    what = f"the row of universe {name}"
    with readable(what):
        row: Any = decode(_present(stored, what))
        return UniverseInfo(universe, row["name"], row["created_ns"], row.get("deleting", False))


def _world(universe: UUID, world: UUID, stored: bytes) -> WorldInfo:
    with readable(f"the row of world {world}"):
        row: Any = decode(stored)
        origin = None if row.get("from") is None else Origin.of_row(row["from"])
        return WorldInfo(world, universe, row["name"], row["created_ns"], origin)


async def lost_row(engine: Engine, info: WorldInfo, what: str) -> CelluleError:
    """Why a row of a world is not there: the world was deleted, or the row was lost."""
    [gone] = await engine.read([keys.world_gone(info.universe, info.id)])
    return world_gone(info.name) if gone is not None else world_rows(info.name, what)


async def read_head(engine: Engine, info: WorldInfo) -> Head:
    """The newest committed frame of a world; `Gone` where it was deleted."""
    [stored] = await engine.read([keys.world_head(info.universe, info.id)])
    if stored is None:
        raise await lost_row(engine, info, "its head")
    return Head.of_row(stored)
