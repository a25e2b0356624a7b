"""A cell at rest and at work.

At rest a cell is an `Entry`: bytes and numbers, cheap to keep by the million. In the index an entry is the
list of its fields, in their order, with the state in its envelope (`pack`, `unpack`); only those two know
the order.

At work, while it has messages or is looked at by the beat under way, a cell is a `Slot`; the slot is then
the truth and the entry in the index is stale until the slot is written back.

Rejected: a named tuple for entries. It takes twice as long to make and to read, and the garbage collector
looks at every one of a million in each of its runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from cellule.errors import Corrupted, Rejected
from cellule.kernel.index import LISTS, build, pair_key, scan_all
from cellule.kernel.limits import (
    MESSAGE_INLINE_MAX,
    QUEUE_BYTES_MAX,
    QUEUE_INLINE_MAX,
    QUEUE_MESSAGES_MAX,
    STATE_INLINE_INDEX_MAX,
)
from cellule.kernel.need import Need, Nodes
from cellule.kernel.state.expectation import Asker, Call, Expected
from cellule.kernel.state.snapshot_schema import is_call, is_count, is_heights, is_message
from cellule.values.cid import Cid, cid_of
from cellule.values.envelope import open_envelope, seal
from cellule.values.link import Link

State = bytes | Link | None
Extras = dict[str, Any]

EVENT_MESSAGE = 0
RECEIPT_MESSAGE = 1
ENTRY_BYTES = 232  # of an entry in memory, beside its state
LINK_BYTES = 68  # of a link in memory
MESSAGE_BYTES = 200  # of a message in memory, beside its value


class Entry(Struct, frozen=True, gc=False):
    """A cell at rest. `last` is the height of its newest Step, `born` and `born_ns` tell of its first.

    `state` is the stored bytes, a `Link` when they are a block not yet read, or None for a cell that only has
    a queue; of a log it is the tail. `size` counts the bytes of the whole state, also behind a link, and of a
    log all chunks and the tail. `extras` holds, where there is any: `status`, `since`, `code` and `text` of a
    stopped cell, its `queue`, the heights of its open `intents`, and the sealed chunks of a `log`.
    """

    state: State
    size: int
    version: int
    born: int
    born_ns: int
    era: int
    active_ns: int
    last: int
    extras: Extras | None

    def get(self, name: str, default: Any = None) -> Any:
        """One of the extras, or `default`."""
        return default if self.extras is None else self.extras.get(name, default)

    def changed(self, **fields: Any) -> Entry:
        """The same cell with other fields."""
        return replace(self, **fields)

    def with_extras(self, extras: Extras) -> Entry:
        """The same cell with other extras."""
        return replace(self, extras=extras or None)

    def without(self, *names: str) -> Entry:
        """The same cell without some of its extras."""
        return self.with_extras(
            {name: each for name, each in (self.extras or {}).items() if name not in names}
        )

    def is_life(self, born: int) -> bool:
        """Tell whether the cell has a state, and was born at this height."""
        return self.state is not None and self.born == born


def ghost(era: int = 0, active_ns: int = 0) -> Entry:
    """The entry of a cell that has no state of its own, only messages or a failure."""
    return Entry(None, 0, 0, 0, 0, era, active_ns, 0, None)


class Message(NamedTuple):
    """A message in a queue; `height` is that of the record that carries it.

    `expected` is what an event's sender expects, or whom a receipt is for: an incarnation, or an `Asker`. Of
    a call it is the `Call`; what tells that one has failed is for the incarnation that made it.
    """

    height: int
    kind: int
    schema: str
    value: bytes | Link
    depth: int
    expected: Expected | Asker | Call | int | None


class Slot:
    """One cell at work: its entry, its queue, and whether it may run."""

    __slots__ = ("active", "cells", "dirty", "entry", "key", "loaded", "queue", "queued", "stopped")

    def __init__(self, cells: Any, key: bytes, entry: Entry | None = None, *, loaded: bool = False) -> None:
        self.cells = cells
        self.key = key
        self.entry = entry
        self.queue: deque[Message] = deque()
        self.queued = 0  # bytes that were put into the queue since they were last counted; see `has_room`
        self.loaded = loaded  # the index has been read
        self.stopped = False  # halted, or waiting for a migration
        self.active = True  # in the ledger's list of slots to look at when the beat ends
        self.dirty = False  # the entry is to be written back

    def load(self, entry: Entry | None) -> None:
        """Take over what the index holds; messages delivered meanwhile stay behind the stored ones."""
        self.loaded = True
        if entry is None:
            return
        extras = entry.extras
        if extras is not None:
            self.stopped = "status" in extras
            if "queue" in extras:
                self.queue.extendleft(reversed(extras["queue"]))
                self.queued = sum(len(each.value) for each in self.queue if type(each.value) is bytes)
                entry = entry.without("queue")
        is_nothing = entry.state is None and entry.extras is None and not entry.last
        self.entry = None if is_nothing else entry

    def has_room(self, size: int) -> bool:
        """Tell whether the queue takes a further event of this size; counts it in."""
        queue = self.queue
        self.queued = self.queued + size if queue else size
        if len(queue) >= QUEUE_MESSAGES_MAX:
            return False
        if self.queued > QUEUE_BYTES_MAX:  # some of it may have left since
            self.queued = size + sum(len(each.value) for each in queue if isinstance(each.value, bytes))
        return self.queued <= QUEUE_BYTES_MAX

    def at_rest(self) -> Entry | None:
        """The entry to store, queue included; None when there is nothing to keep."""
        entry = self.entry
        if not self.queue:
            return entry
        if entry is None:
            entry = ghost()
        return entry.with_extras({**(entry.extras or {}), "queue": list(self.queue)})


def weigh(entry: Entry) -> int:
    """About how many bytes an entry takes in memory."""
    state, extras, queue = entry.state, entry.extras, 0
    if extras is not None and isinstance(extras.get("queue"), list):
        queue = sum(MESSAGE_BYTES + _held_bytes(each.value) for each in extras["queue"])
    return ENTRY_BYTES + queue + (len(state) if type(state) is bytes else LINK_BYTES)


def _held_bytes(value: bytes | Link | None) -> int:
    return len(value) if type(value) is bytes else LINK_BYTES


def pack(entry: Entry, blocks: dict[Cid, bytes]) -> list[Any]:
    """An entry as the index stores it; what is too long to stand inline is added to `blocks`."""
    state: Any = entry.state
    if isinstance(state, bytes):
        if len(state) > STATE_INLINE_INDEX_MAX:
            cid = cid_of(state)
            blocks[cid] = state
            state = Link(cid)
        else:
            state = seal(state)
    return _fields(entry, state, _pack_extras(entry.extras, blocks))


def pack_whole(entry: Entry) -> list[Any]:
    """An entry with everything inline: how it leaves memory for a while without entering the CAS."""
    state, extras = entry.state, entry.extras
    if extras is not None and isinstance(extras.get("queue"), list):
        extras = {**extras, "queue": [message_value(message) for message in extras["queue"]]}
    elif extras is not None and isinstance(extras.get("queue"), LongQueue):
        extras = _pack_extras(extras, {})
    return _fields(entry, seal(state) if isinstance(state, bytes) else state, extras)


def _fields(entry: Entry, state: Any, extras: Extras | None) -> list[Any]:
    return [
        state, entry.size, entry.version, entry.born, entry.born_ns, entry.era, entry.active_ns, entry.last,
        extras,
    ]  # fmt: skip


def unpack(value: Any) -> Entry:
    """The entry of a stored list; a long queue is a `LongQueue` in `extras`."""
    try:
        state, size, version, born, born_ns, era, active_ns, last, extras = value
        if isinstance(state, list):
            state = open_envelope(state).data
        elif state is not None and not isinstance(state, Link):
            raise TypeError("the state is neither an envelope nor a link")
        if min(size, version, born, born_ns, era, active_ns, last) < 0:
            raise ValueError("a number is negative")
        if extras is not None:
            queue = extras.get("queue")
            if isinstance(queue, list):
                extras = {**extras, "queue": [message_of(item) for item in queue]}
            elif queue is not None:
                extras = {**extras, "queue": _long_queue(**queue)}
            if "intents" in extras and not is_heights(extras["intents"]):
                raise TypeError("the open intents are no heights")
            if "calls" in extras and not all(map(is_call, extras["calls"])):
                raise TypeError("the calls to answer are none")
    except (TypeError, ValueError, AttributeError, KeyError, Rejected) as error:
        raise Corrupted(
            "kernel.entry_damaged", "a cell entry is not what it should be ({what}): {found}",
            what=str(error), found=value,
        ) from error  # fmt: skip
    return Entry(state, size, version, born, born_ns, era, active_ns, last, extras)


def _long_queue(count: int, root: Link) -> LongQueue:
    if not is_count(count) or not isinstance(root, Link):
        raise TypeError("the queue is neither a list nor the root of one")
    return LongQueue(root.cid, count)


def message_value(message: Message) -> list[Any]:
    """A message as dead letters and what was spilled hold it."""
    value = message.value
    held = value if isinstance(value, Link) else seal(value)
    expected = message.expected
    stored = [*expected] if isinstance(expected, tuple) else expected
    return [message.height, message.kind, message.schema, held, message.depth, stored]


def message_of(value: Any) -> Message:
    """The message of a stored list."""
    if not is_message(value):
        raise Corrupted("kernel.message_damaged", "this is not a stored message: {found}", found=value)
    height, kind, schema, held, depth, expected = value
    if isinstance(expected, list):
        expected = _EXPECTATIONS[len(expected)](*expected)
    value = held if isinstance(held, Link) else open_envelope(held).data
    return Message(height, kind, schema, value, depth, expected)


def pack_message(row: list[Any], blocks: dict[Cid, bytes]) -> list[Any]:
    """What `message_value` gave, as indexes store it: a long value is added to `blocks`."""
    height, kind, schema, held, depth, expected = row
    if isinstance(held, Link) or len(held[0]) <= MESSAGE_INLINE_MAX:
        return row
    cid = cid_of(held[0])
    blocks[cid] = held[0]
    return [height, kind, schema, Link(cid), depth, expected]


_EXPECTATIONS: dict[int, Any] = {2: Asker, 3: Expected, 5: Call}
"""What a message expects, by the number of its parts."""


class LongQueue:
    """A queue at rest that is an index of its own: position -> message."""

    __slots__ = ("count", "root")

    def __init__(self, root: Cid, count: int) -> None:
        self.root = root
        self.count = count

    def __len__(self) -> int:
        return self.count

    def messages(self, nodes: Nodes) -> Generator[Need, None, list[Message]]:
        """Read all of it."""
        rows = yield from scan_all(self.root, nodes)
        if [key for key, _ in rows] != [pair_key(number, 0) for number in range(self.count)]:
            raise Corrupted(
                "kernel.queue_damaged", "queue {root} is not a list of {count} messages",
                root=str(self.root), count=self.count,
            )  # fmt: skip
        return [message_of(row) for _, row in rows]


def _pack_extras(extras: Extras | None, blocks: dict[Cid, bytes]) -> Extras | None:
    if extras is None or "queue" not in extras:
        return extras
    queue = extras["queue"]
    if isinstance(queue, LongQueue):
        return {**extras, "queue": {"count": queue.count, "root": Link(queue.root)}}
    rows = [pack_message(message_value(message), blocks) for message in queue]
    if len(rows) <= QUEUE_INLINE_MAX:
        return {**extras, "queue": rows}
    made = build({pair_key(number, 0): row for number, row in enumerate(rows)}, LISTS)
    blocks.update(made.blocks)
    assert made.root is not None
    return _pack_extras({**extras, "queue": LongQueue(made.root, len(rows))}, blocks)
