"""The differential machine for engines that fail on purpose: nothing is lost, doubled or half done.

Every batch of a history expects one row, the *fence*, and gives it a fresh value. After an unknown outcome
the fence tells whether the batch was applied; if it was not, changing the fence makes sure that it never
will be. That is the procedure the contract offers to callers, so this machine tests the promise it rests on.
Stamps may become visible late and watches may return for nothing; `Unavailable` reads are asked again. Each
history has a store, a loop and a seed of its own, so that it replays and shrinks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize

from cellule.errors import Conflict, OutcomeUnknown, Unavailable
from cellule.store.engine import STAMP_BYTES, Batch, Engine, Page, Row, Stamp
from cellule.testing.conformance.engine_machine import EXAMPLES, STEPS, EngineMachine, run_machine
from cellule.testing.conformance.engine_model import Applied, Read, Rows, serial_order
from cellule.testing.conformance.engine_space import dump

ATTEMPTS_MAX = 1_000

Result = TypeVar("Result")
Outcome = list[Stamp] | Conflict | Unavailable
OpenPair = Callable[[int], Coroutine[Any, Any, Sequence[Engine]]]
MakeLoop = Callable[[int], asyncio.AbstractEventLoop]


def unreliable(
    open_pair: OpenPair, make_loop: MakeLoop, *, examples: int = EXAMPLES, steps: int = STEPS
) -> None:
    """Run random histories against two connections that fail and against the memory engine.

    For each history `make_loop` gives its event loop, and `open_pair`, run in it, two connections to a fresh
    store; both are given the history's seed.
    """

    class Machine(UnreliableMachine):
        @initialize(seed=st.integers(0, 1 << 32))
        def open(self, seed: int) -> None:
            self.runner = asyncio.Runner(loop_factory=lambda: make_loop(seed))
            self.engines = [_Patient(engine) for engine in self._run(open_pair(seed))]

    run_machine(Machine, examples=examples, steps=steps, shrink=True)


class UnreliableMachine(EngineMachine):
    """A history in which every batch moves the fence."""

    def __init__(self) -> None:
        super().__init__()
        self.fence = self.space.raw(b"fence")
        self.tokens_made = 0

    def teardown(self) -> None:
        """Compare, then end the history's engines and its loop."""
        try:
            super().teardown()
        finally:
            for engine in self.engines:
                self._run(engine.close())
            if self.engines:
                self.runner.close()

    async def _commit(self, engine: Engine, batch: Batch) -> None:
        await self._settled([engine], [batch], looks=0)

    async def _commit_together(self, batches: list[Batch], looks: int) -> None:
        await self._settled(self.engines, batches, looks)

    async def _settled(self, engines: Sequence[Engine], batches: list[Batch], looks: int) -> None:
        """Commit all at once; exactly what the fence says happened must explain all that was seen."""
        before = self.disk.dump()
        fenced = [self._fenced(batch, before.get(self.fence)) for batch in batches]
        attempts = [_outcome(engines[n % len(engines)], batch) for n, batch in enumerate(fenced)]
        reads = [self.engines[n % 2].read(self.pool) for n in range(looks)]
        seen, outcomes = await asyncio.gather(asyncio.gather(*reads), asyncio.gather(*attempts))
        applied = await self._applied(engines[0], fenced, outcomes, before)
        order = serial_order(
            before,
            await dump(engines[0], self.space),
            applied,
            [batch for batch, outcome in zip(fenced, outcomes, strict=True) if isinstance(outcome, Conflict)],
            [Read(self.pool, values) for values in seen],
        )
        assert order is not None, "no serial order explains what the engine answered"
        for step in order:
            rows = {prefix + stamp: value for (prefix, value), stamp in _stamped(step)}
            await self.oracle.commit(replace(step.batch, ordered=(), set={**step.batch.set, **rows}))

    async def _applied(
        self, engine: Engine, fenced: list[Batch], outcomes: list[Outcome], before: Rows
    ) -> list[Applied]:
        """The batch that moved the fence, if any; after unknown outcomes the fence is moved to be sure."""
        rivals = list(fenced)
        unknown = any(isinstance(outcome, OutcomeUnknown) for outcome in outcomes)
        [token] = await engine.read([self.fence])
        while unknown and token == before.get(self.fence):
            assert len(rivals) < ATTEMPTS_MAX, "the fence could not be moved"
            rivals.append(self._fenced(Batch(), token))
            await _outcome(engine, rivals[-1])
            [token] = await engine.read([self.fence])
        winners = [number for number, batch in enumerate(rivals) if batch.set[self.fence] == token]
        acknowledged = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, list)]
        assert acknowledged in ([], winners), "an acknowledged batch is not there"
        for number in winners:
            assert number >= len(outcomes) or isinstance(outcomes[number], list | OutcomeUnknown)
        rows = await dump(engine, self.space)
        return [Applied(rivals[number], _new_stamps(rivals[number], before, rows)) for number in winners]

    def _fenced(self, batch: Batch, token: bytes | None) -> Batch:
        self.tokens_made += 1
        fresh = {self.fence: b"%d" % self.tokens_made}
        return replace(batch, expect={**batch.expect, self.fence: token}, set={**batch.set, **fresh})


class _Patient:
    """An engine whose reads, scans and watches are repeated while they are unavailable."""

    def __init__(self, engine: Engine) -> None:
        self.commit = engine.commit
        self.close = engine.close
        self.engine = engine

    async def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return await _repeated(lambda: self.engine.read(keys))

    async def scan(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Page:
        return await _repeated(lambda: self.engine.scan(begin, end, limit=limit, reverse=reverse))

    def rows(self) -> AsyncGenerator[list[Row], None]:
        return self.engine.rows()

    async def watch(self, key: bytes, seen: bytes | None) -> None:
        await _repeated(lambda: self.engine.watch(key, seen))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _repeated(call: Callable[[], Awaitable[Result]]) -> Result:
    for _ in range(ATTEMPTS_MAX):
        try:
            return await call()
        except Unavailable:
            continue
    raise AssertionError("the engine was never available")


async def _outcome(engine: Engine, batch: Batch) -> Outcome:
    try:
        return await engine.commit(batch)
    except (Conflict, Unavailable) as error:
        return error


def _stamped(applied: Applied) -> list[tuple[tuple[bytes, bytes], Stamp]]:
    return list(zip(applied.batch.ordered, applied.stamps, strict=True))


def _new_stamps(batch: Batch, before: Rows, after: Rows) -> list[Stamp]:
    """The stamps a batch got, told from the rows that are new; one prefix, so they sort as the batch does."""
    prefixes = {prefix for prefix, _ in batch.ordered}
    new = [
        key for key in after if key not in before and key not in batch.set and key[:-STAMP_BYTES] in prefixes
    ]
    return [Stamp(key[-STAMP_BYTES:]) for key in sorted(new)]
