"""What a world keeps of operations beside their cells: who fires when this beat ends, and who gives up when.

    armed    key of an operation               it has watchers that fire at the next commit
    due      deadline, key of an operation     it has watchers that give up in that beat

Both follow from the cells: `apply_write` is called with every Write of a cell of `sys/Operation`, live and in
replay, and takes what was and what is now from the two states.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

from cellule.errors import Corrupted
from cellule.kernel.heartbeat import operations
from cellule.kernel.heartbeat.operations import Operation
from cellule.kernel.index.keys import pair_of
from cellule.kernel.index.ordered import OrderedIndex
from cellule.kernel.limits import OPERATIONS_FIRED_MAX
from cellule.kernel.need import Need, Nodes, fetch
from cellule.values.cid import Cid
from cellule.values.link import Link

MODULE: Final = "sys/Operation"
_PRESENT: Final = 1
_DEADLINE_BYTES: Final = 8


class OperationBook:
    """The two indexes, and how many operations the beat under way has started."""

    __slots__ = ("armed", "due", "started")

    def __init__(self, nodes: Nodes) -> None:
        self.armed: OrderedIndex[int] = OrderedIndex(None, nodes, unpack=_present)
        self.due: OrderedIndex[int] = OrderedIndex(None, nodes, unpack=_present)
        self.started = (0, 0)  # the beat, and how many

    @classmethod
    def load(cls, nodes: Nodes, saved: Mapping[str, tuple[Cid, int] | None]) -> OperationBook:
        """The book of a snapshot, which names each index by root and count."""
        book = cls(nodes)
        for name, index in saved.items():
            if index is not None:
                root, count = index
                setattr(book, name, OrderedIndex(root, nodes, count=count, unpack=_present))
        return book

    def indexes(self) -> dict[str, OrderedIndex[int]]:
        """What a snapshot writes."""
        return {"armed": self.armed, "due": self.due}

    def next_number(self, beat: int) -> int:
        """The number of the next operation that a beat starts."""
        last, count = self.started
        return count + 1 if last == beat else 1

    def next_deadline(self) -> Generator[Need, None, int | None]:
        """The beat in which the next watcher gives up."""
        first = yield from self.due.first()
        return None if first is None else int.from_bytes(first[0][:_DEADLINE_BYTES], "big")

    def has_armed(self) -> Generator[Need, None, bool]:
        """Tell whether a commit would fire something whatever the beat is."""
        return (yield from self.armed.first()) is not None

    def ready(self, beat: int) -> Generator[Need, None, list[bytes]]:
        """The keys of operations with something to fire at the end of a beat, in the order of creation."""
        armed = yield from self.armed.scan(b"", None, OPERATIONS_FIRED_MAX)
        end = (beat + 1).to_bytes(_DEADLINE_BYTES, "big")
        late = yield from self.due.scan(b"", end, OPERATIONS_FIRED_MAX)
        keys = {key for key, _ in armed} | {key[_DEADLINE_BYTES:] for key, _ in late}
        return sorted(keys)[:OPERATIONS_FIRED_MAX]

    def change(self, key: bytes, old: Operation | None, new: Operation | None) -> None:
        """An operation is another now."""
        before, after = _deadlines(old), _deadlines(new)
        for deadline in sorted(before - after):
            self.due.remove(_due_key(deadline, key))
        for deadline in sorted(after - before):
            self.due.insert(_due_key(deadline, key), _PRESENT)
        was_armed, is_armed = old is not None and old.is_armed, new is not None and new.is_armed
        if was_armed and not is_armed:
            self.armed.remove(key)
        elif is_armed and not was_armed:
            self.armed.insert(key, _PRESENT)


def apply_write(
    book: OperationBook, nodes: Nodes, beat: int, key: bytes, old: bytes | Link | None,
    new: bytes | Link | None,
) -> Generator[Need, None, None]:  # fmt: skip
    """Account for a Write of an operation's cell."""
    was, now = (yield from _operation(nodes, old)), (yield from _operation(nodes, new))
    book.change(key, was, now)
    started, number = pair_of(key)
    if was is None and started == beat:
        book.started = (beat, number)


def _operation(nodes: Nodes, state: bytes | Link | None) -> Generator[Need, None, Operation | None]:
    if state is None:
        return None
    if isinstance(state, Link):
        found = yield from fetch(nodes, (state.cid,))
        state = found[state.cid]
    return operations.decode(state)


def _deadlines(operation: Operation | None) -> set[int]:
    return set() if operation is None else operation.deadlines


def _due_key(deadline: int, key: bytes) -> bytes:
    return deadline.to_bytes(_DEADLINE_BYTES, "big") + key


def _present(value: Any) -> int:
    if type(value) is not int or value != _PRESENT:
        raise Corrupted(
            "kernel.operation_damaged", "a row of operations is not {known}: {found}",
            known=_PRESENT, found=repr(value)[:200],
        )  # fmt: skip
    return value
