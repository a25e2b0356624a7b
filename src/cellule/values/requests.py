"""`Request`: how a step asks for an effect, before anything was checked.

It stands below the ways to write a cell and below the adapters, because both speak it: calling a decorated
adapter gives one, and a step carries it. Whether the kind exists, the params fit and the grant allows it is
decided in the beat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Request(NamedTuple):
    """A request for an effect: what kind, with which parameters (a record or plain values)."""

    kind: str
    params: Any = None
    cap_slot: str | None = None
    idempotency_key: str | None = None
    limits: Mapping[str, int] | None = None
