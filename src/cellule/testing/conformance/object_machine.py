"""Random histories of an object store, compared step by step with a dictionary; and ways to use one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cellule.errors import Rejected
from cellule.store.object_store import ObjectStore
from cellule.testing.conformance.engine_machine import run_machine

OpenStore = Callable[[], Awaitable[ObjectStore]]
Result = TypeVar("Result")

EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "15"))
STEPS = 25
NAMES = ["a/b/c", "a/b/d", "a/b-/c", "a/b./c", "a/c", "b/a", "a-b/c", "Z/z"]
PREFIXES = ["", "a/", "a/b/", "a/b-/", "b/", "none/"]

names = st.sampled_from(NAMES)
bodies = st.binary(max_size=40) | st.sampled_from([1_000, 65_537]).map(bytes)


async def pieces_of(data: bytes, piece_bytes: int) -> AsyncIterator[bytes]:
    """Yield `data` in pieces, as a body that is put as a stream."""
    for start in range(0, len(data), piece_bytes):
        yield data[start : start + piece_bytes]


async def streamed(store: ObjectStore, name: str) -> bytes:
    """Read a whole body through `stream`."""
    async with aclosing(store.stream(name)) as pieces:
        return b"".join([piece async for piece in pieces])


async def names_in(store: ObjectStore, prefix: str, limit: int) -> list[str]:
    """Read a whole listing page by page."""
    names: list[str] = []
    while True:
        page = await store.list(prefix, limit=limit, start_after=names[-1] if names else "")
        assert len(page.items) <= limit
        names += [item.name for item in page.items]
        if not page.more:
            return names


def sample(size: int) -> bytes:
    """Return `size` bytes that repeat at no power of two, so that misplaced pieces are noticed."""
    pattern = bytes(range(251))
    return (pattern * (size // len(pattern) + 1))[:size]


class ObjectMachineCases:
    """Whatever a history does, the store answers as a dictionary would."""

    def test_random_histories_are_those_of_a_dictionary(self, open_store: OpenStore) -> None:
        """Runs `EXAMPLES` histories of up to `STEPS` steps."""
        with asyncio.Runner() as runner:
            store = runner.run(_opened(open_store))

            class Machine(ObjectMachine):
                def __init__(self) -> None:
                    super().__init__(runner, store)

            try:
                run_machine(Machine, examples=EXAMPLES, steps=STEPS)
            finally:
                runner.run(store.close())


class ObjectMachine(RuleBasedStateMachine):
    """One history; it starts by deleting what the one before it left."""

    def __init__(self, runner: asyncio.Runner, store: ObjectStore) -> None:
        super().__init__()
        self.runner = runner
        self.store = store
        self.oracle: dict[str, bytes] = {}
        for name in NAMES:
            self._run(store.delete(name))

    @rule(name=names, body=bodies, piece_bytes=st.integers(0, 20_000))
    def put(self, name: str, body: bytes, piece_bytes: int) -> None:
        """One body, as bytes or as a stream."""
        # Callers never put other bytes under a name; a store replaces them as a whole.
        data = pieces_of(body, max(piece_bytes, len(body) // 50)) if piece_bytes else body
        self._run(self.store.put(name, data))
        self.oracle[name] = body

    @rule(name=names)
    def delete(self, name: str) -> None:
        """One body, there or not."""
        self._run(self.store.delete(name))
        self.oracle.pop(name, None)

    @rule(name=names, as_stream=st.booleans())
    def read(self, name: str, as_stream: bool) -> None:
        """One body, whole or in pieces."""
        if name in self.oracle:
            body = self._run(streamed(self.store, name) if as_stream else self.store.get(name))
            assert body == self.oracle[name]
            assert self._run(self.store.size(name)) == len(body)
            return
        with pytest.raises(Rejected) as caught:
            self._run(streamed(self.store, name) if as_stream else self.store.get(name))
        assert caught.value.code == "objects.not_found"

    @rule(prefix=st.sampled_from(PREFIXES), limit=st.integers(1, 4), start_after=names | st.just(""))
    def list(self, prefix: str, limit: int, start_after: str) -> None:
        """One page of any folder, from behind any name."""
        page = self._run(self.store.list(prefix, limit=limit, start_after=start_after))
        expected = sorted(name for name in self.oracle if name.startswith(prefix) and name > start_after)
        assert [(item.name, item.size) for item in page.items] == [
            (name, len(self.oracle[name])) for name in expected[:limit]
        ]
        assert page.more == (len(expected) > limit)

    @invariant()
    def the_names_are_those_of_the_oracle(self) -> None:
        """Nothing appears or vanishes by itself."""
        assert self._run(names_in(self.store, "", 100)) == sorted(self.oracle)

    def _run(self, call: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(call)


async def _opened(open_store: OpenStore) -> ObjectStore:
    return await open_store()
