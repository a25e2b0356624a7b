"""The records of a frame: one class for each kind, and the table of kinds.

A record's height is its frame's first height plus its position. `cause` is the height of what led to it (0 =
the outside): following causes is the why-graph. `extras` holds what few records of a kind have. In a frame a
record is a list, its kind and then its fields in the order below, with names as positions in the frame's
table of names; `table.py` reads and writes that, and nothing outside this package knows a position.

What a record means for the world is in `state/`; how it is applied again, in `prove/replay.py`.

Rejected: a map per record. The same field names a thousand times a frame cost a third of its bytes and time.
Rejected: names in full in every record. A frame's table of names keeps each frame readable on its own.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypedDict

from cellule.kernel.journal import heartbeat_records as beats
from cellule.kernel.journal.codes import Kind
from cellule.kernel.journal.fields import (
    Arguments,
    BlockLink,
    Bytes,
    Calls,
    Count,
    EventId,
    Fired,
    Flag,
    IntentEnd,
    Limits,
    Name,
    ReceiptDelivery,
    StepStatus,
    Stored,
    StoredState,
    Targets,
    Text,
    Texts,
    TimerKey,
    TimerTarget,
    Verdict,
)


class EventExtras(TypedDict, total=False):
    """`dedupe`: the id is remembered; `expected`: the version that the one target must have.

    `expected_born`: the incarnation that it must be of, where the sender named that too.
    """

    dedupe: Flag
    expected: Count
    expected_born: Count
    correlation: Text
    depth: Count  # of an impulse that went to a cell


class EventRecord(NamedTuple):
    """An event came from outside, from a schedule, or from an impulse, and went into the queues of its
    targets."""

    cause: int
    id: EventId
    schema: Name
    value: Stored
    targets: Targets
    extras: EventExtras


class EmittedRecord(NamedTuple):
    """The step at `cause` emitted an event, `depth` emits away from the outside."""

    cause: int
    depth: Count
    schema: Name
    value: Stored
    targets: Targets


class ReceiptExtras(TypedDict, total=False):
    """Who settled the intent (`by` an adapter's key, `who` and `why` a person), and what else comes of it.

    `step`: the step of its own cell that cancelled it, or set another timer with its key. `fork`: what was
    open at a fork was settled there; `answer`: the key of the fork's answer that it was settled by.
    """

    fired: TimerKey
    by: Text
    attempts: Count
    exhausted: Flag
    who: Text
    why: Text
    code: Text
    text: Text
    under: Flag
    control: Count
    depth: Count
    step: Count
    answer: Bytes
    fork: Flag


class ReceiptRecord(NamedTuple):
    """The intent at `cause` is settled; the cell hears of it by an event of `schema`."""

    cause: int
    module: Name
    key: Bytes
    born: Count
    status: IntentEnd
    schema: Name
    value: Stored
    delivery: ReceiptDelivery
    extras: ReceiptExtras


class StepExtras(TypedDict, total=False):
    """`code` and `text`: why it failed; `log`: `state` holds entries that a log appends; `cut`: its first.

    `size`: that of a state that is a link, so that a restore need not read it; `cancels`: the keys of what it
    takes back. `control`: the height of the Control by which a person ended the message or the cell; no code
    ran. `calls`: which of the events that it emits are calls.
    """

    ann: Stored
    reply: Stored
    code: Text
    text: Text
    log: Flag
    cut: Flag
    timed_out: Flag
    size: Count
    cancels: Texts
    control: Count
    calls: Calls


class StepRecord(NamedTuple):
    """A cell handled the message at `cause`; `prev` is the height of its step before."""

    cause: int
    module: Name
    key: Bytes
    born: Count
    era: Count
    status: StepStatus
    version: Count
    prev: Count
    state: StoredState
    extras: StepExtras


class IntentExtras(TypedDict, total=False):
    """The idempotency key that the step gave, the capability slot it names, its own limits of attempts.

    `entry`: the key of the entry whose step it was, where the cell holds the whole map of a module.
    `operation`: it shows its life as an operation.
    """

    entry: Bytes
    key: Text
    limits: Limits
    operation: Flag
    slot: Text


class IntentRecord(NamedTuple):
    """The step (or the retry) at `cause` asked for an effect, as its request number `position`."""

    cause: int
    position: Count
    module: Name
    key: Bytes
    born: Count
    kind: Name
    params: Stored
    extras: IntentExtras


class DecisionExtras(TypedDict, total=False):
    """By what it was decided, and what follows from it.

    `held`: a fork that is not live does not dispatch it. `fork`: it was open at a fork, and decided there.
    """

    rule: Text
    grant: Text
    period: Count
    spender: Bytes
    due_ns: Count
    code: Text
    text: Text
    same: Count
    over: Flag
    under: Flag
    by: Text
    attempts: Count
    control: Count
    held: Flag
    fork: Flag


class DecisionRecord(NamedTuple):
    """What became of the request for an effect at `cause`."""

    cause: int
    verdict: Verdict
    extras: DecisionExtras


class RefusedRecord(NamedTuple):
    """An item that had been acknowledged was not admitted."""

    cause: int
    id: EventId
    schema: Name
    code: Text
    text: Text


class TimerRecord(NamedTuple):
    """A timer was armed for `due_ns`, or one that `fired` was armed again or dropped."""

    cause: int
    fired: Fired
    due_ns: Count
    what: TimerTarget


class ExpiredRecord(NamedTuple):
    """The timer `fired` removed a cell."""

    cause: int
    fired: TimerKey
    module: Name
    key: Bytes
    born: Count


class ControlRecord(NamedTuple):
    """A person did something, by a verb; an `id` is remembered like that of an event."""

    cause: int
    verb: Text
    who: Text
    why: Text
    arguments: Arguments
    id: EventId = None


class ManifestRecord(NamedTuple):
    """A new era begins."""

    cause: int
    manifest: BlockLink
    era: Count


class SnapshotRecord(NamedTuple):
    """A snapshot of `height` was saved."""

    cause: int
    height: Count
    snapshot: BlockLink


class BaselineRecord(NamedTuple):
    """The snapshot of `height` is the baseline now."""

    cause: int
    height: Count
    snapshot: BlockLink


class ForkExtras(TypedDict, total=False):
    """Who forked the world and why; the answers it was given: their index, and how many they are.

    `live`: external effects are dispatched; without it they are held. `next`: the height of the first open
    intent that is left for a later beat.
    """

    answers: BlockLink
    count: Count
    live: Flag
    next: Count
    who: Text
    why: Text


class ForkRecord(NamedTuple):
    """The world was forked from `parent` at `height`; with a `cause`, the fork's Fork record, it went on."""

    cause: int
    parent: Bytes
    height: Count
    effects: Text
    extras: ForkExtras


class MigratedRecord(NamedTuple):
    """A person moved a cell to another era."""

    cause: int
    module: Name
    key: Bytes
    born: Count
    era_from: Count
    era_to: Count
    state: Stored


class UpcastRecord(NamedTuple):
    """The state of a cell went through one upcaster, before the step that follows."""

    cause: int
    module: Name
    key: Bytes
    schema_from: Name
    schema_to: Name


Record = (
    EventRecord | EmittedRecord | ReceiptRecord | StepRecord | IntentRecord | DecisionRecord | RefusedRecord
    | TimerRecord | ExpiredRecord | ControlRecord | ManifestRecord | SnapshotRecord | BaselineRecord
    | ForkRecord | MigratedRecord | UpcastRecord | beats.WriteRecord | beats.AgendaRecord
    | beats.SignalRecord | beats.StageRecord | beats.EnzymeRecord | beats.BindingRecord
)  # fmt: skip

MessageRecord = EventRecord | EmittedRecord | ReceiptRecord
"""What cells handle: the causes of steps."""

RECORDS: Final[dict[Kind, type[Record] | None]] = {
    Kind.EVENT: EventRecord,
    Kind.EMITTED: EmittedRecord,
    Kind.RECEIPT: ReceiptRecord,
    Kind.STEP: StepRecord,
    Kind.WRITE: beats.WriteRecord,
    Kind.INTENT: IntentRecord,
    Kind.DECISION: DecisionRecord,
    Kind.REFUSED: RefusedRecord,
    Kind.TIMER: TimerRecord,
    Kind.EXPIRED: ExpiredRecord,
    Kind.CONTROL: ControlRecord,
    Kind.MANIFEST: ManifestRecord,
    Kind.SNAPSHOT: SnapshotRecord,
    Kind.BASELINE: BaselineRecord,
    Kind.FORK: ForkRecord,
    Kind.MIGRATED: MigratedRecord,
    Kind.UPCAST: UpcastRecord,
    Kind.AGENDA: beats.AgendaRecord,
    Kind.SIGNAL: beats.SignalRecord,
    Kind.STAGE: beats.StageRecord,
    Kind.ENZYME: beats.EnzymeRecord,
    Kind.BINDING: beats.BindingRecord,
}
