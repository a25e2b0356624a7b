"""The conformance suite of engines: every promise of `cellule.store.engine`, as pytest cases.

A test module of an engine subclasses it and says how to open one more connection to the store under test:

    class TestMyEngine(EngineConformance):
        @pytest.fixture
        def open_engine(self, tmp_path):
            async def open_engine():
                return await MyEngine.open(tmp_path / "store")
            return open_engine

The store is one per test or shared by all of them; cases use fresh keys. `open_engine` may be called in any
event loop and any number of times. `damage(key)` flips a bit of a stored row behind the engine's back; a
subclass that can gives it as a fixture too. Coroutine cases need pytest-asyncio's `asyncio_mode = "auto"`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cellule.store.engine import Engine
from cellule.testing.conformance.engine_commits import CommitCases, OrderedCases
from cellule.testing.conformance.engine_contention import ContentionCases
from cellule.testing.conformance.engine_limits import LimitCases
from cellule.testing.conformance.engine_machine import DifferentialCases
from cellule.testing.conformance.engine_reads import DamageCases, ReadCases, ScanCases
from cellule.testing.conformance.engine_space import Damage, OpenEngine, Space
from cellule.testing.conformance.engine_watches import CloseCases, WatchCases


class EngineConformance(
    CommitCases,
    OrderedCases,
    LimitCases,
    ReadCases,
    ScanCases,
    DamageCases,
    WatchCases,
    CloseCases,
    ContentionCases,
    DifferentialCases,
):
    """All cases; a subclass named `Test...` gives `open_engine` and, if it can, `damage`."""

    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        """Open one more connection to the store under test; given by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def damage(self) -> Damage:
        """Flip a bit of the row stored under a key; given by the subclass."""
        pytest.skip("this engine gives no way to damage a row")

    @pytest.fixture
    async def engines(self, open_engine: OpenEngine) -> AsyncIterator[OpenEngine]:
        """Open connections that are closed when the case ends."""
        opened: list[Engine] = []

        async def open_another() -> Engine:
            engine = await open_engine()
            opened.append(engine)
            return engine

        yield open_another
        for engine in opened:
            await engine.close()

    @pytest.fixture
    async def engine(self, engines: OpenEngine) -> Engine:
        """One open connection."""
        return await engines()

    @pytest.fixture
    def space(self) -> Space:
        """Fresh keys."""
        return Space()
