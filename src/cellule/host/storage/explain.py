"""Why an object is kept: one way from a root to it, or that there is none.

It looks at one root after the other, in memory and within a limit, and stops at the first that leads there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from cellule.errors import Rejected
from cellule.host.limits import COLLECT_READ, EXPLAIN_OBJECTS_MAX
from cellule.host.own.directory import WorldInfo
from cellule.host.storage.roots import Root, universe_roots, world_roots
from cellule.kernel.journal.links import links_of_block
from cellule.store.cas import Cas
from cellule.store.engine import Engine
from cellule.values.cid import Cid


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether an object is stored and what keeps it: a root, and the blocks from there to the object."""

    cid: Cid
    size: int | None  # None: it is not stored
    generation: int | None
    root: str | None  # None: nothing keeps it
    path: tuple[Cid, ...] = ()


async def explain_retention(
    engine: Engine, cas: Cas, worlds: Sequence[WorldInfo], cid: Cid, now_ns: int
) -> Explanation:
    """Find what keeps an object."""
    entry = await cas.entry(cid)
    size, generation = (None, None) if entry is None else (entry.size, entry.generation)
    parents: dict[Cid, Cid | None] = {}
    async for root in _roots(engine, cas, worlds, now_ns):
        if await _reaches(cas, root, cid, parents):
            return Explanation(cid, size, generation, root.what, _path(cid, parents))
    return Explanation(cid, size, generation, None)


async def _roots(engine: Engine, cas: Cas, worlds: Sequence[WorldInfo], now_ns: int) -> AsyncIterator[Root]:
    async for root in universe_roots(engine, cas.universe, now_ns):
        yield root
    for info in worlds:
        async for root in world_roots(engine, cas.universe, info):
            yield root


async def _reaches(cas: Cas, root: Root, wanted: Cid, parents: dict[Cid, Cid | None]) -> bool:
    """Walk from one root, past what was seen before, to the object."""
    front = [cid for cid in (*root.links.ours, *root.links.users) if cid not in parents]
    parents.update(dict.fromkeys(front))
    while front:
        if wanted in parents:
            return True
        page, front = front[-COLLECT_READ:], front[:-COLLECT_READ]
        there = await cas.present([cid for cid in page if cid.codec == "dag-cbor"])
        for parent, data in (await cas.get_many(there)).items():
            links = links_of_block(data)
            new = [cid for cid in (*links.ours, *links.users) if cid not in parents]
            parents.update(dict.fromkeys(new, parent))
            front += new
        if len(parents) > EXPLAIN_OBJECTS_MAX:
            raise Rejected(
                "host.explain_max", "{count} objects were looked at, and {cid} was not among them",
                count=len(parents), cid=str(wanted),
                hint="`cellule gc run --dry-run` says how much is kept, without a limit.",
            )  # fmt: skip
    return wanted in parents


def _path(cid: Cid, parents: dict[Cid, Cid | None]) -> tuple[Cid, ...]:
    path = [cid]
    while (parent := parents[path[-1]]) is not None:
        path.append(parent)
    return tuple(reversed(path))
