"""What a `ready` row holds: who may put items behind it without writing it.

    | 2B | id of the enqueuer that found none, 16 bytes | attempt |     shared
    | anything else                                               |     not shared

An enqueuer that sees a shared value only expects it, so that many put items at once and none queues for the
row. Whoever sees another value, or none, writes one and rings the bell. The owner clears only a value that
is not shared: a shared one it replaces by `unshared`, then looks at the inbox again, because items may have
arrived behind its back; from then on every enqueuer writes, and the owner's clearing finds out.

Rejected: clearing a shared value and looking after that. A crash in between leaves items that wake nobody.
"""

from __future__ import annotations

from typing import TypeGuard

SHARED = b"+"
_UNSHARED = b"-"


def is_shared(value: bytes | None) -> TypeGuard[bytes]:
    """Tell whether items may be put behind this value without writing it."""
    return value is not None and value.startswith(SHARED)


def unshared(value: bytes) -> bytes:
    """What the owner replaces a shared value by; also a value for items that are brought to the owner."""
    return _UNSHARED + value.removeprefix(SHARED)
