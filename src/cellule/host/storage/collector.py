"""The collection of garbage in one universe: what no root reaches goes, in steps that may stop anywhere.

    begin    the generation G begins, in which whoever roots something is safe from this collection
    mark     every root is read, and what it reaches, again until no world is new
    sweep    objects of generation G - 2 and before that are not marked are removed
    orphans  so are bodies that no object names

The protocol and its proof are in `docs/formats/cas.md`; the row `generation` is everybody's witness. A step
is a page; between two of them the collector yields, and rests for as long as its share says. A block of ours
that is missing stops it: what only that block leads to would be removed for good.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from cellule.errors import Corrupted, Rejected, Unavailable
from cellule.host.limits import COLLECT_CLAIM_S, COLLECT_GRACE_S, COLLECT_PAGE
from cellule.host.own.directory import WorldInfo
from cellule.host.storage.collection_state import DONE, MARK, ORPHANS, SWEEP, CollectionState
from cellule.host.storage.marks import OURS, Marks, PageRead
from cellule.host.storage.pins import Pins
from cellule.host.storage.roots import Root, universe_roots, world_roots
from cellule.host.storage.share import TimeShare
from cellule.kernel.journal.links import Links, links_of_block
from cellule.sources import Clock
from cellule.store.cas import Cas, Entry
from cellule.store.cas.contract import GENERATIONS_KEPT
from cellule.store.engine import Engine
from cellule.values.cid import Cid

Worlds = Callable[[], Awaitable[Sequence[WorldInfo]]]
CollectProgress = Callable[[CollectionState], None]
_GATHERED = 2_000  # roots and their links that are marked together


@dataclass(slots=True)
class Collector:
    """Collects in one universe; `run` names this process. Without `pins` it changes nothing: a dry run."""

    engine: Engine
    cas: Cas
    worlds: Worlds
    marks: Marks
    clock: Clock
    run: bytes
    pins: Pins | None = None
    share: float = 1.0  # of the time it may take; the rest it sleeps
    progress: CollectProgress = lambda _state: None
    _time: TimeShare = field(init=False)

    @property
    def is_dry(self) -> bool:
        """Tell whether it only finds out what it would remove."""
        return self.pins is None

    async def collect(self, grace_s: float = COLLECT_GRACE_S) -> CollectionState:
        """Do a whole collection, or the rest of one that was interrupted; returns what it found.

        A new generation begins if the last one began `grace_s` ago. With 0, two begin: then everything goes
        that nothing links at this moment.
        """
        self._time = TimeShare(self.clock, self.share)
        state = await self._begun(grace_s)
        steps = {MARK: self._mark, SWEEP: self._sweep, ORPHANS: self._orphans}
        while state.phase != DONE:
            state = await steps[state.phase](state)
        return state

    async def _begun(self, grace_s: float) -> CollectionState:
        now_ns = self.clock.now_ns()
        last = await self.marks.read_state()
        if last is not None and last.phase != DONE:
            if last.run != self.run and now_ns < last.moved_ns + int(COLLECT_CLAIM_S * 1e9):
                raise Unavailable(
                    "host.collecting", "another process collects in this universe: it is at {phase}",
                    phase=last.phase, hint="Wait for it: cellule gc show",
                )  # fmt: skip
            state = last.moved(now_ns, run=self.run)
            await self.marks.move(state)
            return state
        await self.marks.drop()
        generation, advanced_ns = await self._generation(last, grace_s, now_ns)
        state = CollectionState(generation, self.run, now_ns, now_ns, advanced_ns)
        await self.marks.move(state)
        return state

    async def _generation(self, last: CollectionState | None, grace_s: float, now_ns: int) -> tuple[int, int]:
        """The generation to collect under, and since when it is: a dry run takes the next and begins none."""
        if self.is_dry:
            return await self.cas.generation() + 1, now_ns
        if grace_s <= 0:
            await self.cas.advance_generation()
        elif last is not None and now_ns < last.advanced_ns + int(grace_s * 1e9):
            return await self.cas.generation(), last.advanced_ns
        return await self.cas.advance_generation(), now_ns

    async def _mark(self, state: CollectionState) -> CollectionState:
        """Read all roots and what they reach, until no world is new."""
        seen: set[UUID] = set()
        while True:
            new = [info for info in await self.worlds() if info.id not in seen]
            universe = universe_roots(self.engine, self.cas.universe, self.clock.now_ns())
            state = await self._reach(universe, state)
            for info in new:
                state = await self._reach(world_roots(self.engine, self.cas.universe, info), state)
                seen.add(info.id)
            is_fresh, state = await self._read_all(state, is_again=not new)
            if not new and not is_fresh:  # else a fork or a pin may have come from what went meanwhile
                return await self._moved(state, phase=SWEEP, at="")

    async def _reach(self, roots: AsyncIterator[Root], state: CollectionState) -> CollectionState:
        """Mark what these roots link."""
        found = Links(set(), set())
        looked = 0
        async for root in roots:
            found.ours.update(root.links.ours)
            found.users.update(root.links.users)
            looked += 1 + len(root.links.ours) + len(root.links.users)
            if looked >= _GATHERED:
                await self.marks.reach(found)
                found, looked = Links(set(), set()), 0
                state = await self._moved(state)
        await self.marks.reach(found)
        return await self._moved(state)

    async def _read_all(self, state: CollectionState, *, is_again: bool) -> tuple[bool, CollectionState]:
        """Follow the links of what was reached, until nothing is left to read; tells whether any was there.

        What is not stored loses its mark, and is reached `is_again` by roots that link it still.
        """
        is_fresh = False
        while unread := await self.marks.unread():
            blocks = await self._nodes([cid for cid in unread if cid.codec == "dag-cbor"])
            bare = await self.cas.present([cid for cid in unread if cid.codec == "raw"])
            missing = [cid for cid in unread if cid not in blocks and cid not in bare]
            lost = [cid for cid in missing if unread[cid] == OURS]
            if lost:
                raise _block_missing(lost[0])
            found = Links(set(), set())
            for data in blocks.values():
                links = links_of_block(data)
                found.ours.update(links.ours)
                found.users.update(links.users)
            is_fresh = is_fresh or len(missing) < len(unread)
            dangling = state.counts.dangling + (0 if is_again else len(missing))
            counts = replace(state.counts, dangling=dangling)
            state = state.moved(self.clock.now_ns(), counts=counts)
            await self.marks.reach(found, PageRead(unread, missing, state))
            await self._rest(state)
        return is_fresh, state

    async def _nodes(self, cids: list[Cid]) -> dict[Cid, bytes]:
        """Those of these nodes that are stored."""
        try:
            return await self.cas.get_many(cids)
        except Rejected:
            return await self.cas.get_many(await self.cas.present(cids))

    async def _sweep(self, state: CollectionState) -> CollectionState:
        """Remove what is old and not marked."""
        after = Cid.parse(state.at) if state.at else None
        oldest_kept = state.generation - GENERATIONS_KEPT + 1
        while entries := await self.cas.entries(limit=COLLECT_PAGE, after=after):
            marked = await self.marks.marked([each.cid for each in entries])
            loose = [each for each in entries if each.cid not in marked]
            doomed = [each for each in loose if each.generation < oldest_kept]
            removed = doomed if self.is_dry else await self.cas.remove_many(doomed)
            gone = {each.cid for each in removed}
            waiting = [each for each in loose if each.cid not in gone]
            kept = [each for each in entries if each.cid in marked]
            counts = state.counts
            counts = replace(
                counts, kept=counts.kept + len(kept), kept_bytes=counts.kept_bytes + _bytes(kept),
                removed=counts.removed + len(removed), removed_bytes=counts.removed_bytes + _bytes(removed),
                waiting=counts.waiting + len(waiting), waiting_bytes=counts.waiting_bytes + _bytes(waiting),
            )  # fmt: skip
            after = entries[-1].cid
            state = await self._moved(state, at=str(after), counts=counts)
        return await self._moved(state, phase=ORPHANS, at="")

    async def _orphans(self, state: CollectionState) -> CollectionState:
        """Remove bodies that no object names, pins that expired, and the marks."""
        while True:
            page = await self.cas.orphans(limit=COLLECT_PAGE, after=state.at)
            if not self.is_dry:
                for orphan in page.items:
                    await self.cas.remove_orphan(orphan)
            counts = replace(state.counts, orphans=state.counts.orphans + len(page.items))
            state = await self._moved(state, at=page.after, counts=counts)
            if not page.after:
                break
        if self.pins is not None:
            await self.pins.remove_expired(self.clock.now_ns())
        await self.marks.drop()
        return await self._moved(state, phase=DONE, at="", ended_ns=self.clock.now_ns())

    async def _moved(self, state: CollectionState, **changes: object) -> CollectionState:
        """Note how far it is, and leave the rest of the time to others."""
        moved = state.moved(self.clock.now_ns(), **changes)
        await self.marks.move(moved)
        await self._rest(moved)
        return moved

    async def _rest(self, state: CollectionState) -> None:
        self.progress(state)
        await self._time.rest()


def _bytes(entries: Sequence[Entry]) -> int:
    return sum(each.size for each in entries)


def _block_missing(cid: Cid) -> Corrupted:
    return Corrupted(
        "host.collection_block_missing", "the block {cid} is linked and not stored, so nothing is removed",
        cid=str(cid),
        hint="What only this block leads to would be removed for good: see `cellule gc explain-retention`, "
        "run `cellule check`, and restore the block from a backup.",
    )  # fmt: skip
