"""Seeded chance for tests: the same seed and the same path of labels give the same bytes, everywhere.

Invariant: a child's bytes depend on the seed and its labels only, not on how much was drawn elsewhere, so
adding a consumer shifts no other. Nothing uses Python's `hash()` or `random`, whose details vary by process
or version.

Rejected: handing one generator around. Every new draw anywhere would change every old failing seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

from cellule.errors import Rejected

T = TypeVar("T")

_BLOCK_BYTES = 64


class SeededEntropy:
    """A reproducible `sources.Entropy`, and the few draws that tests need."""

    def __init__(self, seed: int, *labels: str) -> None:
        self._labels = labels
        self._seed = seed
        key = blake2b(str(seed).encode(), digest_size=_BLOCK_BYTES, person=b"cellule.entropy").digest()
        for label in labels:
            key = blake2b(label.encode(), key=key, digest_size=_BLOCK_BYTES, person=b"cellule.child").digest()
        self._key = key
        self._block = 0
        self._rest = b""

    def __repr__(self) -> str:
        return f"SeededEntropy({', '.join(map(repr, (self._seed, *self._labels)))})"

    def child(self, label: str) -> SeededEntropy:
        """An independent supply; the same label always gives the same one, from its start."""
        return SeededEntropy(self._seed, *self._labels, label)

    def bytes(self, count: int, /) -> bytes:
        """Return the next `count` bytes."""
        rest = self._rest
        while len(rest) < count:
            rest += blake2b(self._block.to_bytes(8, "big"), key=self._key, digest_size=_BLOCK_BYTES).digest()
            self._block += 1
        self._rest = rest[count:]
        return rest[:count]

    def below(self, limit: int) -> int:
        """A whole number from 0 to `limit` - 1, each equally likely (to one part in 2**64)."""
        if limit < 1:
            raise Rejected("testing.empty_draw", "cannot draw a number below {limit}", limit=limit)
        return int.from_bytes(self.bytes(16), "big") % limit

    def chance(self, probability: float) -> bool:
        """True with the given probability; 0 is never, 1 is always."""
        return self.below(1 << 53) < probability * (1 << 53)

    def choice(self, values: Sequence[T]) -> T:
        """One of `values`."""
        return values[self.below(len(values))]
