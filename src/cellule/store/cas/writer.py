"""Rows of the CAS, written: absent ones are added, old ones are renewed, current ones are left alone.

Every commit expects exactly the rows it saw. A row that names a body also expects the collection
generation, at most one above that of the body: so once the generation is two above, a body without a row
never gets one (`docs/formats/cas.md` has the proof).

Rejected: expecting the generation for inline rows too. They leave nothing behind, and the generation is
one row that all writers of a universe would queue for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from cellule.errors import CelluleError, Conflict, OutcomeUnknown, Unavailable
from cellule.store import keys
from cellule.store.cas.bodies import Bodies, Made
from cellule.store.cas.contract import ATTEMPTS_MAX, Parts, contended, not_found
from cellule.store.cas.rows import Row, decode_generation, decode_row, encode_generation, encode_row
from cellule.store.cas.transfers import all_of
from cellule.store.engine import Batch, Engine
from cellule.values.cid import Cid

Maker = Callable[[int], Awaitable[Made]]
"""Makes the body of one object, given the generation now."""


@dataclass(slots=True)
class Seen:
    """One snapshot of the generation and the rows of a group."""

    generation_row: bytes | None
    rows: Mapping[Cid, bytes | None]
    generation: int = field(init=False)

    def __post_init__(self) -> None:
        self.generation = decode_generation(self.generation_row)

    def lacks_body(self, cid: Cid, made: Made | None) -> bool:
        """Tell whether an absent object has no body yet, or one too old to be named."""
        if self.rows[cid] is not None:
            return False
        return made is None or (made.generation is not None and self.generation > made.generation + 1)


class Writer:
    """Writes rows of one universe."""

    def __init__(self, engine: Engine, universe: UUID, bodies: Bodies) -> None:
        self._engine = engine
        self._universe = universe
        self._bodies = bodies

    async def see(self, cids: list[Cid]) -> Seen:
        """Read the generation and the rows in one snapshot."""
        row_keys = [keys.cas(self._universe, cid) for cid in cids]
        found = await self._engine.read([keys.cas_generation(self._universe), *row_keys])
        return Seen(found[0], dict(zip(cids, found[1:], strict=True)))

    async def write(self, wanted: Mapping[Cid, Maker]) -> None:
        """Make sure that every object has a row of the current generation.

        `Conflict` never leaves: the rows are read and decided upon again.
        """
        made: dict[Cid, Made] = {}
        cids = list(wanted)
        for _ in range(ATTEMPTS_MAX):
            seen = await self.see(cids)
            lacking = [cid for cid in cids if seen.lacks_body(cid, made.get(cid))]
            await self._make(wanted, lacking, made, seen.generation)
            parts = self.parts(seen, made)
            try:
                if parts.set:
                    await self._engine.commit(Batch(expect=parts.expect, set=parts.set))
            except Conflict:
                continue
            except OutcomeUnknown:
                # A row may name these bodies, so they must stay.
                raise
            except Unavailable:
                await self._discard(made)
                raise
            await self._discard({cid: body for cid, body in made.items() if seen.rows[cid] is not None})
            return
        await self._discard(made)
        raise contended(cids[0])

    def parts(self, seen: Seen, made: Mapping[Cid, Made]) -> Parts:
        """Decide what to expect and set, given a snapshot and the bodies of all absent objects."""
        expect: dict[bytes, bytes | None] = {}
        sets: dict[bytes, bytes] = {}
        for cid, stored in seen.rows.items():
            row_key = keys.cas(self._universe, cid)
            if stored is None:
                body = made[cid]
                expect[row_key] = None
                sets[row_key] = encode_row(Row(seen.generation, body.place))
                sets.update(body.beside)
                if body.generation is not None:
                    self._expect_generation(seen, expect, sets)
                continue
            row = decode_row(cid, stored)
            if row.generation < seen.generation:
                expect[row_key] = stored
                sets[row_key] = encode_row(Row(seen.generation, row.place))
        return Parts(expect, sets)

    def witness(self, seen: Seen) -> Parts:
        """What a batch expects that is to be the first of a generation not to be collected any more."""
        expect: dict[bytes, bytes | None] = {}
        sets: dict[bytes, bytes] = {}
        self._expect_generation(seen, expect, sets)
        return Parts(expect, sets)

    async def renewal(self, cids: list[Cid], needed: set[Cid]) -> Parts:
        """Expect the generation, and set the rows of these objects to it; what is gone is left out."""
        expect: dict[bytes, bytes | None] = {}
        sets: dict[bytes, bytes] = {}
        seen = await self.see(cids)
        for cid in cids:
            if seen.rows[cid] is None and cid in needed:
                raise not_found(cid)
        self._expect_generation(seen, expect, sets)
        there = Seen(seen.generation_row, {cid: row for cid, row in seen.rows.items() if row is not None})
        parts = self.parts(there, {})
        return Parts({**parts.expect, **expect}, {**parts.set, **sets})

    async def renew(self, cids: list[Cid], needed: set[Cid]) -> None:
        """Set the rows of these objects to the generation now."""
        for _ in range(ATTEMPTS_MAX):
            parts = await self.renewal(cids, needed)
            if len(parts.set) <= 1:  # at most the first generation: no row is older
                return
            try:
                await self._engine.commit(Batch(expect=parts.expect, set=parts.set))
            except Conflict:
                continue
            return
        raise contended(cids[0])

    def _expect_generation(
        self, seen: Seen, expect: dict[bytes, bytes | None], sets: dict[bytes, bytes]
    ) -> None:
        key = keys.cas_generation(self._universe)
        expect[key] = seen.generation_row
        if seen.generation_row is None:
            sets[key] = encode_generation(0)

    async def _make(
        self, wanted: Mapping[Cid, Maker], lacking: list[Cid], made: dict[Cid, Made], generation: int
    ) -> None:
        """Make the bodies that are lacking, in place of those that are too old."""
        await self._discard({cid: made.pop(cid) for cid in lacking if cid in made})

        async def make(cid: Cid) -> None:
            made[cid] = await wanted[cid](generation)

        try:
            await all_of([partial(make, cid) for cid in lacking])
        except CelluleError:
            await self._discard(made)
            raise

    async def _discard(self, made: Mapping[Cid, Made]) -> None:
        for cid, body in made.items():
            if body.elsewhere:
                await self._bodies.discard(body.place, cid)
