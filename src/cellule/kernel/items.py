"""What a host hands to a beat, and what it gets back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from uuid import UUID

from cellule.errors import CelluleError
from cellule.kernel.cells import Slot
from cellule.values.cid import Cid
from cellule.values.link import Link

Verb = Literal[
    "pause", "resume", "cell.resume", "cell.migrate", "deploy", "snapshot", "baseline", "effect.approve",
    "effect.deny", "effect.cancel", "effect.retry", "schedule.pause", "schedule.resume",
]  # fmt: skip


@dataclass(slots=True)
class EventItem:
    """An event for the world.

    `explicit` ids can be presented again and enter the dedupe window; others are for the records only.
    `durable` items were acknowledged before their beat: a refusal of one is recorded. `system` items
    may have no subscriber.
    """

    schema: str
    value: bytes | Link
    key: bytes | None = None
    id: str | bytes | UUID | None = None
    explicit: bool = False
    expected_version: int | None = None
    issued_ns: int | None = None
    correlation: str | None = None
    durable: bool = False
    system: bool = False


@dataclass(slots=True)
class ControlItem:
    """An operator's verb, journaled with who and why."""

    verb: Verb
    who: str
    why: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
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


Item = EventItem | ControlItem | ReceiptItem | RefusalItem


class Opening(NamedTuple):
    """An intent that the host may dispatch once its frame is durable.

    `intent` is the 32-byte id (`kernel.intents.identity.intent_cid` gives its text form); `key` is what the
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


@dataclass(frozen=True, slots=True)
class Beat:
    """The result of a beat. `frame` is None when nothing happened: then nothing may be committed.

    `blocks` are the nodes the frame links. `wake` is when the world next wants a beat by itself; `more`
    tells that it wants one now. `opened` are intents to dispatch, `closed` the ids of dispatched ones that
    were settled without their adapter.
    """

    frame: bytes | None
    cid: Cid | None
    first: int
    last: int
    blocks: Mapping[Cid, bytes]
    outcomes: list[Outcome]
    step_rows: list[tuple[int, str, bytes, int, int, int, bytes | None, str, str]]  # as `Stepped`
    wake: int | None
    more: bool
    opened: list[Opening] = field(default_factory=list)
    closed: list[bytes] = field(default_factory=list)

    @property
    def steps(self) -> list[Stepped]:
        """The steps of this beat, in the order they ran."""
        return [Stepped._make(row) for row in self.step_rows]
