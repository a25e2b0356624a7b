"""What a reducer answers: `Step` or `Refuse`, and what may stand in a step: `Keyed` events, requests.

A bare state means `Step(state)`. Nothing here is checked when it is made: the program checks a step as a
whole, where it can name the module and the field.

Rejected: None as the sign to delete. A forgotten `return` would remove the cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from cellule.errors import REFUSED_CODE
from cellule.values.records import RecordLike
from cellule.values.requests import Request

S = TypeVar("S")


class _Stated(msgspec.Struct, Generic[S]):
    """The one part of a step that is given by position."""

    state: S


class Step(_Stated[S], Generic[S], kw_only=True):
    """The new state of the cell, and what else comes of the event.

    `emit` are events, delivered in the next beat in this order; `reply` answers the sender; `ann` is a note
    kept with the record of the step; `effects` are requests to the outside; `cancel` are the keys of timers
    and effects that this cell asked for before: what is still open of them ends, before `effects` begin.
    """

    emit: Sequence[RecordLike | Keyed] = ()
    reply: object = None
    ann: object = None
    effects: Sequence[Request] = ()
    cancel: Sequence[str] = ()
    deletes: bool = False

    @classmethod
    def delete(
        cls,
        *,
        emit: Sequence[RecordLike | Keyed] = (),
        reply: object = None,
        ann: object = None,
        effects: Sequence[Request] = (),
    ) -> Step[Any]:
        """End the cell: its state is gone, and a later event finds none."""
        return Step(None, emit=emit, reply=reply, ann=ann, effects=effects, deletes=True)


class Refuse(Exception):
    """The event is refused: nothing changes, and whoever sent it gets `cellule.Refused`.

    `reason` is for people, `code` for programs. It is recorded as an outcome of the step, which is no
    failure: the cell goes on with its next event. Return it, or raise it from further inside.
    """

    __match_args__ = ("reason", "code")

    def __init__(self, reason: str, code: str = REFUSED_CODE) -> None:
        super().__init__(reason, code)
        self.reason = reason
        self.code = code


class Keyed(NamedTuple):
    """An event to emit with an explicit key, where the route cannot take it from the event."""

    event: RecordLike
    key: object


Effect = Request
"""A request for an effect: what kind, with which parameters, under which slot and idempotency key."""
