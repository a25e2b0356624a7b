"""The schemas that every manifest knows without declaring them: events and contexts of Cellule itself.

Users subscribe to them like to their own. They are part of the format: a change is a new version.

    sys/WorldStarted@1     the first event of every world
    sys/StepFailed@1       a step failed; never sent for the failure of a step that handles one
    sys/CallFailed@1       a cell that this one called gives no answer; sent to the caller alone
    sys/CascadeStopped@1   an event was too many emits away from the outside and was not delivered
    sys/TimerSet@1         the params of `timer.set`: after a time, or at one
    sys/TimerFired@1       the receipt of `timer.set`
    effect.timer/set@1     what comes of a timer that did not fire: it was denied, cancelled or abandoned
    sys/EffectReceiptRejected@1   a receipt did not fit its effect and settled it as failed
    sys/FabricMessage@1    what another world sent to an inbox of this one
    sys/ReducerGaveUp@1    a retrying client ran out of attempts
    sys/Context@1          what a step may know beside its state and event; also sys/ReducerContext@1
    sys/Log@1              the state of a module that declares `"state": "log"`
    sys/Aggregate@1        the state of an aggregate: its open windows, with results and what they are made of
    sys/AggregationStarted@1, sys/BatchProcessed@1, sys/AggregationCompleted@1, sys/AggregationFailed@1
                           what an aggregate tells of one window of one namespace
    sys/Tree@1             the state of a node of the tree, and its path where the key cannot tell it
    sys/Signal@1           an impulse, for a cell that it targets; a cell that emits this sends one
    sys/Value@1            any value: params and receipt of an effect that declares no schemas

The receipts of every other effect have a schema that `receipt_schema` makes, named by `receipt_event`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cellule.kernel.manifest.model import TIMER_SET
from cellule.values.schema import types as t
from cellule.values.schema.registry import Schemas
from cellule.values.schema.types import Schema

WORLD_STARTED: Final = "sys/WorldStarted@1"
STEP_FAILED: Final = "sys/StepFailed@1"
CALL_FAILED: Final = "sys/CallFailed@1"
CASCADE_STOPPED: Final = "sys/CascadeStopped@1"
TIMER_SET_PARAMS: Final = "sys/TimerSet@1"
TIMER_FIRED: Final = "sys/TimerFired@1"
EFFECT_RECEIPT_REJECTED: Final = "sys/EffectReceiptRejected@1"
FABRIC_MESSAGE: Final = "sys/FabricMessage@1"
REDUCER_GAVE_UP: Final = "sys/ReducerGaveUp@1"
CONTEXT: Final = "sys/Context@1"
REDUCER_CONTEXT: Final = "sys/ReducerContext@1"
LOG: Final = "sys/Log@1"
VALUE: Final = "sys/Value@1"
TREE_NODE: Final = "sys/Tree@1"
SIGNAL: Final = "sys/Signal@1"
AGGREGATE: Final = "sys/Aggregate@1"
AGGREGATION_STARTED: Final = "sys/AggregationStarted@1"
BATCH_PROCESSED: Final = "sys/BatchProcessed@1"
AGGREGATION_COMPLETED: Final = "sys/AggregationCompleted@1"
AGGREGATION_FAILED: Final = "sys/AggregationFailed@1"

EFFECTS: Final = "effect."
"""Begins the namespaces of receipts, which nobody else declares."""
OWN_EVENTS: Final = ("sys/", "sys.", EFFECTS)
"""Begins the events that only Cellule sends."""

CALL_ENDS: Final = ("cancelled", "deleted", "dropped", "ended", "failed", "refused")
STATUSES: Final = ("abandoned", "cancelled", "denied", "failed", "ok", "timeout")

_COUNT: Final = t.Int(min=0)
_CELL: Final[dict[str, Schema]] = {"module": t.Text(), "key": t.Bytes()}
_RESULTS: Final = t.Map(t.Text(), t.Option(t.Any()))
_SPAN: Final[dict[str, Schema]] = {
    "aggregation_id": t.Uuid(), "start_ns": t.Option(t.Time()), "end_ns": t.Option(t.Time()),
}  # fmt: skip
_AGGREGATION: Final[dict[str, Schema]] = {**_SPAN, "module": t.Text(), "namespace": t.Text()}
_WINDOW: Final = t.record({
    **_SPAN, "opened_ns": t.Time(), "items": _COUNT, "batches": _COUNT, "batched": _COUNT,
    "failed": t.Option(t.Text()), "results": _RESULTS, "partials": _RESULTS,
})  # fmt: skip


class Ended(NamedTuple):
    """What a cell did is over, by one of `CALL_ENDS`: whoever waits for an answer of it is told so."""

    status: str
    code: str
    text: str


def receipt_event(kind: str) -> str:
    """The schema of the receipts of a kind of effect.

    >>> receipt_event("payments.charge")
    'effect.payments/charge@1'
    """
    namespace, _, local = kind.rpartition(".")
    return f"{EFFECTS}{namespace}/{local}@1"


def receipt_schema(receipt: str) -> t.Record:
    """The schema of receipts whose `value` is of the schema `receipt`."""
    text = t.Option(t.Text())
    return t.record({
        "intent_id": t.Text(), "kind": t.Text(), "status": t.Enum(STATUSES),
        "value": t.Option(t.Ref(receipt)), "code": text, "text": text, "key": text,
    })  # fmt: skip


SYSTEM_SCHEMAS: Final = Schemas({
    WORLD_STARTED: t.record({}),
    STEP_FAILED: t.record({
        **_CELL, "height": _COUNT, "cause": _COUNT, "code": t.Text(), "text": t.Text(),
    }),
    CALL_FAILED: t.record({
        **_CELL, "call": t.Text(), "born": _COUNT, "status": t.Enum(CALL_ENDS), "code": t.Text(),
        "text": t.Text(),
    }),
    CASCADE_STOPPED: t.record({**_CELL, "height": _COUNT, "depth": _COUNT, "schema": t.Text()}),
    TIMER_SET_PARAMS: t.record({
        "after_ns": t.Option(t.Duration()), "at_ns": t.Option(t.Time()), "key": t.Option(t.Text()),
    }),
    TIMER_FIRED: t.record({
        "intent_id": t.Text(), "due_ns": t.Time(), "fired_ns": t.Time(), "key": t.Option(t.Text()),
    }),
    EFFECT_RECEIPT_REJECTED: t.record({
        **_CELL, "intent_id": t.Text(), "kind": t.Text(), "adapter": t.Option(t.Text()), "code": t.Text(),
        "text": t.Text(),
    }),
    FABRIC_MESSAGE: t.record({
        "from_universe": t.Uuid(), "from_world": t.Uuid(), "from_height": _COUNT,
        "payload_schema": t.Option(t.Text()), "payload": t.Bytes(), "headers": t.Map(t.Text(), t.Text()),
    }),
    REDUCER_GAVE_UP: t.record({
        **_CELL, "schema": t.Text(), "attempts": _COUNT, "code": t.Text(), "text": t.Text(),
    }),
    CONTEXT: t.record({
        **_CELL, "world": t.Uuid(), "cell_mode": t.Bool(), "beat": _COUNT, "journal_height": _COUNT,
        "now_ns": t.Time(), "entropy": t.Bytes(), "era": _COUNT, "version": _COUNT,
    }),
    REDUCER_CONTEXT: t.Ref(CONTEXT),
    LOG: t.List(t.Option(t.Any())),
    VALUE: t.Any(),
    TREE_NODE: t.record({"value": t.Option(t.Any()), "path": t.Option(t.Text())}),
    SIGNAL: t.record({
        "signal": t.Option(t.Text()), "target": t.Option(t.Text()), "payload": t.Option(t.Any()),
        "beat": t.Option(_COUNT),
    }),
    AGGREGATE: t.record({
        "windows": t.List(_WINDOW), "ended": _COUNT, "latest_ns": t.Option(t.Time()),
        "closed_ns": t.Option(t.Time()),
    }),
    AGGREGATION_STARTED: t.record({**_AGGREGATION, "started_ns": t.Time()}),
    BATCH_PROCESSED: t.record({**_AGGREGATION, "batch": _COUNT, "items": _COUNT, "total_items": _COUNT}),
    AGGREGATION_COMPLETED: t.record({
        **_AGGREGATION, "total_items": _COUNT, "batches": _COUNT, "duration_ns": t.Duration(),
        "results": _RESULTS,
    }),
    AGGREGATION_FAILED: t.record({
        **_AGGREGATION, "total_items": _COUNT, "duration_ns": t.Duration(), "code": t.Text(),
        "text": t.Text(),
    }),
    receipt_event(TIMER_SET): receipt_schema(TIMER_FIRED),
})  # fmt: skip

CONTEXTS: Final = (CONTEXT, REDUCER_CONTEXT)
