"""A faulty engine does only what the contract allows: with all faults that raise nothing, it conforms."""

from __future__ import annotations

import pytest

from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing import Faults, FaultyEngine, SeededEntropy, Wire
from cellule.testing.conformance.engines import EngineConformance

SILENT = Faults(early_stamp=0.5, for_nothing=0.3, delay=0.5, delay_ns_max=20_000, late_ns_max=100_000)


class TestFaultyEngine(EngineConformance):
    @pytest.fixture
    def disk(self):
        return MemoryDisk()

    @pytest.fixture
    def open_engine(self, disk):
        entropy = SeededEntropy(11)
        wires = {}

        async def open_engine():
            wire = wires.setdefault("one", Wire())
            return FaultyEngine(MemoryEngine(disk), SILENT, entropy=entropy, wire=wire)

        return open_engine

    @pytest.fixture
    def damage(self, disk):
        async def damage(key):
            disk.damage(key)

        return damage
