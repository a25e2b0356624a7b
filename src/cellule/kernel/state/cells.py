"""A cell at rest and at work.

At rest a cell is an *entry*: a tuple of bytes and numbers, cheap to keep by the million.

    (state, version, born, era, active_ns, last, more)

`state` is the stored bytes, a `Link` when they are a block not yet read, or None for a cell that only has a
queue. `last` is the height of its newest Step. `more` is None or a dict: status and reason of a stopped
cell, queue, heights of open intents, and the sealed chunks of a log. In the index an entry is the same list
with the state in its envelope (`pack`, `unpack`).

At work, while it has messages or is looked at by the beat under way, a cell is a `Slot`; the slot is then
the truth and the entry in the index is stale until the slot is written back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from cellule.errors import Corrupted, Rejected
from cellule.kernel.limits import QUEUE_INLINE_MAX, STATE_INLINE_INDEX_MAX
from cellule.kernel.state.snapshot_schema import is_heights, is_message
from cellule.values.cbor import encode
from cellule.values.cid import Cid, cid_of
from cellule.values.envelope import open_envelope, seal
from cellule.values.link import Link

State = bytes | Link | None
More = dict[str, Any]
Entry = tuple[State, int, int, int, int, int, More | None]

EVENT_MESSAGE = 0
RECEIPT_MESSAGE = 1


class Message(NamedTuple):
    """A message in a queue; `height` is that of the record that carries it.

    `expected` is the version that an event's sender expects, or the incarnation (`born`) a receipt is for.
    """

    height: int
    kind: int
    schema: str
    value: bytes | Link
    depth: int
    expected: int | None


class Slot:
    """One cell at work: its entry, its queue, and whether it may run."""

    __slots__ = ("active", "cells", "dirty", "entry", "key", "loaded", "queue", "stopped")

    def __init__(self, cells: Any, key: bytes, entry: Entry | None = None, *, loaded: bool = False) -> None:
        self.cells = cells
        self.key = key
        self.entry = entry
        self.queue: deque[Message] = deque()
        self.loaded = loaded  # the index has been read
        self.stopped = False  # halted, or waiting for a migration
        self.active = True  # in the ledger's list of slots to look at when the beat ends
        self.dirty = False  # the entry is to be written back

    def load(self, entry: Entry | None) -> None:
        """Take over what the index holds; messages delivered meanwhile stay behind the stored ones."""
        self.loaded = True
        if entry is None:
            return
        more = entry[6]
        if more is not None:
            self.stopped = "status" in more
            if "queue" in more:
                self.queue.extendleft(reversed(more["queue"]))
                more = {name: value for name, value in more.items() if name != "queue"} or None
                entry = (*entry[:6], more)
        self.entry = None if is_ghost(entry) and entry[6] is None and not entry[5] else entry

    def at_rest(self) -> Entry | None:
        """The entry to store, queue included; None when there is nothing to keep."""
        entry = self.entry
        if not self.queue:
            return entry
        if entry is None:
            entry = (None, 0, 0, 0, 0, 0, None)
        return (*entry[:6], {**(entry[6] or {}), "queue": list(self.queue)})


def weigh(entry: Entry) -> int:
    """About how many bytes an entry takes in memory."""
    state = entry[0]
    return 232 + len(state) if type(state) is bytes else 300


def is_ghost(entry: Entry) -> bool:
    """Tell whether the cell has no state of its own, only messages or a failure."""
    return entry[0] is None


def pack(entry: Entry, blocks: dict[Cid, bytes]) -> list[Any]:
    """An entry as the index stores it; what is too long to stand inline is added to `blocks`."""
    state, version, born, era, active_ns, last, more = entry
    packed: Any = state
    if isinstance(state, bytes):
        if len(state) > STATE_INLINE_INDEX_MAX:
            cid = cid_of(state)
            blocks[cid] = state
            packed = Link(cid)
        else:
            packed = seal(state)
    return [packed, version, born, era, active_ns, last, _pack_more(more, blocks)]


def pack_whole(entry: Entry) -> list[Any]:
    """An entry with everything inline: how it leaves memory for a while without entering the CAS."""
    state, more = entry[0], entry[6]
    if more is not None and isinstance(more.get("queue"), list):
        more = {**more, "queue": [message_value(message) for message in more["queue"]]}
    return [seal(state) if isinstance(state, bytes) else state, *entry[1:6], more]


def unpack(value: Any) -> Entry:
    """The entry of a stored list; a queue that was linked is still a `Link` in `more`."""
    try:
        state, version, born, era, active_ns, last, more = value
        if isinstance(state, list):
            state = open_envelope(state).data
        elif state is not None and not isinstance(state, Link):
            raise TypeError("the state is neither an envelope nor a link")
        if version < 0 or born < 0 or era < 0 or active_ns < 0 or last < 0:
            raise ValueError("a number is negative")
        if more is not None:
            queue = more.get("queue")
            if isinstance(queue, list):
                more = {**more, "queue": [message_of(item) for item in queue]}
            elif queue is not None and not isinstance(queue, Link):
                raise TypeError("the queue is neither a list nor a link")
            if "intents" in more and not is_heights(more["intents"]):
                raise TypeError("the open intents are no heights")
    except (TypeError, ValueError, AttributeError, Rejected) as error:
        raise Corrupted(
            "kernel.entry_damaged", "a cell entry is not what it should be ({what}): {found}",
            what=str(error), found=value,
        ) from error  # fmt: skip
    return (state, version, born, era, active_ns, last, more)


def message_value(message: Message) -> list[Any]:
    """A message as entries, pending lists and dead letters store it."""
    value = message.value
    held = value if isinstance(value, Link) else seal(value)
    return [message.height, message.kind, message.schema, held, message.depth, message.expected]


def message_of(value: Any) -> Message:
    """The message of a stored list."""
    if not is_message(value):
        raise Corrupted("kernel.message_damaged", "this is not a stored message: {found}", found=value)
    height, kind, schema, held, depth, expected = value
    return Message(
        height, kind, schema, held if isinstance(held, Link) else open_envelope(held).data, depth, expected
    )


def queue_block(messages: Iterable[Message]) -> bytes:
    """A long queue as a block of its own."""
    return encode([message_value(message) for message in messages])


def _pack_more(more: More | None, blocks: dict[Cid, bytes]) -> More | None:
    if more is None or "queue" not in more:
        return more
    queue = more["queue"]
    if isinstance(queue, Link):
        return more
    if len(queue) <= QUEUE_INLINE_MAX:
        return {**more, "queue": [message_value(message) for message in queue]}
    data = queue_block(queue)
    cid = cid_of(data)
    blocks[cid] = data
    return {**more, "queue": Link(cid)}
