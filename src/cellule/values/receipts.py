"""`Receipt`: what came of an effect, as the cell that asked for it gets it.

It stands below the ways to write a cell and below the adapters, because both speak it: a reducer takes one,
and `charge.is_receipt(event)` tells the receipts of one effect from those of another.
"""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

import msgspec

T = TypeVar("T")

Status = Literal["ok", "failed", "timeout", "cancelled", "denied", "abandoned"]


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
