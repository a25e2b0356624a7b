"""The memory engine against the suite it is the oracle of."""

from __future__ import annotations

import pytest

from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing.conformance.engines import EngineConformance


class TestMemoryEngine(EngineConformance):
    @pytest.fixture
    def disk(self):
        return MemoryDisk()

    @pytest.fixture
    def open_engine(self, disk):
        async def open_engine():
            return MemoryEngine(disk)

        return open_engine

    @pytest.fixture
    def damage(self, disk):
        async def damage(key):
            disk.damage(key)

        return damage
