"""The rows of a world's lists, by name: what each index holds under its keys.

In the store a row is the list of its fields in their order. Here it is proven when it is read, and gets its
names; nobody else knows the order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from cellule.errors import Corrupted
from cellule.kernel.index.keys import pair_key
from cellule.kernel.state.cells import Message, Slot, message_of, message_value
from cellule.kernel.state.snapshot_schema import (
    is_dead_letter,
    is_intent,
    is_place,
    is_remembered_key,
    is_stopped,
    is_timer,
)

Row = TypeVar("Row")

OPEN: Final = "open"
PARKED: Final = "parked"
WAITING: Final = "waiting"
TIMER: Final = "timer"
OUTSIDE: Final = "outside"
HELD: Final = "held"
DENIED: Final = "denied"
DISPATCHED: Final = (OPEN, OUTSIDE, HELD)
"""Intents of the outside that an adapter has or had, or has not only because a fork holds them."""


class TimerRow(NamedTuple):
    """An armed timer, under the time it is due and the height of the record that armed it.

    `what` is "ttl" or "idle" of a cell born at `number`; "sweep" of the cells from `key` on that were born up
    to there; "intent", "approval" or "outside" of the intent whose record stands at `number`; "answer" of the
    intents that wait for the receipt of the idempotency key at the place `key`, so many emits away; or
    "schedule", and then `module` is its name and `key` its fingerprint.
    """

    what: str
    module: str
    key: bytes
    number: int


class StoppedRow(NamedTuple):
    """A cell that does not run, under the height of the step that stopped it."""

    module: str
    key: bytes
    status: str


class DeadLetter(NamedTuple):
    """What nobody handled: a message that a step skipped, or an effect that its adapter gave up.

    Under the height of the record that tells it, and 0 or 1. `letter` is the stored message, or of an effect
    a map: born, height, kind, params, and where there is one key and slot.
    """

    module: str
    key: bytes
    code: str
    text: str
    letter: Any

    @property
    def is_effect(self) -> bool:
        """Tell whether an adapter gave an effect up."""
        return isinstance(self.letter, dict)

    @property
    def message(self) -> Message:
        """The message that was skipped."""
        return message_of(self.letter)


class OpenIntent(NamedTuple):
    """A request for an effect that has no receipt yet, under the height of its Intent record.

    `status`: open (an adapter has it), parked (waits for an approval), waiting (for the receipt of another
    intent with its idempotency key), timer, outside (waits to be completed from outside, until its time is
    over), held (a fork that is not live does not dispatch it), denied (until its receipt, in the same frame).
    `extras`: params, since_ns, and where there is one: key, entry (of the whole map of its cell), operation
    (it shows its life as one), slot, due (its timer's key), grant, rule, same (the height of the intent it
    waits for), text (why it waits for an approval).
    """

    id: bytes
    module: str
    key: bytes
    born: int
    kind: str
    status: str
    extras: dict[str, Any]


class KnownReceipt(NamedTuple):
    """The receipt that an idempotency key got."""

    status: int
    schema: str
    value: Any


class KnownKey(NamedTuple):
    """What is remembered of an idempotency key, under its hash: the intent that stands for it, since when.

    `receipt` is None while that intent is open; `waiters` are the heights of intents that wait for it, and
    those that the frame of the receipt had no room for, until they are answered by a timer;
    `params` is the digest of its params: the key stands for these alone.
    """

    height: int
    since_ns: int
    receipt: KnownReceipt | None
    waiters: list[int]
    params: bytes

    @property
    def is_settled(self) -> bool:
        """Tell whether nobody waits for it: not the first intent, and no other."""
        return self.receipt is not None and not self.waiters


class ScheduleRow(NamedTuple):
    """A schedule of the manifest, by its name: `due_ns` is 0 where it is not armed.

    `waiting_ns` is the due time of a run that waits until its cells are idle, or 0.
    """

    fingerprint: bytes
    due_ns: int
    paused: bool
    waiting_ns: int = 0


@dataclass(slots=True)
class MapMove:
    """A whole map that is becoming cells: the Control that began it, and the last key that has its cell.

    `rest` are the entries behind that key, once they were read; they follow from the map.
    """

    control: int
    last: bytes = b""
    rest: list[tuple[bytes, Any]] | None = None


def full_letter(slot: Slot, message: Message) -> DeadLetter:
    """The dead letter of an emitted message that its cell's queue has no room for."""
    text = f"{len(slot.queue)} messages wait at the cell already"
    return DeadLetter(slot.cells.base, slot.key, "kernel.queue_full", text, message_value(message))


def letter_key(message: Message, place: int) -> bytes:
    """The key of that letter, for the n-th target of the message; 1 stands for letters of effects."""
    return pair_key(message.height, place + 1 if place else 0)


def _unpacker(fits: Callable[[Any], bool], row: Callable[..., Row], code: str) -> Callable[[Any], Row]:
    def unpack(value: Any) -> Row:
        _prove(fits, value, code)
        return row(*value)

    return unpack


def unpack_key(value: Any) -> KnownKey:
    """The remembered idempotency key of a stored row."""
    _prove(is_remembered_key, value, "kernel.idempotency_damaged")
    height, since_ns, receipt, waiters, params = value
    return KnownKey(height, since_ns, None if receipt is None else KnownReceipt(*receipt), waiters, params)


def unpack_place(value: Any) -> bytes:
    """The hash of an idempotency key."""
    _prove(is_place, value, "kernel.idempotency_damaged")
    place: bytes = value
    return place


def _prove(fits: Callable[[Any], bool], value: Any, code: str) -> None:
    if not fits(value):
        raise Corrupted(code, "a stored row is not what it should be: {found}", found=repr(value)[:200])


# The row of a stored value, proven.
unpack_timer = _unpacker(is_timer, TimerRow, "kernel.timer_damaged")
unpack_stopped = _unpacker(is_stopped, StoppedRow, "kernel.stopped_damaged")
unpack_letter = _unpacker(is_dead_letter, DeadLetter, "kernel.letter_damaged")
unpack_intent = _unpacker(is_intent, OpenIntent, "kernel.intent_damaged")
