"""`Request`, by which a step asks for an effect, and `Receipt`, which tells its cell what came of it.

They stand below the ways to write a cell and below the adapters, because both speak them: calling a decorated
adapter gives a request, and a step carries it. Whether the kind exists, the params fit and the grant allows
it is decided in the beat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple

import msgspec

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R = TypeVar("R", default=Any)
else:
    from typing import TypeVar

    R = TypeVar("R")


class Request(NamedTuple, Generic[R]):
    """A request for an effect: what kind, with which parameters (a record or plain values).

    `R` is what its receipt brings, as far as a type checker knows it.
    """

    kind: str
    params: Any = None
    cap_slot: str | None = None
    idempotency_key: str | None = None
    limits: Mapping[str, int] | None = None


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
