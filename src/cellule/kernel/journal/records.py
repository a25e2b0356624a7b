"""The records of a frame: numbered kinds, and one drawing of each.

A record is a list that starts with its kind; its height is the frame's first height plus its position.
`cause` is the height of what led to it (0 = the outside): following causes is the why-graph. `module` and
`schema` stand as positions in the frame's table of names. `value` and `state` are stored-value envelopes
(`cellule.values.envelope`), or a link where the bytes are a block of their own. `more` is null or a map.

    Event     [1, cause, id, schema, value, targets, more]    more: dedupe, expected, correlation
    Emitted   [2, cause, depth, schema, value, targets]
    Receipt   [3, cause, module, key, born, status, schema, value, how, more]
                                                              cause: the Intent's height
                                                              how: 0 told to nobody, 1 at once, 2 next beat
                                                              more: fired, by, attempts, exhausted, who, why,
                                                              code, text, under, control, depth
    Step      [4, cause, module, key, born, era, status, version, prev, state, more]
                                                              more: ann, reply, code, text, log, timed_out
    Write     [5, ...]                                        reserved
    Intent    [6, cause, position, module, key, born, kind, params, more]
                                                              cause: the Step's height; more: key, slot
    Decision  [7, cause, verdict, more]                       cause: the Intent's height
                                                              more: rule, grant, period, due_ns, code, text,
                                                              same, over, control
    Refused   [8, cause, id, schema, code, text]
    Timer     [9, cause, fired, due_ns, what]                 what: ["ttl" or "idle", module, key, born] or
                                                              ["schedule", name, fingerprint, paused]
    Expired   [10, cause, fired, module, key, born]
    Control   [11, cause, verb, who, why, arguments]
    Manifest  [12, cause, manifest, era]
    Snapshot  [13, cause, height, snapshot]
    Baseline  [14, cause, height, snapshot]
    Fork      [15, ...]                                       reserved
    Migrated  [16, cause, module, key, born, era_from, era_to, state]
    Upcast    [17, cause, module, key, schema_from, schema_to]
    Agenda    [18, ...]                                       reserved

`targets` is a list of [module, key]. `fired` is the key of the timer that was due, or null when one is
armed for the first time. What a record means for the world is in `ledger.py`; how it is read back, in
`replay.py`.

Rejected: a map per record. The same field names a thousand times a frame cost a third of its bytes and
time.
Rejected: names in full in every record. A frame's table of names keeps each frame readable on its own.
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


# Plain integers for the hot path: an IntEnum member costs an attribute look-up and encodes slower.
EVENT: Final = 1
EMITTED: Final = 2
RECEIPT: Final = 3
STEP: Final = 4
INTENT: Final = 6
DECISION: Final = 7
REFUSED: Final = 8
TIMER: Final = 9
EXPIRED: Final = 10
CONTROL: Final = 11
MANIFEST: Final = 12
SNAPSHOT: Final = 13
BASELINE: Final = 14
MIGRATED: Final = 16
UPCAST: Final = 17


class Status(IntEnum):
    """How a step ended. Only OK and DELETED change the cell's state."""

    OK = 0
    DELETED = 1
    HALTED = 2  # failed; the cell stops, its queue intact
    SKIPPED = 3  # failed; the message went to the dead letters
    CONFLICT = 4  # the cell was at another version than expected; the message is consumed
    PARKED = 5  # the cell cannot take the message in its era; the queue waits for a migration


OK: Final = 0
DELETED: Final = 1
HALTED: Final = 2
SKIPPED: Final = 3
CONFLICT: Final = 4
PARKED: Final = 5


class VerdictCode(IntEnum):
    """What became of a request for an effect."""

    ALLOW = 0
    DENY = 1
    PARK = 2  # it waits for an approval
    SAME = 3  # another intent with its idempotency key stands for it


ALLOW: Final = 0
DENY: Final = 1
PARK: Final = 2
SAME: Final = 3


class Settled(IntEnum):
    """How an intent ended; cells see the name in lower case."""

    OK = 0
    FAILED = 1
    TIMEOUT = 2
    CANCELLED = 3
    DENIED = 4
    ABANDONED = 5


NOBODY: Final = 0
AT_ONCE: Final = 1
NEXT_BEAT: Final = 2

# How many fields each kind has, for those this version writes.
WIDTHS: Final = {
    EVENT: 7, EMITTED: 6, RECEIPT: 10, STEP: 11, INTENT: 9, DECISION: 4, REFUSED: 6, TIMER: 5, EXPIRED: 6,
    CONTROL: 6, MANIFEST: 4, SNAPSHOT: 4, BASELINE: 4, MIGRATED: 8, UPCAST: 6,
}  # fmt: skip
