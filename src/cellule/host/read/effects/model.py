"""What a world tells about its effects: plain, frozen views, the same in its owner and in other processes.

Params and receipts are JSON data here; where an intent stands in the journal is its `height`, and its id is
the CID that adapters and cells see. Times are nanoseconds since the Unix epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cellule.kernel.state.rows import HELD, OPEN, OUTSIDE, PARKED, TIMER, WAITING

OPEN_STATUSES = (OPEN, OUTSIDE, PARKED, HELD, TIMER, WAITING)

EffectRef = str | int | bytes
"""An intent as people name it: its id, as text or as 32 bytes, or the height of its Intent record."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """What the outbox says of a dispatched effect.

    `state` is waiting, running, retrying, no adapter or unreadable. Only the process that performs effects
    knows whether one runs and whether there is an adapter; elsewhere it is waiting or retrying. `progress` is
    what an attempt reported last, as JSON data; that of the last second may be missing.
    """

    state: str
    tried: int
    most: int
    next_ns: int
    error: str
    progress: Any = None


@dataclass(frozen=True, slots=True)
class EffectView:
    """One intent.

    `status` is open, parked, held, outside, timer or waiting; or, once it is settled, how it ended.
    """

    id: str
    height: int
    cause: int
    kind: str
    module: str
    key: bytes
    born: int
    status: str
    since_ns: int
    reason: str
    idempotency_key: str | None = None
    slot: str | None = None
    grant: str | None = None
    rule: str | None = None
    due_ns: int | None = None
    attempts: Attempts | None = None

    @property
    def is_open(self) -> bool:
        """Tell whether it is not settled yet."""
        return self.status in OPEN_STATUSES


@dataclass(frozen=True, slots=True)
class DecisionView:
    """What was decided about an intent, and by which rule, grant or person's Control record."""

    height: int
    verdict: str
    now_ns: int
    rule: str | None = None
    grant: str | None = None
    code: str = ""
    text: str = ""
    due_ns: int | None = None
    same: int | None = None
    control: int | None = None


@dataclass(frozen=True, slots=True)
class ReceiptView:
    """How an intent was settled; `value` is what its cell reads, `by` the key that vouches for it."""

    height: int
    status: str
    now_ns: int
    schema: str
    value: Any
    told: bool
    code: str = ""
    text: str = ""
    by: str = ""
    attempts: int = 0
    exhausted: bool = False
    who: str | None = None
    why: str | None = None
    control: int | None = None


@dataclass(frozen=True, slots=True)
class EffectDetail:
    """All that is known of one intent."""

    view: EffectView
    params: Any
    decisions: tuple[DecisionView, ...]
    receipt: ReceiptView | None


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter: a message whose step failed, or an effect that its adapter gave up.

    `height` names it. `schema` and `cause` are those of a message; `kind`, `intent` and `intent_height` those
    of an effect, which `retry` asks for again.
    """

    height: int
    module: str
    key: bytes
    code: str
    text: str
    schema: str | None = None
    cause: int = 0
    kind: str | None = None
    intent: str | None = None
    intent_height: int = 0


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule of the manifest: `cron` in a `zone`, or every `every_ns`; `next_ns` is None while paused.

    `waiting_ns` is the due time of a run that waits until its cells are idle. `next_ns` has its jitter, which
    is at most `jitter_ns`.
    """

    name: str
    cron: str | None
    zone: str
    every_ns: int | None
    start_ns: int | None
    event: str
    value: Any
    catch_up: str
    limit: int
    overlap: str
    paused: bool
    next_ns: int | None
    waiting_ns: int | None = None
    jitter_ns: int | None = None
