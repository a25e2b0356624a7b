"""The memory engine behind every fault there is: unknown outcomes, late stamps, watches for nothing."""

from __future__ import annotations

from cellule.store.engines.memory import MemoryDisk, MemoryEngine
from cellule.testing.conformance.engine_unreliable import unreliable
from cellule.testing.entropy import SeededEntropy
from cellule.testing.faults import ROUGH
from cellule.testing.faulty_engine import FaultyEngine
from cellule.testing.loop import DeterministicLoop
from cellule.testing.wire import Wire


async def open_pair(seed):
    disk, wire, entropy = MemoryDisk(), Wire(), SeededEntropy(seed)
    return [FaultyEngine(MemoryEngine(disk), ROUGH, entropy=entropy, wire=wire) for _ in range(2)]


def test_unreliable_histories_are_those_of_the_memory_engine():
    unreliable(open_pair, DeterministicLoop)
