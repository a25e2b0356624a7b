"""Bringing nodes of the CAS to the kernel, which asks for all it needs at once and never waits itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import TypeVar

from cellule.errors import Corrupted, Rejected
from cellule.host.limits import NODES_FETCH_MAX
from cellule.kernel.need import Need, Nodes, Pause
from cellule.store.cas import Cas
from cellule.values.cid import Cid

T = TypeVar("T")
Feed = Callable[[Need], Awaitable[None]]
"""Brings the erasure keys that a walk asks for; without one they are not to be had."""


async def drive(
    generator: Generator[Need | Pause, None, T], nodes: Nodes, cas: Cas, feed: Feed | None = None
) -> T:
    """Run a kernel generator to its end, reading the nodes it asks for from the CAS; keys come by `feed`."""
    try:
        while True:
            asked = next(generator)
            if isinstance(asked, Need) and asked.keys and feed is not None:
                await feed(asked)
            elif isinstance(asked, Need):
                wanted = await cas.present(asked.cids) if asked.is_optional else asked.cids
                nodes.add(await fetch_nodes(cas, wanted))
            else:
                await asyncio.sleep(0)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def fetch_nodes(cas: Cas, cids: tuple[Cid, ...]) -> dict[Cid, bytes]:
    """The nodes of the CAS, in bounded groups."""
    found: dict[Cid, bytes] = {}
    try:
        for start in range(0, len(cids), NODES_FETCH_MAX):
            found.update(await cas.get_many(cids[start : start + NODES_FETCH_MAX]))
    except Rejected as error:
        raise _missing(error) from error
    return found


async def fetch_block(cas: Cas, cid: Cid) -> bytes:
    """A block that the store must have, because something of its own links it; `Corrupted` without it."""
    try:
        return await cas.get(cid)
    except Rejected as error:
        raise _missing(error) from error


async def fetch_present(cas: Cas, cids: tuple[Cid, ...]) -> dict[Cid, bytes]:
    """The same for a beat, which knows what a missing node means: those that are there."""
    try:
        return await fetch_nodes(cas, cids)
    except Corrupted:
        present = [cid for cid in cids if await cas.has(cid)]
        return await fetch_nodes(cas, tuple(present))


def _missing(why: Rejected) -> Corrupted:
    return Corrupted(
        "host.node_missing", "a block that a world needs is missing: {why}", why=why,
        hint="Keep a copy of the store, run `cellule check`, and restore a backup.",
    )  # fmt: skip


async def put_blocks(cas: Cas, blocks: Mapping[Cid, bytes]) -> None:
    """Put blocks whose CIDs are known; each under the codec its CID names."""
    dag = [data for cid, data in blocks.items() if cid.codec == "dag-cbor"]
    raw = [data for cid, data in blocks.items() if cid.codec == "raw"]
    if dag:
        await cas.put_many(dag, "dag-cbor", trusted=True)
    if raw:
        await cas.put_many(raw, "raw", trusted=True)
