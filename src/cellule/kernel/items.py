"""What a host hands to a beat, and what it gets back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from uuid import UUID

from cellule.errors import CelluleError
from cellule.kernel.journal.codes import DELETED, OK
from cellule.kernel.journal.rows import step_parts
from cellule.kernel.journal.table import Row
from cellule.kernel.key_ring import KeyChanges
from cellule.kernel.limits import BEAT_INTERVAL_NS_DEFAULT
from cellule.kernel.state.cells import Slot
from cellule.values.cid import Cid
from cellule.values.link import Link


@dataclass(frozen=True, slots=True)
class Pace:
    """How much one beat does: written into the frame's header.

    `beat_interval_ns` is between beats that only count, while deadlines in beats wait; no frame says it.
    """

    quota: int
    burst: int
    beat_interval_ns: int = BEAT_INTERVAL_NS_DEFAULT


QUIET = Pace(0, 0)  # the pace of a beat that only admits


Verb = Literal[
    "pause", "resume", "cell.resume", "cell.migrate", "cell.halt", "deploy", "snapshot", "baseline",
    "effect.approve", "effect.deny", "effect.cancel", "effect.retry", "schedule.pause", "schedule.resume",
    "schedule.trigger", "schedule.backfill",
    "cell.drop", "cell.delete", "cell.erase", "letter.redrive", "letter.dismiss",
    "cell.spill", "clock.accept", "fork.live", "cell.merge", "cell.import",
    "heartbeat.beat", "heartbeat.pause", "heartbeat.resume",
    "op.start", "op.state", "op.await", "op.close", "heartbeat.publish", "heartbeat.window",
    "enzyme.register", "enzyme.unregister", "enzyme.bind", "enzyme.unbind", "tree.write", "tree.delete",
]  # fmt: skip


@dataclass(slots=True)
class EventItem:
    """An event for the world.

    `explicit` ids can be presented again and enter the dedupe window; others are for the records only.
    `issued_ns` is when it was first sent, where that may be long ago. `expected_version` is compared when the
    step runs; with `expected_born`, the incarnation of the cell is compared too. `durable` items
    were acknowledged before their beat: a refusal of one is recorded. `system` items may have no subscriber.
    """

    schema: str
    value: bytes | Link
    key: bytes | None = None
    id: str | bytes | UUID | None = None
    explicit: bool = False
    expected_version: int | None = None
    expected_born: int | None = None
    issued_ns: int | None = None
    correlation: str | None = None
    durable: bool = False
    system: bool = False


BareEvent = tuple[str, bytes, dict[str, Any] | None]
"""An event that is nothing but schema and value, which almost all are: bare, because there are so many.

The third is what the value decodes to, where the sender has it at hand and nobody else holds a part of it."""


@dataclass(slots=True)
class ControlItem:
    """An operator's verb, journaled with who and why; one with an id is done once within the window."""

    verb: Verb
    who: str
    why: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    durable: bool = False
    id: str | bytes | UUID | None = None


@dataclass(slots=True)
class SignalItem:
    """An impulse for the world: a signal, a target, or both, as paths; it runs in the next beat.

    `payload` is the bytes of a value. `beat` is a later beat to run in. `id`, `explicit` and `durable` are as
    with events.
    """

    signal: str | None
    target: str | None = None
    payload: bytes | None = None
    beat: int | None = None
    id: str | bytes | UUID | None = None
    explicit: bool = False
    durable: bool = False


@dataclass(slots=True)
class ReceiptItem:
    """The outcome of an effect. `height` is that of the intent's record, `intent` its 32-byte id.

    `by` names the key that vouches for it; `who` and `why` stand where a person gave it. `exhausted` tells
    that the adapter gave up: a dead letter is kept.
    """

    intent: bytes
    height: int
    status: str
    value: bytes | None = None
    code: str = ""
    text: str = ""
    by: str = ""
    attempts: int = 0
    exhausted: bool = False
    who: str | None = None
    why: str | None = None
    durable: bool = True


@dataclass(slots=True)
class RefusalItem:
    """What the host had to refuse although it was acknowledged: recorded, and nothing else."""

    name: str
    code: str
    text: str
    id: str | bytes | None = None


@dataclass(slots=True)
class ForkItem:
    """The first item of a fork: where it was forked, and how it deals with the outside (`state/branch.py`).

    `answers` are the root and the count of their index.
    """

    parent: bytes
    height: int
    effects: str
    live: bool
    who: str
    why: str
    answers: tuple[Cid, int] | None = None


