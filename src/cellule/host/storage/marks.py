"""Marks: which objects a collection has reached, and which of those it has yet to read; rows, not memory.

    u/<universe>/marks/<cid>     ""            reached
    u/<universe>/unread/<cid>    "o" | "u"     reached, its links are not; by us (it must be there), or a user

Every write expects the row of the collection, so a collector that was overtaken changes nothing. A child is
marked before its parent counts as read: whatever is interrupted is done again, and nothing is left out. The
marks may be in another engine than the objects: a dry run keeps them in memory.

Rejected: a set in memory. It ends with the process, and grows with the store.
Rejected: a filter of bits. What it takes for reached by mistake would not be read, and its children would go.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from cellule.errors import Conflict, OutcomeUnknown, Unavailable
from cellule.host.limits import ATTEMPTS_MAX, COLLECT_MARKS, COLLECT_READ
from cellule.host.storage.collection_state import CollectionState
from cellule.kernel.journal.links import Links
from cellule.store import keys
from cellule.store.engine import Batch, Engine
from cellule.values.cid import Cid

OURS: Final = b"o"
USERS: Final = b"u"


class PageRead(NamedTuple):
    """Objects whose links were read, those of them that are not stored, and the state with them."""

    read: Collection[Cid]
    missing: Sequence[Cid]
    state: CollectionState


class Marks:
    """The marks of one universe, written under one state of its collection."""

    def __init__(self, engine: Engine, universe: UUID) -> None:
        self._engine = engine
        self._universe = universe
        self._key = keys.collection(universe)
        self._stored: bytes | None = None

    async def read_state(self) -> CollectionState | None:
        """The row of the collection; later writes expect what was read."""
        [self._stored] = await self._engine.read([self._key])
        return None if self._stored is None else CollectionState.of_row(self._stored)

    async def move(self, state: CollectionState) -> None:
        """Write the state; `Unavailable` if another collector took over."""
        await self._commit({self._key: state.row()})
        self._stored = state.row()

    async def marked(self, cids: Sequence[Cid]) -> set[Cid]:
        """Those of these objects that were reached; `Unavailable` if another collector took over."""
        stored, *found = await self._engine.read(
            [self._key, *(keys.cas_mark(self._universe, cid) for cid in cids)]
        )
        if stored != self._stored:
            raise overtaken()
        return {cid for cid, mark in zip(cids, found, strict=True) if mark is not None}

    async def reach(self, links: Links, done: PageRead | None = None) -> None:
        """Mark what these links lead to, if it was not.

        The page that they were read from is done in the last of the batches.
        """
        wanted = dict.fromkeys(links.users - links.ours, USERS) | dict.fromkeys(links.ours, OURS)
        cids = list(wanted)
        rows: dict[bytes, bytes] = {}
        for start in range(0, len(cids), COLLECT_MARKS):
            if rows:
                await self._commit(rows)
            part = cids[start : start + COLLECT_MARKS]
            known = await self.marked(part)
            new = [cid for cid in part if cid not in known]
            rows = {keys.cas_mark(self._universe, cid): b"" for cid in new}
            rows |= {keys.cas_unread(self._universe, cid): wanted[cid] for cid in new}
        clear: list[bytes] = []
        if done is not None:
            rows[self._key] = done.state.row()
            clear = [keys.cas_unread(self._universe, cid) for cid in done.read]
            clear += [keys.cas_mark(self._universe, cid) for cid in done.missing]
        if rows or clear:
            await self._commit(rows, clear)
        if done is not None:
            self._stored = done.state.row()

    async def unread(self) -> dict[Cid, bytes]:
        """Some objects that were reached and not read, and whose they are."""
        begin, end = keys.cas_unread_range(self._universe)
        page = await self._engine.scan(begin, end, limit=COLLECT_READ)
        return {Cid.of_bytes(keys.cas_unread_cid(key)): value for key, value in page.items}

    async def drop(self) -> None:
        """Remove all marks."""
        for place in (keys.cas_unread_range(self._universe), keys.cas_mark_range(self._universe)):
            await self._engine.commit(Batch(clear_range=[place]))

    async def _commit(self, rows: dict[bytes, bytes], clear: Sequence[bytes] = ()) -> None:
        """Write under the state; what was written already may be written again."""
        expect = {self._key: self._stored}
        last: OutcomeUnknown | None = None
        for _ in range(ATTEMPTS_MAX):
            try:
                await self._engine.commit(Batch(expect=expect, set=rows, clear=list(clear)))
            except OutcomeUnknown as error:
                last = error
            except Conflict as error:
                [stored] = await self._engine.read([self._key])
                if last is not None and stored == rows.get(self._key):
                    return  # the one of unknown outcome was applied
                raise overtaken() from error
            else:
                return
        assert last is not None
        raise last


def overtaken() -> Unavailable:
    """The error of a collector that another one took over from."""
    return Unavailable(
        "host.collection_taken", "another process collects in this universe now",
        hint="`cellule gc show` says how far it is.",
    )  # fmt: skip
