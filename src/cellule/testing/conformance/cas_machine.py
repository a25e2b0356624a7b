"""Random histories of the CAS in two universes, compared step by step with a dictionary."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar
from uuid import UUID

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cellule.errors import Rejected
from cellule.store.cache import NodeCache
from cellule.store.cas import Cas
from cellule.store.engine import Engine
from cellule.store.object_store import ObjectStore
from cellule.testing.conformance.engine_machine import run_machine
from cellule.testing.conformance.object_machine import pieces_of, sample
from cellule.values.cid import Cid, cid_of

OpenParts = Callable[[], Awaitable[tuple[Engine, ObjectStore | None]]]
Result = TypeVar("Result")

EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "15"))
STEPS = 25
SIZES = (0, 1, 2, 16_384, 16_385, 65_536, 65_537, 140_000)
BODIES = [sample(size) for size in SIZES]
CIDS = [cid_of(body, codec="raw") for body in BODIES]

universes = st.integers(0, 1)
bodies = st.integers(0, len(BODIES) - 1)


class MachineCases:
    """Whatever a history does, the CAS answers as a dictionary would."""

    def test_random_histories_are_those_of_a_dictionary(self, open_parts: OpenParts) -> None:
        """Runs `EXAMPLES` histories of up to `STEPS` steps."""
        with asyncio.Runner() as runner:
            engine, objects = runner.run(_opened(open_parts))

            class Machine(CasMachine):
                def __init__(self) -> None:
                    super().__init__(runner, engine, objects)

            try:
                run_machine(Machine, examples=EXAMPLES, steps=STEPS)
            finally:
                runner.run(engine.close())
                if objects is not None:
                    runner.run(objects.close())


class CasMachine(RuleBasedStateMachine):
    """One history; `oracle` holds the generation of each object of each universe."""

    def __init__(self, runner: asyncio.Runner, engine: Engine, objects: ObjectStore | None) -> None:
        super().__init__()
        self.runner = runner
        # So small that it must drop, and shared, so that a leak between universes would show.
        cache = NodeCache(bytes_max=100_000)
        self.stores = [
            Cas(engine, UUID(bytes=os.urandom(16)), objects=objects, cache=cache) for _ in range(2)
        ]
        self.oracle: list[dict[Cid, int]] = [{}, {}]
        self.generations = [0, 0]

    @rule(universe=universes, number=bodies, as_stream=st.booleans())
    def put(self, universe: int, number: int, as_stream: bool) -> None:
        """One object, whole or streamed."""
        cas, body = self.stores[universe], BODIES[number]
        putting = cas.put_stream(pieces_of(body, 50_000)) if as_stream else cas.put(body, "raw")
        assert self._run(putting) == CIDS[number]
        self.oracle[universe][CIDS[number]] = self.generations[universe]

    @rule(universe=universes, numbers=st.lists(bodies, max_size=5))
    def put_many(self, universe: int, numbers: list[int]) -> None:
        """Several objects at once."""
        cids = self._run(self.stores[universe].put_many([BODIES[number] for number in numbers], "raw"))
        assert cids == [CIDS[number] for number in numbers]
        for cid in cids:
            self.oracle[universe][cid] = self.generations[universe]

    @rule(universe=universes, number=bodies, way=st.sampled_from(["get", "stream", "open"]))
    def read(self, universe: int, number: int, way: str) -> None:
        """One object, in any way."""
        cas, cid = self.stores[universe], CIDS[number]
        is_there = cid in self.oracle[universe]
        assert self._run(cas.has(cid)) == is_there
        if is_there:
            assert self._run(_read(cas, cid, way)) == BODIES[number]
            return
        with pytest.raises(Rejected) as caught:
            self._run(_read(cas, cid, way))
        assert caught.value.code == "cas.not_found"

    @rule(universe=universes)
    def read_all(self, universe: int) -> None:
        """All objects at once."""
        found = self._run(self.stores[universe].get_many(self.oracle[universe]))
        assert found == {cid: BODIES[CIDS.index(cid)] for cid in self.oracle[universe]}

    @rule(universe=universes)
    def advance(self, universe: int) -> None:
        """The next generation of one universe."""
        self.generations[universe] += 1
        assert self._run(self.stores[universe].advance_generation()) == self.generations[universe]

    @rule(universe=universes, number=bodies, generation=st.integers(0, 3))
    def remove(self, universe: int, number: int, generation: int) -> None:
        """One object, if it has that generation."""
        expected = self.oracle[universe].get(CIDS[number]) == generation
        assert self._run(self.stores[universe].remove_if(CIDS[number], generation)) == expected
        if expected:
            del self.oracle[universe][CIDS[number]]

    @invariant()
    def the_rows_are_those_of_the_oracle_and_no_body_is_left_behind(self) -> None:
        """Histories without crashes leave no orphan."""
        for cas, oracle in zip(self.stores, self.oracle, strict=True):
            entries = self._run(cas.entries(limit=100))
            assert {entry.cid: entry.generation for entry in entries} == oracle
            after = ""
            while True:
                page = self._run(cas.orphans(limit=100, after=after))
                assert page.items == []
                after = page.after
                if not after:
                    break

    def _run(self, call: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(call)


async def _read(cas: Cas, cid: Cid, way: str) -> bytes:
    if way == "get":
        return await cas.get(cid)
    if way == "stream":
        async with aclosing(cas.stream(cid)) as pieces:
            return b"".join([piece async for piece in pieces])
    async with cas.open_verified(cid) as file:
        return file.read()


async def _opened(open_parts: OpenParts) -> tuple[Engine, ObjectStore | None]:
    return await open_parts()