Item = EventItem | BareEvent | ControlItem | ReceiptItem | RefusalItem | SignalItem | ForkItem


def record_id(event_id: str | bytes | UUID | None) -> str | bytes | None:
    """An id as records hold it."""
    return event_id.bytes if isinstance(event_id, UUID) else event_id


class Opening(NamedTuple):
    """An intent that the host may dispatch once its frame is durable.

    `intent` is the 32-byte id (`intent_text` gives its text form); `key` is what the
    outside is told as idempotency key, the same for every attempt; `grant` is what the adapter must keep to.
    """

    intent: bytes
    height: int
    kind: str
    params: bytes
    key: str
    priority: int
    timeout_ns: int
    attempts: int
    grant: Mapping[str, Any] | None
    module: str
    cell: bytes
    born: int
    deadline_ns: int = 0  # since the frame; 0 for none
    backoff_ns: int | None = None
    backoff_max_ns: int | None = None


class Admitted(NamedTuple):
    """The item is in the frame, at this height; an event was put into the queues of these cells."""

    height: int
    slots: Sequence[Slot] = ()


class Duplicate(NamedTuple):
    """The same id was admitted before, at this height; nothing was changed."""

    height: int


class RefusedItem(NamedTuple):
    """The item was refused; `height` is that of the Refused record, 0 where none was written."""

    error: CelluleError
    height: int


class Later(NamedTuple):
    """The frame was full: hand the item to the next beat."""


LATER = Later()
Outcome = Admitted | Duplicate | RefusedItem | Later


StepRow = tuple[int, str, bytes, int, int, int, bytes | None, str, str, int]
"""The fields of a `Stepped`, bare: most are never looked at."""


class Stepped(NamedTuple):
    """One step of this beat: which message of which cell, and how it ended."""

    cause: int
    module: str
    key: bytes
    status: int
    version: int
    height: int
    reply: bytes | None
    code: str
    text: str
    born: int

    @property
    def etag(self) -> str:
        """The cell as this step left it, for `expected_version`; that of no cell where it was deleted."""
        return "0@0" if self.status == DELETED else f"{self.version}@{self.born}"


class BatchResult(NamedTuple):
    """The outcome of a beat whose items are all plain events: they have these heights.

    `slots` are cells that a step may still be to come from, by the height of the event. If each event has its
    one plain step, and in the same order, then `records` are the Step records, and `names` the frame's table.
    """

    heights: range
    slots: Mapping[int, Slot]
    records: Sequence[Row] | None
    names: Sequence[str]

    def step(self, height: int) -> StepRow:
        """The step of the event at a height, where `records` tell."""
        assert self.records is not None
        cause, module, key, born, version = step_parts(self.records[height - self.heights.start])
        step = height + len(self.heights)
        return (cause, self.names[module], key, OK, version, step, None, "", "", born)


@dataclass(slots=True)
class Beat:
    """The result of a beat. `frame` is None when nothing happened: then nothing may be committed.

    Nobody changes it; not frozen, because that is slower to make.
    `blocks` are the nodes the frame links. `told` has an outcome for each item, unless `batch` speaks of all
    of them, and `rows` has the steps, unless `batch` tells those too. `wake` is when the world next wants a
    beat by itself; `more` tells that it wants one now. `opened` are intents to dispatch, `closed` the ids of
    dispatched ones that were settled without their adapter. `keys` are rows of erasure keys that
    are written with the frame.
    """

    frame: bytes | None
    cid: Cid | None
    first: int
    last: int
    blocks: Mapping[Cid, bytes]
    told: list[Outcome]
    batch: BatchResult | None
    rows: list[StepRow]
    wake: int | None
    more: bool
    opened: list[Opening] = field(default_factory=list)
    closed: list[bytes] = field(default_factory=list)
    keys: KeyChanges | None = None

    @property
    def outcomes(self) -> list[Outcome]:
        """What became of each item."""
        if self.batch is None:
            return self.told
        slots = self.batch.slots
        return [
            Admitted(height, (slots[height],) if height in slots else ()) for height in self.batch.heights
        ]

    @property
    def step_rows(self) -> list[StepRow]:
        """The steps of this beat, bare, in the order they ran."""
        batch = self.batch
        if batch is None or batch.records is None:
            return self.rows
        return [batch.step(height) for height in batch.heights]

    @property
    def steps(self) -> list[Stepped]:
        """The steps of this beat, in the order they ran."""
        return [Stepped._make(row) for row in self.step_rows]
