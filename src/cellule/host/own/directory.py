"""Universes and worlds by name: what exists in a store, and the rows a new world starts with.

universes/<name>            -> id (16 bytes)
u/<universe>/meta           -> {created_ns, name}
u/<universe>/worlds/<world> -> {created_ns, name}
u/<universe>/refs/<name>    -> id (16 bytes); a world's name is its first ref
w/<universe>/<world>/meta   -> {created_ns, name}
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any
from uuid import UUID

from cellule.errors import Corrupted, Rejected
from cellule.host.journal import Head
from cellule.host.store_retry import settle
from cellule.sources import Clock, Entropy, uuid7
from cellule.store import keys
from cellule.store.engine import SCAN_LIMIT_MAX, Batch, Engine
from cellule.store.families import world_ranges
from cellule.values.cbor import decode, encode
from cellule.values.cid import Cid


@dataclass(frozen=True, slots=True)
class UniverseInfo:
    """A universe as the directory knows it."""

    id: UUID
    name: str
    created_ns: int


@dataclass(frozen=True, slots=True)
class WorldInfo:
    """A world as the directory knows it."""

    id: UUID
    universe: UUID
    name: str
    created_ns: int


class Directory:
    """What exists in one store."""

    def __init__(self, engine: Engine, clock: Clock, entropy: Entropy) -> None:
        self._engine = engine
        self._clock = clock
        self._entropy = entropy

    # Universes

    async def universes(self) -> list[UniverseInfo]:
        """All universes, by name."""
        begin, end = keys.universe_name_range()
        page = await self._engine.scan(begin, end, limit=SCAN_LIMIT_MAX)
        ids = [UUID(bytes=value) for _, value in page.items]
        rows = await self._engine.read([keys.universe_meta(each) for each in ids])
        return [_universe(each, row) for each, row in zip(ids, rows, strict=True) if row is not None]

    async def universe(self, name: str) -> UniverseInfo:
        """The universe of that name; `Rejected` with suggestions where there is none."""
        [found] = await self._engine.read([keys.universe_name(name)])
        if found is None:
            known = [each.name for each in await self.universes()]
            raise Rejected(
                "host.no_universe", "there is no universe {name}", name=name, hint=suggestion(name, known)
            )
        universe = UUID(bytes=found)
        [row] = await self._engine.read([keys.universe_meta(universe)])
        return _universe(universe, row or encode({"created_ns": 0, "name": name}))

    async def create_universe(self, name: str) -> UniverseInfo:
        """Make a universe."""
        now_ns = self._clock.now_ns()
        universe = uuid7(now_ns, self._entropy.bytes(10))
        key = keys.universe_name(name)
        row = encode({"created_ns": now_ns, "name": name})
        batch = Batch(expect={key: None}, set={key: universe.bytes, keys.universe_meta(universe): row})
        if not await settle(self._engine, batch, key, universe.bytes):
            raise Rejected("host.universe_exists", "there is a universe {name} already", name=name)
        return UniverseInfo(universe, name, now_ns)

    async def delete_universe(self, universe: UniverseInfo) -> None:
        """Remove an empty universe."""
        worlds = await self.worlds(universe.id)
        if worlds:
            raise Rejected(
                "host.universe_not_empty", "universe {name} still has {count} worlds",
                name=universe.name, count=len(worlds), hint="Delete its worlds first.",
            )  # fmt: skip
        await self._engine.commit(
            Batch(clear=[keys.universe_name(universe.name), keys.universe_meta(universe.id)])
        )

    # Worlds

    async def worlds(self, universe: UUID) -> list[WorldInfo]:
        """All worlds of a universe, by creation."""
        begin, end = keys.universe_world_range(universe)
        found: list[WorldInfo] = []
        while True:
            page = await self._engine.scan(begin, end, limit=SCAN_LIMIT_MAX)
            for key, value in page.items:
                row: Any = decode(value)
                found.append(WorldInfo(UUID(bytes=key[-16:]), universe, row["name"], row["created_ns"]))
            if not page.more:
                return found
            begin = page.items[-1][0] + b"\0"

    async def world(self, universe: UniverseInfo, name: str) -> WorldInfo:
        """The world a ref of that name points to, or of that id."""
        [found] = await self._engine.read([keys.ref(universe.id, name)])
        if found is None:
            return await self._world_by_id(universe, name)
        return await self._world(universe, UUID(bytes=found), name)

    async def create_world(self, universe: UniverseInfo, name: str, baseline: Cid) -> WorldInfo:
        """Make a world with the baseline of its empty state, in one batch; its blocks are in the CAS."""
        now_ns = self._clock.now_ns()
        world = uuid7(now_ns, self._entropy.bytes(10))
        row = encode({"created_ns": now_ns, "name": name})
        named = keys.ref(universe.id, name)
        rows = {
            named: world.bytes,
            keys.universe_world(universe.id, world): row,
            keys.world_meta(universe.id, world): row,
            keys.world_head(universe.id, world): Head(0, 0, None).row(),
            keys.world_baseline(universe.id, world): baseline_row(0, baseline),
            keys.snapshot(universe.id, world, 0): bytes(baseline),
        }
        if not await settle(self._engine, Batch(expect={named: None}, set=rows), named, world.bytes):
            raise Rejected(
                "host.world_exists", "there is a world {name} in universe {universe} already",
                name=name, universe=universe.name,
            )  # fmt: skip
        return WorldInfo(world, universe.id, name, now_ns)

    async def delete_world(self, world: WorldInfo) -> None:
        """Remove a world, its journal and its names; what it had in the CAS is left to collection."""
        begin, end = keys.ref_range(world.universe)
        page = await self._engine.scan(begin, end, limit=SCAN_LIMIT_MAX)
        shard = keys.shard_of(world.id)
        clear = [key for key, value in page.items if value == world.id.bytes]
        clear += [keys.universe_world(world.universe, world.id), keys.ready(shard, world.universe, world.id)]
        [head] = await self._engine.read([keys.world_head(world.universe, world.id)])
        wake_ns = None if head is None else Head.of_row(head).wake_ns
        if wake_ns is not None:
            clear.append(keys.wake(shard, wake_ns, world.universe, world.id))
        await self._engine.commit(Batch(clear=clear))
        for begin, end in world_ranges(world.universe, world.id):
            await self._engine.commit(Batch(clear_range=[(begin, end)]))

    async def listed(self, universe: UUID, world: UUID) -> WorldInfo | None:
        """A world by its id, if it is there."""
        [stored] = await self._engine.read([keys.universe_world(universe, world)])
        if stored is None:
            return None
        row: Any = decode(stored)
        return WorldInfo(world, universe, row["name"], row["created_ns"])

    async def _world_by_id(self, universe: UniverseInfo, name: str) -> WorldInfo:
        try:
            world = UUID(name)
        except ValueError:
            known = [each.name for each in await self.worlds(universe.id)]
            raise Rejected(
                "host.no_world", "there is no world {name} in universe {universe}",
                name=name, universe=universe.name, hint=suggestion(name, known),
            ) from None  # fmt: skip
        return await self._world(universe, world, name)

    async def _world(self, universe: UniverseInfo, world: UUID, name: str) -> WorldInfo:
        [stored] = await self._engine.read([keys.world_meta(universe.id, world)])
        if stored is None:
            raise Rejected(
                "host.no_world", "there is no world {name} in universe {universe}",
                name=name, universe=universe.name,
            )  # fmt: skip
        row: Any = decode(stored)
        return WorldInfo(world, universe.id, row["name"], row["created_ns"])


def baseline_row(height: int, snapshot: Cid) -> bytes:
    """The row that says where restore starts."""
    return encode({"height": height, "snapshot": bytes(snapshot)})


def baseline_of(stored: bytes) -> tuple[int, Cid]:
    """Read a baseline row."""
    row: Any = decode(stored)
    return row["height"], Cid.of_bytes(row["snapshot"])


def suggestion(name: str, known: list[str]) -> str:
    """What the caller may have meant."""
    if not known:
        return "There is none yet."
    close = get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return f"Did you mean {', '.join(close)}?"
    return f"There are: {', '.join(sorted(known)[:8])}{', ...' if len(known) > 8 else ''}."


def _universe(universe: UUID, stored: bytes) -> UniverseInfo:
    row: Any = decode(stored)
    return UniverseInfo(universe, row["name"], row["created_ns"])


async def read_head(engine: Engine, info: WorldInfo) -> Head:
    """The newest committed frame of a world."""
    [stored] = await engine.read([keys.world_head(info.universe, info.id)])
    if stored is None:
        raise Corrupted("host.no_head", "world {world} has no head", world=info.name)
    return Head.of_row(stored)
