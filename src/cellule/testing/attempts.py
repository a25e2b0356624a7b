"""`new_attempt`: an attempt for tests of adapters, without a node. Its blobs live in memory."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from cellule.effects.adapter import Attempt
from cellule.host.outbox.attempts import CasBlobs
from cellule.store.cas import Cas
from cellule.store.engines.memory import MemoryDisk, MemoryEngine

UNIVERSE = UUID(int=1)
WORLD = UUID(int=2)


def new_attempt(key: str = "key", number: int = 1, **fields: Any) -> Attempt:
    """An attempt with this key, the `number`th of its intent; any other field of `Attempt` may be given."""
    given: dict[str, Any] = {
        "intent": "intent", "timeout_s": 60.0, "world": WORLD, "universe": UNIVERSE,
        "module": "tests/module@1", "cell": b"cell", "blobs": _memory_blobs(), **fields,
    }  # fmt: skip
    return Attempt(key=key, number=number, **given)


def _memory_blobs() -> CasBlobs:
    cas = Cas(MemoryEngine(MemoryDisk()), UNIVERSE)
    return CasBlobs(lambda _universe: cas, UNIVERSE)
