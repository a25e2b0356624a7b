"""Refs: names that point to worlds, and may be moved. A world's name is its first ref.

    u/<universe>/refs/<name> and u/<universe>/named/<digest>    -> world id, 16 bytes

A ref moves in a batch that expects the world it pointed to, so of two who move it one is told, and the row of
the world that it points to from then on, so none points to a world that is gone. What works on a world holds
its id, and is not moved with the ref.
"""

from __future__ import annotations

from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

from cellule.errors import Conflict, Corrupted, Rejected
from cellule.host.limits import ATTEMPTS_MAX
from cellule.host.own.counted_rows import HIDDEN
from cellule.host.own.directory import Directory, UniverseInfo, WorldInfo, id_of, world_gone
from cellule.host.store_retry import settle
from cellule.store import keys
from cellule.store.engine import SCAN_LIMIT_MAX, Batch, Engine

REFS_MAX: Final = 100_000  # refs that one list shows


class Ref(NamedTuple):
    """A name, and the world it points to."""

    name: str
    world: UUID


async def list_refs(engine: Engine, universe: UUID) -> list[Ref]:
    """The refs of a universe, by name; `Corrupted` where they and their second rows are not as many."""
    rows: dict[bytes, bytes] = {}
    second: dict[bytes, bytes] = {}
    for _ in range(ATTEMPTS_MAX):
        rows = await _rows(engine, keys.ref_range(universe))
        second = await _rows(engine, keys.ref_range(universe, "named"))
        if len(rows) >= REFS_MAX or sorted(rows.values()) == sorted(second.values()):
            return [Ref(keys.ref_name(key), UUID(bytes=value)) for key, value in rows.items()]
    raise Corrupted(
        "host.list_short", "{found} refs are listed, and {count} have a second row", found=len(rows),
        count=len(second), hint=HIDDEN,
    )  # fmt: skip


async def _rows(engine: Engine, bounds: tuple[bytes, bytes]) -> dict[bytes, bytes]:
    begin, end = bounds
    found: dict[bytes, bytes] = {}
    while len(found) < REFS_MAX:
        page = await engine.scan(begin, end, limit=SCAN_LIMIT_MAX)
        found.update(page.items)
        if not page.more:
            break
        begin = page.items[-1][0] + b"\0"
    return dict(islice(found.items(), REFS_MAX))


async def create_ref(
    engine: Engine, directory: Directory, universe: UniverseInfo, name: str, world: WorldInfo
) -> Ref:
    """Point a new name to a world; `Rejected` where the name is in use."""
    _check_name(name)
    if not await _set(engine, universe, name, None, world.id):
        await directory.find(universe, name)  # a name of which one row is hidden is damage
        raise Rejected(
            "host.ref_exists", "there is a ref {name} in universe {universe} already", name=name,
            universe=universe.name, hint="Move it: cellule ref move NAME WORLD.",
        )  # fmt: skip
    return Ref(name, world.id)


async def move_ref(
    engine: Engine, directory: Directory, universe: UniverseInfo, name: str, world: WorldInfo,
    expected: UUID | None = None,
) -> Ref:  # fmt: skip
    """Point a ref to another world; what it pointed to before. `expected` refuses any other."""
    before = await _pointed(directory, universe, name)
    if expected is not None and before != expected:
        raise _moved(name, before)
    if before != world.id and not await _set(engine, universe, name, before, world.id):
        raise _moved(name, await _pointed(directory, universe, name))
    return Ref(name, before)


async def delete_ref(engine: Engine, directory: Directory, universe: UniverseInfo, name: str) -> Ref:
    """Remove a ref; the world stays. A world's own name goes only with the world, or is moved."""
    before = await _pointed(directory, universe, name)
    owner = await directory.listed(universe.id, before)
    if owner is not None and owner.name == name:
        raise Rejected(
            "host.ref_name", "{name} is the name of world {world}", name=name, world=before,
            hint="Move it to another world, or delete the world.",
        )  # fmt: skip
    rows = [keys.ref(universe.id, name), keys.ref_named(universe.id, name)]
    try:
        await engine.commit(Batch(expect=dict.fromkeys(rows, before.bytes), clear=rows))
    except Conflict as error:
        raise _moved(name, await _pointed(directory, universe, name)) from error
    return Ref(name, before)


async def _pointed(directory: Directory, universe: UniverseInfo, name: str) -> UUID:
    found = await directory.pointed(universe, name)
    if found is None:
        raise Rejected(
            "host.no_ref", "there is no ref {name} in universe {universe}", name=name, universe=universe.name,
            hint="List them: cellule ref list.",
        )  # fmt: skip
    return found


async def _set(engine: Engine, universe: UniverseInfo, name: str, before: UUID | None, world: UUID) -> bool:
    rows = [keys.ref(universe.id, name), keys.ref_named(universe.id, name)]
    pointed = None if before is None else before.bytes
    expect: dict[bytes, bytes | None] = dict.fromkeys(rows, pointed)
    listing = keys.universe_world(universe.id, world)
    [expect[listing]] = await engine.read([listing])
    if expect[listing] is None:
        raise world_gone(str(world))
    return await settle(
        engine, Batch(expect=expect, set=dict.fromkeys(rows, world.bytes)), rows[0], world.bytes
    )


def _check_name(name: str) -> None:
    if id_of(name) is not None:
        raise Rejected(
            "host.world_name", "{name} reads as the id of a world, so it cannot be the name of one",
            name=name, hint="Choose a name that is no UUID.",
        )  # fmt: skip


def _moved(name: str, world: UUID) -> Rejected:
    return Rejected(
        "host.ref_moved", "ref {name} points to world {world} now", name=name, world=world,
        hint="Somebody else moved it: look at it, and decide anew.",
    )  # fmt: skip
