"""The two doors through which time and chance enter: `Clock` and `Entropy`.

Everything above the kernel takes them as arguments; the simulator passes its own, so a seed replays
exactly. The kernel takes plain numbers and bytes and never sees either.
"""

from __future__ import annotations

import os
import time
from typing import Protocol
from uuid import UUID

_MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # a session ends while we sleep, too


class Clock(Protocol):
    """Wall time for records and a monotonic clock for waiting; the two are never mixed."""

    def now_ns(self) -> int:
        """Nanoseconds since the Unix epoch, UTC; may step backwards."""

    def monotonic_ns(self) -> int:
        """Nanoseconds from an arbitrary origin; never steps backwards."""


class Entropy(Protocol):
    """A supply of unpredictable (or, under test, seeded) bytes."""

    def bytes(self, count: int, /) -> bytes:
        """Return `count` bytes."""


class SystemClock:
    """The machine's clocks."""

    def now_ns(self) -> int:
        """Wall time of this machine."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Monotonic time of this machine; on Linux it also passes while the machine sleeps."""
        return time.clock_gettime_ns(_MONOTONIC)


class SystemEntropy:
    """The operating system's generator."""

    def bytes(self, count: int, /) -> bytes:
        """Return `count` bytes from the operating system."""
        return os.urandom(count)


def uuid7(now_ns: int, entropy: bytes) -> UUID:
    """Make a UUIDv7: 48 bits of milliseconds, then 74 bits of `entropy` (at least 10 bytes).

    >>> str(uuid7(1_700_000_000_000_000_000, bytes(10)))
    '018bcfe5-6800-7000-8000-000000000000'
    """
    if len(entropy) < 10:
        raise ValueError(f"uuid7 needs 10 bytes of entropy, got {len(entropy)}")
    milliseconds = (now_ns // 1_000_000) & ((1 << 48) - 1)
    chance = int.from_bytes(entropy[:10], "big")
    high, low = (chance >> 62) & 0xFFF, chance & ((1 << 62) - 1)
    return UUID(int=(milliseconds << 80) | (7 << 76) | (high << 64) | (2 << 62) | low)
