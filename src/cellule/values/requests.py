"""`Request`: how a step asks for an effect, before anything was checked.

It stands below the ways to write a cell and below the adapters, because both speak it: calling a decorated
adapter gives one, and a step carries it. Whether the kind exists, the params fit and the grant allows it is
decided in the beat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

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
