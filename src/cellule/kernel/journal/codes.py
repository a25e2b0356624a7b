"""The numbers that stand in records: kinds, statuses of steps, verdicts, ends of intents, deliveries.

Each set is an enum for those who read, and plain integers for those who decide: an `IntEnum` member costs an
attribute look-up and encodes slower.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Kind(IntEnum):
    """Record kinds; all are reserved from the start, and an unknown one refuses to open."""

    EVENT = 1
    EMITTED = 2
    RECEIPT = 3
    STEP = 4
    WRITE = 5
    INTENT = 6
    DECISION = 7
    REFUSED = 8
    TIMER = 9
    EXPIRED = 10
    CONTROL = 11
    MANIFEST = 12
    SNAPSHOT = 13
    BASELINE = 14
    FORK = 15
    MIGRATED = 16
    UPCAST = 17
    AGENDA = 18
    SIGNAL = 19
    STAGE = 20
    ENZYME = 21
    BINDING = 22


class Status(IntEnum):
    """How a step ended. Only OK and DELETED change the cell's state."""

    OK = 0
    DELETED = 1
    HALTED = 2  # failed; the cell stops, its queue intact
    SKIPPED = 3  # failed; the message went to the dead letters
    CONFLICT = 4  # the cell was at another version than expected; the message is consumed
    PARKED = 5  # the cell cannot take the message in its era; the queue waits for a migration
    REFUSED = 6  # the step refused the message, for a reason of its own; the message is consumed
    DROPPED = 7  # a person took the message out of the queue of a stopped cell


OK: Final = 0
DELETED: Final = 1
HALTED: Final = 2
SKIPPED: Final = 3
CONFLICT: Final = 4
PARKED: Final = 5
REFUSED: Final = 6
DROPPED: Final = 7


class VerdictCode(IntEnum):
    """What became of a request for an effect."""

    ALLOW = 0
    DENY = 1
    PARK = 2  # it waits for an approval
    SAME = 3  # another intent with its idempotency key stands for it
    OUTSIDE = 4  # its adapter has done its part; somebody outside completes it


ALLOW: Final = 0
DENY: Final = 1
PARK: Final = 2
SAME: Final = 3
OUTSIDE: Final = 4


class Settled(IntEnum):
    """How an intent ended; cells see the name in lower case."""

    OK = 0
    FAILED = 1
    TIMEOUT = 2
    CANCELLED = 3
    DENIED = 4
    ABANDONED = 5


class Delivery(IntEnum):
    """How a cell hears of a receipt."""

    NOBODY = 0  # the cell is gone, or takes no such event
    AT_ONCE = 1
    NEXT_BEAT = 2


NOBODY: Final = 0
AT_ONCE: Final = 1
NEXT_BEAT: Final = 2


class Bound(IntEnum):
    """What a binding says of an enzyme's name at a node of the tree."""

    LOCAL = 0
    PROPAGATING = 1
    TOMBSTONE = 2


LOCAL: Final = 0
PROPAGATING: Final = 1
TOMBSTONE: Final = 2
