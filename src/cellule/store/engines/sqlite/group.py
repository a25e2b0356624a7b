"""A group of batches decided together: which succeed, and what is then written.

Pure: it takes the batches in order and the rows they look at, and returns one outcome a batch and the writes
of all that succeeded, merged, so that a group costs as many statements as one batch. A batch sees what those
before it wrote; one that conflicts leaves no trace. Reading, writing and waiting do not live here.

Rejected: a savepoint per batch. It costs two statements each and undoes work that need not be done at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cellule.errors import CelluleError, Conflict
from cellule.store.engine import Batch, Stamp, check_batch
from cellule.store.engines.sqlite.statements import STAMP_COUNT_BYTES
from cellule.store.families import check_one_family
from cellule.store.rows import add_counter, open_row, seal_row

Outcome = list[Stamp] | CelluleError
PLAIN_ROWS, PLAIN_BYTES = 8, 512_000


@dataclass(slots=True)
class Prepared:
    """A checked batch in stored form. Nobody changes it; not frozen, because that is slower to make."""

    expect: list[tuple[bytes, bytes | None]]
    set: dict[bytes, bytes]
    clear: tuple[bytes, ...]
    clear_range: tuple[tuple[bytes, bytes], ...]
    add: dict[bytes, int]
    ordered: tuple[tuple[bytes, bytes], ...]
    size: int

    @property
    def is_plain(self) -> bool:
        """Tell whether this only expects and sets a few rows."""
        return (
            self.size <= PLAIN_BYTES
            and 0 < len(self.set) <= PLAIN_ROWS and 0 < len(self.expect) <= PLAIN_ROWS
            and not (self.clear or self.clear_range or self.add or self.ordered)
        )  # fmt: skip


@dataclass(slots=True)
class Decision:
    """What a group does: one outcome a batch, then ranges to clear, then rows to write or delete."""

    outcomes: list[Outcome] = field(default_factory=list)
    ranges: list[tuple[bytes, bytes]] = field(default_factory=list)
    rows: dict[bytes, bytes | None] = field(default_factory=dict)
    stamp: int = 0

    def touches(self, key: bytes) -> bool:
        """Tell whether the group may have changed `key`."""
        return key in self.rows or any(begin <= key < end for begin, end in self.ranges)


def prepare(batch: Batch) -> Prepared:
    """Check a batch and bring its values into stored form; done by the caller, while the disk works."""
    size = check_batch(batch)
    for begin, end in batch.clear_range:
        check_one_family(begin, end)
    return Prepared(
        [(key, None if value is None else seal_row(key, value)) for key, value in batch.expect.items()],
        {key: seal_row(key, value) for key, value in batch.set.items()},
        tuple(batch.clear),
        tuple(batch.clear_range),
        dict(batch.add),
        tuple(batch.ordered),
        size,
    )


def keys_read(batches: Iterable[Prepared]) -> list[bytes]:
    """Return each key once whose stored row decides something."""
    keys: dict[bytes, None] = {}
    for batch in batches:
        for key, _ in batch.expect:
            keys[key] = None
        for key in batch.add:
            keys[key] = None
    return list(keys)


def decide(batches: Sequence[Prepared], stored: dict[bytes, bytes], stamp: int) -> Decision:
    """Decide the batches in order, given the stored rows of `keys_read` and the last stamp number."""
    decision = Decision(stamp=stamp)
    now: dict[bytes, bytes | None] = dict(stored)
    for batch in batches:
        written: dict[bytes, bytes | None] = dict(batch.set)
        try:
            if batch.expect:
                _check_expected(batch, now)
            if batch.add:
                written.update(_added(batch, now))
        except CelluleError as error:
            decision.outcomes.append(error)
            continue
        if batch.clear_range:
            _clear_ranges(batch, now, decision)
        if batch.clear:
            written.update(dict.fromkeys(batch.clear))
        stamps = _stamped(batch, decision, written) if batch.ordered else []
        now.update(written)
        decision.rows.update(written)
        decision.outcomes.append(stamps)
    return decision


def _check_expected(batch: Prepared, now: dict[bytes, bytes | None]) -> None:
    for key, expected in batch.expect:
        found = now.get(key)
        if found == expected:
            continue
        if found is not None:
            open_row(key, found)
        raise Conflict("store.conflict", "key {key} does not hold the value expected", key=key)


def _added(batch: Prepared, now: dict[bytes, bytes | None]) -> dict[bytes, bytes]:
    counters: dict[bytes, bytes] = {}
    for key, delta in batch.add.items():
        cleared = any(begin <= key < end for begin, end in batch.clear_range)
        counters[key] = add_counter(key, None if cleared else now.get(key), delta)
    return counters


def _clear_ranges(batch: Prepared, now: dict[bytes, bytes | None], decision: Decision) -> None:
    """Forget what the ranges hold; ranges are deleted before any row is written, so nothing comes back."""
    for begin, end in batch.clear_range:
        for key in [key for key in now if begin <= key < end]:
            now[key] = None
            decision.rows.pop(key, None)
        decision.ranges.append((begin, end))


def _stamped(batch: Prepared, decision: Decision, written: dict[bytes, bytes | None]) -> list[Stamp]:
    decision.stamp += 1
    head = decision.stamp.to_bytes(STAMP_COUNT_BYTES, "big")
    stamps = [Stamp(head + position.to_bytes(2, "big")) for position in range(len(batch.ordered))]
    for stamp, (prefix, value) in zip(stamps, batch.ordered, strict=True):
        written[prefix + stamp] = seal_row(prefix + stamp, value)
    return stamps
