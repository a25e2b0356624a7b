"""Records of Cellule itself as Python classes: events for reducers, receipts, the params of a timer."""

from __future__ import annotations

import typing
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import msgspec

from cellule.kernel.manifest.system import (
    CASCADE_STOPPED,
    EFFECT_RECEIPT_REJECTED,
    SIGNAL,
    STEP_FAILED,
    TIMER_FIRED,
    TIMER_SET_PARAMS,
    WORLD_STARTED,
)
from cellule.values.requests import Receipt
from cellule.values.schema.scalars import EPOCH
from cellule.values.schema.shape import DurationNs, TimeNs

Count = Annotated[int, msgspec.Meta(ge=0)]


class WorldStarted(msgspec.Struct, frozen=True):
    """The first event of every world."""


class StepFailed(msgspec.Struct, frozen=True):
    """A step failed; `height` is its record, `cause` the event it handled."""

    module: str
    key: bytes
    height: Count
    cause: Count
    code: str
    text: str


class CascadeStopped(msgspec.Struct, frozen=True):
    """An event was too many emits away from the outside and was not delivered."""

    module: str
    key: bytes
    height: Count
    depth: Count
    schema: str


class TimerSet(msgspec.Struct, frozen=True, kw_only=True):
    """The params of `timer.set`: after a time, or at one; `key` comes back with the fired timer."""

    after_ns: DurationNs | None = None
    at_ns: TimeNs | None = None
    key: str | None = None


class TimerFired(msgspec.Struct, frozen=True):
    """A timer of this cell fired: when it was due, when it fired, and the `key` it was set with."""

    intent_id: str
    due_ns: TimeNs
    fired_ns: TimeNs
    key: str | None = None

    @property
    def due(self) -> datetime:
        """When it was due, in UTC, to the microsecond."""
        return EPOCH + timedelta(microseconds=self.due_ns // 1_000)


class EffectReceiptRejected(msgspec.Struct, frozen=True):
    """A receipt did not fit its effect, which was settled as failed."""

    module: str
    key: bytes
    intent_id: str
    kind: str
    code: str
    text: str
    adapter: str | None = None


class Signal(msgspec.Struct, frozen=True):
    """An impulse: emitted it runs enzymes in the next beat, or in `beat`; a cell gets one that targets it.

    A cell is at `/cells/<namespace>/<name>/<key>`; its reducer takes `Signal` like any event.
    """

    signal: str | None = None
    target: str | None = None
    payload: Any = None
    beat: Count | None = None


SYSTEM_NAMES: Final = {
    WorldStarted: WORLD_STARTED,
    StepFailed: STEP_FAILED,
    CascadeStopped: CASCADE_STOPPED,
    TimerSet: TIMER_SET_PARAMS,
    TimerFired: TIMER_FIRED,
    EffectReceiptRejected: EFFECT_RECEIPT_REJECTED,
    Signal: SIGNAL,
}

DELIVERED: Final = (TimerFired, EffectReceiptRejected, Signal)
"""Events of Cellule that go to one cell: that asked for them, or that is their target."""


def is_receipt(event: Any) -> bool:
    """Whether this is `Receipt[...]`, or `Receipt` without saying of what."""
    return event is Receipt or typing.get_origin(event) is Receipt


def received(event: Any) -> Any:
    """The type of what a receipt brings."""
    return typing.get_args(event)[0]


def receipt_of(python: Any) -> Any:
    """The type of receipts that bring a value of this type."""
    return Receipt[python]


def is_delivered(event: Any) -> bool:
    """Whether an event goes to the cell that asked for an effect, or that it targets, and is not routed."""
    return event in DELIVERED or is_receipt(event)
