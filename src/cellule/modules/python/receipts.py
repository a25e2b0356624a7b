"""`Receipt`: what came of an effect, as a reducer gets it; and which events reach a cell without a route.

    def order(state: Order | None, event: Placed | Receipt[Charged] | TimerFired) -> Step[Order]

A receipt goes to the cell that asked, whatever the routes say, so it has no key and no subscription. Which
kinds of effect `Receipt[Charged]` means follows from the effects of the reducer: all that bring a `Charged`.
"""

from __future__ import annotations

import typing
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from cellule.modules.python.system import EffectReceiptRejected, TimerFired

T = TypeVar("T")

Status = Literal["ok", "failed", "timeout", "cancelled", "denied", "abandoned"]

DELIVERED: Final = (TimerFired, EffectReceiptRejected)
"""Events of Cellule that go to the cell that asked, as receipts do."""


class Receipt(msgspec.Struct, Generic[T], frozen=True):
    """What came of an effect: `value` if its status is ok, else `code` and `text` say why not.

    `key` is the idempotency key that the step gave.
    """

    intent_id: str
    kind: str
    status: Status
    value: T | None = None
    code: str | None = None
    text: str | None = None
    key: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it was performed."""
        return self.status == "ok"


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
    """Whether an event goes to the cell that asked for an effect, and is not routed."""
    return event in DELIVERED or is_receipt(event)
