"""The differential machine: random histories on an engine and on the memory engine, compared step by step.

Batches run alone or several at once over two connections; concurrent outcomes must be explained by a serial
order (`engine_model.py`), which the memory engine then follows. Engines that fail on purpose have a
machine of their own (`engine_unreliable.py`). `CELLULE_EXAMPLES` sets the number of histories.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from cellule.errors import Conflict
from cellule.store.engine import Batch, Engine, Stamp
from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing.conformance.engine_model import Applied, Read, serial_order
from cellule.testing.conformance.engine_plans import NAMES, POOL_SIZE, Plan, batch_of, plans, pool
from cellule.testing.conformance.engine_space import OpenEngine, Space, dump, scan_all

EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "40"))
STEPS = 20
PATIENCE_S = 60

Result = TypeVar("Result")


class DifferentialCases:
    """Whatever a history does, the engine under test answers as the memory engine does."""

    def test_random_histories_are_those_of_the_memory_engine(self, open_engine: OpenEngine) -> None:
        """Runs `EXAMPLES` histories of up to `STEPS` steps on one store."""
        differential(open_engine)


def differential(open_engine: OpenEngine, *, examples: int = EXAMPLES, steps: int = STEPS) -> None:
    """Run random histories against two connections to one store and against the memory engine."""
    with asyncio.Runner() as runner:
        engines = [runner.run(_opened(open_engine)) for _ in range(2)]

        class Machine(EngineMachine):
            def __init__(self) -> None:
                super().__init__()
                self.runner, self.engines = runner, engines

        try:
            run_machine(Machine, examples=examples, steps=steps)
        finally:
            for engine in engines:
                runner.run(engine.close())


def run_machine(
    machine: type[RuleBasedStateMachine], *, examples: int, steps: int, shrink: bool = False
) -> None:
    """Run a state machine without Hypothesis's opinions about speed.

    Shrinking needs a history that replays exactly; on a real database, timing is part of it.
    """
    options = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
    )
    run_state_machine_as_test(machine, settings=options)


class EngineMachine(RuleBasedStateMachine):
    """One history; `space` is its own corner of the store."""

    def __init__(self) -> None:
        super().__init__()
        self.runner: asyncio.Runner
        self.engines: Sequence[Engine] = ()
        self.space = Space()
        self.disk = MemoryDisk()
        self.oracle = MemoryEngine(self.disk)
        self.pool = pool(self.space)
        self.failed = False

    @rule(plan=plans(), which=st.integers(0, 1))
    def commit(self, plan: Plan, which: int) -> None:
        """One batch has the same outcome on both."""
        self._run(self._commit(self.engines[which], batch_of(plan, self.space, self.disk.dump())))

    @rule(asked=st.lists(st.integers(0, POOL_SIZE - 1), max_size=8), which=st.integers(0, 1))
    def read(self, asked: list[int], which: int) -> None:
        """A read gives the same values."""
        keys = [self.pool[n] for n in asked] + [self.space.counter(0)]
        assert self._run(self.engines[which].read(keys)) == self._run(self.oracle.read(keys))

    @rule(
        begin=st.sampled_from(NAMES),
        end=st.sampled_from(NAMES),
        limit=st.integers(1, 9),
        reverse=st.booleans(),
    )
    def scan(self, begin: bytes, end: bytes, limit: int, reverse: bool) -> None:
        """A page of any part of the raw keys is the same page."""
        bounds = self.space.raw(begin), self.space.raw(end)
        page = self._run(self.engines[0].scan(*bounds, limit=limit, reverse=reverse))
        assert page == self._run(self.oracle.scan(*bounds, limit=limit, reverse=reverse))

    @rule(limit=st.integers(1, 5), which=st.integers(0, 20))
    def page_through(self, limit: int, which: int) -> None:
        """Pages of any family, put together, are the same rows."""
        ranges = self.space.ranges()
        begin, end = ranges[which % len(ranges)]
        found = self._run(scan_all(self.engines[1], begin, end, limit))
        assert list(found.items()) == list(self._run(scan_all(self.oracle, begin, end, limit)).items())

    @rule(group=st.lists(plans(ranges=False), min_size=2, max_size=5), looks=st.integers(0, 2))
    def commit_together(self, group: list[Plan], looks: int) -> None:
        """Concurrent batches and reads have the effect of some serial order."""
        before = self.disk.dump()
        self._run(self._commit_together([batch_of(plan, self.space, before) for plan in group], looks))

    @rule(plan=plans(), watched=st.integers(0, POOL_SIZE - 1))
    def watch(self, plan: Plan, watched: int) -> None:
        """A watch returns when the batch changed its key, through whichever connection."""
        self._run(self._watch(batch_of(plan, self.space, self.disk.dump()), self.pool[watched]))

    def teardown(self) -> None:
        """At the end both hold the same rows; a history that failed has said so already."""
        for engine in () if self.failed else self.engines:
            assert self._run(dump(engine, self.space)) == self.disk.dump()

    async def _commit(self, engine: Engine, batch: Batch) -> None:
        stamps = await _outcome(engine, batch)
        expected = await _outcome(self.oracle, _with_stamps(batch, stamps))
        assert (stamps is None) == (expected is None), "one engine conflicts, the other does not"

    async def _commit_together(self, batches: list[Batch], looks: int) -> None:
        commits = [_outcome(self.engines[n % 2], batch) for n, batch in enumerate(batches)]
        reads = [self.engines[n % 2].read(self.pool) for n in range(looks)]
        seen, outcomes = await asyncio.gather(asyncio.gather(*reads), asyncio.gather(*commits))
        pairs = list(zip(batches, outcomes, strict=True))
        order = serial_order(
            self.disk.dump(),
            await dump(self.engines[0], self.space),
            [Applied(batch, stamps) for batch, stamps in pairs if stamps is not None],
            [batch for batch, stamps in pairs if stamps is None],
            [Read(self.pool, values) for values in seen],
        )
        assert order is not None, "no serial order explains what the engine answered"
        for applied in order:
            await self.oracle.commit(_with_stamps(applied.batch, applied.stamps))

    async def _watch(self, batch: Batch, key: bytes) -> None:
        seen = self.disk.value(key)
        watching = asyncio.ensure_future(self.engines[0].watch(key, seen))
        await self._commit(self.engines[1], batch)
        if self.disk.value(key) == seen:
            watching.cancel()
            await asyncio.wait([watching])
            return
        async with asyncio.timeout(PATIENCE_S):
            await watching
            while (await self.engines[0].read([key]))[0] == seen:
                await self.engines[0].watch(key, seen)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            return self.runner.run(work)
        except BaseException:
            self.failed = True
            raise


async def _opened(open_engine: OpenEngine) -> Engine:
    return await open_engine()


async def _outcome(engine: Engine, batch: Batch) -> list[Stamp] | None:
    """The stamps, or `None` for a conflict."""
    try:
        return await engine.commit(batch)
    except Conflict:
        return None


def _with_stamps(batch: Batch, stamps: Sequence[Stamp] | None) -> Batch:
    """The same batch with the stamps another engine gave it."""
    given = {
        prefix + stamp: value for (prefix, value), stamp in zip(batch.ordered, stamps or (), strict=False)
    }
    return replace(batch, ordered=(), set={**batch.set, **given})
