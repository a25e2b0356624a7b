"""What a world keeps of its heartbeat: registry, bindings, impulses to come, whether it is paused.

    registry   number -> entry                                   number: 8 bytes, in the order of registration
    by_head    literal head of the query, 00, kind, number -> 0  kind: 00 all literal and exact, 01 any other
    by_name    name, 00, number -> 0
    bindings   key of the node, 00, name -> how                  the newest of a name counts
    impulses   (beat, height) -> impulse                         so the order is that of queueing
    counts     (beat, 0) -> [impulses, promoted]                 how many are queued for it

Beside these stand what it keeps of operations and of the wall clock of its beats.

An impulse is looked up by the heads that match its signal, so entries that do not match cost it nothing.
Impulses that wait because the heartbeat is paused stay where they are: a beat runs what is due by then.

A world without any of it has none (`ledger.heartbeat` is None). Nodes of the tree are cells of `sys/Tree`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

from cellule.errors import ensure
from cellule.kernel.heartbeat.entries import Entry
from cellule.kernel.heartbeat.paths import tree_key
from cellule.kernel.heartbeat.query import heads_of
from cellule.kernel.index.keys import pair_key, pairs_from
from cellule.kernel.index.ordered import OrderedIndex
from cellule.kernel.index.read import SCAN_MAX
from cellule.kernel.limits import BINDINGS_PER_NODE_MAX, CANDIDATES_MAX
from cellule.kernel.need import Need, Nodes
from cellule.kernel.state.heartbeat_rows import (
    END,
    LITERAL,
    NUMBER_BYTES,
    OTHER,
    PRESENT,
    UNPACKS,
    Impulse,
    binding_key,
    head_key,
    is_promoted,
    name_key,
    name_of_binding,
    number_key,
    passes_pause,
)
from cellule.kernel.state.operations import OperationBook
from cellule.kernel.state.wall_clock import WallClock

_PARSED_MAX: Final = 10_000  # entries kept parsed
_LISTED_MAX: Final = 10_000  # lists of numbers kept
_BEHIND: Final = b"\2"  # behind both kinds of heads
_NAMED: Final = b"\xff" * (NUMBER_BYTES + 1)  # behind every number; a name goes on with no such byte


class Heartbeat:
    """The heartbeat of one world; changed by records only, live and in replay alike."""

    def __init__(self, nodes: Nodes) -> None:
        self.registry: OrderedIndex[Entry] = _index(nodes, "registry")
        self.by_head: OrderedIndex[int] = _index(nodes, "by_head")
        self.by_name: OrderedIndex[int] = _index(nodes, "by_name")
        self.bindings: OrderedIndex[int] = _index(nodes, "bindings")
        self.impulses: OrderedIndex[Impulse] = _index(nodes, "impulses")
        self.counts: OrderedIndex[list[int]] = _index(nodes, "counts")
        self.operations = OperationBook(nodes)
        self.wall_clock = WallClock(nodes)
        self.numbers = 0  # entries that were ever registered
        self.queued = 0  # impulses that wait
        self.paused = False
        self._parsed: dict[int, Entry] = {}
        self._listed: dict[
            tuple[bytes, bytes], list[int]
        ] = {}  # what was looked up since the registry changed

    def pause(self, *, is_paused: bool) -> None:
        """Keep impulses for later, or go on."""
        self.paused = is_paused

    # The registry

    def register(self, number: int, entry: Entry) -> None:
        """An entry gets the next number."""
        ensure(number == self.numbers, "kernel.entry_number", "entry {number} is not the next", number=number)
        self.numbers += 1
        self._listed.clear()
        self.registry.insert(number_key(number), entry)
        self.by_head.insert(head_key(entry, number), PRESENT)
        self.by_name.insert(name_key(entry.name, number), PRESENT)

    def unregister(self, number: int, entry: Entry) -> None:
        """An entry is gone; its number is not given again."""
        is_given = 0 <= number < self.numbers
        ensure(is_given, "kernel.entry_number", "entry {number} was never registered", number=number)
        self._parsed.pop(number, None)
        self._listed.clear()
        self.registry.remove(number_key(number))
        self.by_head.remove(head_key(entry, number))
        self.by_name.remove(name_key(entry.name, number))

    def entry(self, number: int) -> Generator[Need, None, Entry | None]:
        """The entry of a number."""
        found = self._parsed.get(number)
        if found is None:
            found = yield from self.registry.get(number_key(number))
            if found is None:
                return None
            if len(self._parsed) >= _PARSED_MAX:
                self._parsed.clear()
            found = self._parsed[number] = found._replace(number=number)
        return found

    def matching(self, signal: Sequence[str]) -> Generator[Need, None, list[Entry]]:
        """The entries whose query matches a signal; one more than may be, where they are too many."""
        found: list[Entry] = []
        *above, last = (tree_key(head) + END for head in heads_of(signal))
        ranges = [(begin + OTHER, begin + _BEHIND) for begin in above]
        for begin, end in (*ranges, (last + LITERAL, last + _BEHIND)):
            for number in (yield from self._listing(self.by_head, begin, end)):
                entry = yield from self.entry(number)
                if entry is not None and entry.query.matches(signal):
                    found.append(entry)
                if len(found) > CANDIDATES_MAX:
                    return found
        return found

    def _listing(
        self, index: OrderedIndex[int], begin: bytes, end: bytes
    ) -> Generator[Need, None, list[int]]:
        """The numbers at the end of the keys of a range."""
        found = self._listed.get((begin, end))
        if found is None:
            if len(self._listed) >= _LISTED_MAX:
                self._listed.clear()
            found = self._listed[begin, end] = yield from _numbers(index, begin, end)
        return found

    def named(self, name: str) -> Generator[Need, None, list[Entry]]:
        """The entries of a name, in the order of registration."""
        prefix = name.encode() + END
        numbers = yield from self._listing(self.by_name, prefix, prefix + _NAMED)
        found: list[Entry] = []
        for number in numbers:
            entry = yield from self.entry(number)
            if entry is not None:
                found.append(entry)
        return found

    def entries(self, begin: int, limit: int) -> Generator[Need, None, list[Entry]]:
        """Up to `limit` entries from a number on."""
        rows = yield from self.registry.scan(number_key(begin), None, limit)
        return [entry._replace(number=int.from_bytes(key, "big")) for key, entry in rows]

    # Bindings

    def bind(self, path: str, name: str, kind: int) -> None:
        """The newest record of a name at a node."""
        self.bindings.put(binding_key(tree_key(path), name), kind)

    def bound_at(self, path: str) -> Generator[Need, None, dict[str, int]]:
        """What is bound at a node itself: of each name, how."""
        if self.bindings.is_empty:
            return {}
        rows = yield from self._bindings(tree_key(path))
        return {name_of_binding(key): how for key, how in rows}

    def unbind_all(self, key: bytes) -> Generator[Need, None, None]:
        """A node is gone, and what was bound to it."""
        rows = yield from self._bindings(key)
        for row, _ in rows:
            self.bindings.remove(row)

    def _bindings(self, key: bytes) -> Generator[Need, None, list[tuple[bytes, int]]]:
        begin = key + END
        return (yield from self.bindings.scan(begin, begin + b"\xff", BINDINGS_PER_NODE_MAX))

    # Impulses

    def queue(self, beat: int, height: int, impulse: Impulse) -> Generator[Need, None, None]:
        """An impulse waits for its beat."""
        self.impulses.insert(pair_key(beat, height), impulse)
        yield from self._count(beat, 1, impulse)

    def finish(self, beat: int, height: int, impulse: Impulse) -> Generator[Need, None, None]:
        """An impulse was handled."""
        self.impulses.remove(pair_key(beat, height))
        yield from self._count(beat, -1, impulse)

    def _count(self, beat: int, change: int, impulse: Impulse) -> Generator[Need, None, None]:
        self.queued += change
        ensure(self.queued >= 0, "kernel.impulse_count", "beat {beat} has too few", beat=beat)
        count, promoted = yield from self.count(beat)
        count, promoted = count + change, promoted + change * is_promoted(impulse.kind)
        ensure(count >= 0 <= promoted, "kernel.impulse_count", "beat {beat} has too few", beat=beat)
        if count:
            self.counts.put(pair_key(beat, 0), [count, promoted])
        else:
            self.counts.delete(pair_key(beat, 0))

    def count(self, beat: int) -> Generator[Need, None, tuple[int, int]]:
        """How many impulses are queued for a beat, and how many of them count as promoted."""
        count, promoted = (yield from self.counts.get(pair_key(beat, 0))) or (0, 0)
        return count, promoted

    def due(self, beat: int, after: bytes, limit: int) -> Generator[Need, None, list[tuple[bytes, Impulse]]]:
        """Impulses that are due in a beat; while the heartbeat is paused, of that beat alone."""
        begin, end = pairs_from(beat)
        if not self.paused:
            begin = b""
        return (yield from self.impulses.scan(max(begin, after), end, limit))

    def has_due(self, beat: int) -> Generator[Need, None, bool]:
        """Tell whether any impulse runs in a beat; those that a pause holds back do not make one come."""
        if self.impulses.is_empty:
            return False
        if not self.paused:
            return bool((yield from self.due(beat, b"", 1)))
        after = b""
        while page := (yield from self.due(beat, after, SCAN_MAX)):
            if any(passes_pause(impulse) for _, impulse in page):
                return True
            after = page[-1][0] + b"\0"
        return False

    def has_later(self, beat: int) -> Generator[Need, None, bool]:
        """Tell whether an impulse waits for a later beat than this."""
        if self.impulses.is_empty:
            return False
        return bool((yield from self.impulses.scan(pair_key(beat + 1, 0), None, 1)))


def _index(nodes: Nodes, name: str) -> OrderedIndex[Any]:
    return OrderedIndex(None, nodes, unpack=UNPACKS[name])


def _numbers(index: OrderedIndex[int], begin: bytes, end: bytes) -> Generator[Need, None, list[int]]:
    numbers: list[int] = []
    while not index.is_empty:
        page = yield from index.scan(begin, end, SCAN_MAX)
        numbers += [int.from_bytes(key[-NUMBER_BYTES:], "big") for key, _ in page]
        if len(page) < SCAN_MAX:
            break
        begin = page[-1][0] + END
    return numbers
