"""Cases of roots: what a batch expects that links objects, beside collections; and removal of many."""
# ruff: noqa: D102 - the name of a case is its sentence

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from cellule.errors import Conflict, Rejected, Unavailable
from cellule.store.cas import OVERTAKEN_ROOT, Parts
from cellule.store.engine import Batch, Engine
from cellule.testing.conformance.cas_collection import SMALL, OpenCas, generations_of
from cellule.values.cid import cid_of


class RootCases:
    """What whoever roots something may rely on."""

    async def test_a_root_is_not_set_once_a_collection_has_begun(
        self, open_cas: OpenCas, engine: Engine
    ) -> None:
        """Whatever gives a batch its witness: the batch fails, and asks again."""
        cas = open_cas()
        cid = await cas.put(SMALL, "raw")
        asked: tuple[Callable[[], Awaitable[Parts]], ...] = (
            lambda: cas.batch_parts({cid_of(b"block", codec="raw"): b"block"}),
            lambda: cas.roots([cid]),
            lambda: cas.roots((), optional=[cid, cid_of(b"never")]),
        )
        for ask in asked:
            parts = await ask()
            await cas.advance_generation()
            with pytest.raises(Conflict):
                await engine.commit(Batch(expect=parts.expect, set=parts.set))
            parts = await ask()
            await engine.commit(Batch(expect=parts.expect, set=parts.set))
        assert await generations_of(cas, [cid]) == {await cas.generation()}

    async def test_a_root_is_not_set_two_collections_after_its_puts(self, open_cas: OpenCas) -> None:
        cas = open_cas()
        since = await cas.generation()
        await cas.advance_generation()
        assert (await cas.witness(since)).expect
        await cas.advance_generation()
        blocks = {cid_of(b"block", codec="raw"): b"block"}
        asked: list[Callable[[], Awaitable[Parts]]] = [
            lambda: cas.witness(since), lambda: cas.batch_parts(blocks, since),
        ]  # fmt: skip
        for ask in asked:
            with pytest.raises(Unavailable) as caught:
                await ask()
            assert caught.value.code == OVERTAKEN_ROOT

    async def test_many_roots_are_renewed_and_what_is_gone_is_refused(self, open_cas: OpenCas) -> None:
        cas = open_cas()
        cids = await cas.put_many([number.to_bytes(2, "big") + bytes(60_000) for number in range(50)], "raw")
        generation = await cas.advance_generation()
        await cas.roots(cids)
        assert await generations_of(cas, cids) == {generation}
        with pytest.raises(Rejected) as caught:
            await cas.roots([*cids, cid_of(b"never")])
        assert caught.value.code == "cas.not_found"

    async def test_many_objects_are_removed_together_but_not_one_that_was_put_again(
        self, open_cas: OpenCas
    ) -> None:
        cas = open_cas()
        cids = await cas.put_many([*(bytes([number]) * 70_000 for number in range(5)), SMALL], "raw")
        entries = await cas.entries(limit=100)
        await cas.advance_generation()
        await cas.put(SMALL, "raw")
        removed = await cas.remove_many(entries)
        assert {each.cid for each in removed} == set(cids[:-1])
        assert await cas.present(cids) == (cids[-1],)
        assert await cas.remove_many(entries) == []
