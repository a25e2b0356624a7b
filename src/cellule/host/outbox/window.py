"""The window: which rows are in memory. Some of every kind, so that none waits behind another's backlog.

What does not fit stays in the store and is found by the next search, which is asked for when there is room
again. Rows that wait for a far retry take at most half of a queue, and where an adapter has limits by key,
keys with many rows give way to those with few. A row that left memory while a search was
under way is not taken in by that search: it was read before. One that a person made due earlier replaces the
one that waits here.
"""

from __future__ import annotations

from collections.abc import Callable

from cellule.host.outbox.kind_queue import WAITING, Entry, KindQueue
from cellule.host.outbox.limits import WINDOW_BYTES, WINDOW_ROWS
from cellule.host.outbox.rows import Stored


class Window:
    """The rows in memory, by intent and by kind; `search` is called when the store should be looked at."""

    def __init__(self, search: Callable[[], None]) -> None:
        self.entries: dict[bytes, Entry] = {}
        self.queues: dict[str, KindQueue] = {}
        self.missing: dict[str, int] = {}  # kinds without adapter, and how many rows the last search saw
        self.soon_ns: int | None = None  # when a row that is only in the store is due
        self._search = search
        self._gone: set[bytes] | None = None

    def take_in(self, stored: Stored, *, known: bool) -> None:
        """Hold a row, if there is an adapter and room for it, and let it wait for its time."""
        row = stored.row
        held = self.entries.get(row.intent)
        if held is not None and _is_hastened(held, stored):
            held.queue.withdraw(held)
            self.forget(held)
            if self._gone is not None:
                self._gone.discard(row.intent)
        if row.intent in self.entries or (self._gone is not None and row.intent in self._gone):
            return
        queue = self.queues.get(row.kind)
        if queue is None:
            self.missing[row.kind] = self.missing.get(row.kind, 0) + 1
            return
        if self._is_full(queue):
            queue.left = True
            for crowding in queue.give_way(row):
                self.forget(crowding)
            if self._is_full(queue):
                return
        entry = Entry(stored, queue, known=known)
        self.entries[row.intent] = entry
        queue.count += 1
        queue.bytes += len(stored.value)
        queue.push(entry)

    def keep(self, entry: Entry, moved: Stored, far_ns: int) -> None:
        """A row has moved: let it wait again; one that waits long is left to the store if many are here."""
        self.replace(entry, moved)
        is_far = moved.row.ready_ns > far_ns and not entry.closed
        if is_far and not self._is_half_empty(entry.queue):
            self.due_later(moved.row.ready_ns)
            self.forget(entry)
        else:
            entry.queue.push(entry)

    def replace(self, entry: Entry, stored: Stored) -> None:
        """A row has other bytes now."""
        entry.queue.bytes += len(stored.value) - len(entry.stored.value)
        entry.stored = stored

    def forget(self, entry: Entry) -> None:
        """A row is no longer ours to perform."""
        intent, queue = entry.stored.row.intent, entry.queue
        if self.entries.get(intent) is not entry:
            return
        del self.entries[intent]
        queue.count -= 1
        queue.bytes -= len(entry.stored.value)
        if self._gone is not None:
            self._gone.add(intent)
        if queue.left and self._is_half_empty(queue):
            self._search()

    def _is_full(self, queue: KindQueue) -> bool:
        """Every kind has the same share of the bytes: long rows of one keep no other out."""
        return queue.count >= WINDOW_ROWS or queue.bytes >= WINDOW_BYTES // len(self.queues)

    def _is_half_empty(self, queue: KindQueue) -> bool:
        return queue.count <= WINDOW_ROWS // 2 and queue.bytes <= WINDOW_BYTES // len(self.queues) // 2

    def due_later(self, ready_ns: int) -> None:
        """A row that is only in the store is due at this time."""
        self.soon_ns = ready_ns if self.soon_ns is None else min(self.soon_ns, ready_ns)

    def search_begins(self) -> None:
        """The store is looked at from its beginning."""
        self._gone = set()
        self.soon_ns = None
        self.missing = {}
        for queue in self.queues.values():
            queue.left = False

    def search_ends(self) -> None:
        """The store has been looked at."""
        self._gone = None


def _is_hastened(entry: Entry, stored: Stored) -> bool:
    """Tell whether a person made a row due earlier that waits here; the pool's own moves count attempts."""
    before, after = entry.stored.row, stored.row
    return entry.state is WAITING and after.tried == before.tried and after.ready_ns < before.ready_ns
