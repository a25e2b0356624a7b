"""A batch over a plain dict, and the search for a serial order that explains concurrent outcomes.

The search is exact: it accepts what happened if and only if some order of the applied batches meets all of
their expectations, ends in the observed rows, gives every conflict a moment at which it was one, and
every read a moment at which it was true. Groups are small, so all orders are tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from cellule.store.engine import Batch, Stamp
from cellule.store.rows import add_counter

Rows = dict[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Applied:
    """A batch that was acknowledged, with its stamps."""

    batch: Batch
    stamps: Sequence[Stamp]


@dataclass(frozen=True, slots=True)
class Read:
    """The values somebody read together."""

    keys: Sequence[bytes]
    values: Sequence[bytes | None]


def is_met(rows: Mapping[bytes, bytes], batch: Batch) -> bool:
    """Tell whether all expectations of `batch` hold."""
    return all(rows.get(key) == expected for key, expected in batch.expect.items())


def written(rows: Mapping[bytes, bytes], applied: Applied) -> Rows:
    """Return the rows after an applied batch."""
    batch = applied.batch
    after = {
        key: value
        for key, value in rows.items()
        if not any(begin <= key < end for begin, end in batch.clear_range) and key not in batch.clear
    }
    after.update(batch.set)
    for key, delta in batch.add.items():
        after[key] = add_counter(key, after.get(key), delta)
    for (prefix, value), stamp in zip(batch.ordered, applied.stamps, strict=True):
        after[prefix + stamp] = value
    return after


def serial_order(
    before: Rows, after: Rows, applied: Sequence[Applied], conflicts: Sequence[Batch], reads: Sequence[Read]
) -> list[Applied] | None:
    """Return an order of `applied` that explains everything seen, or `None` if there is none."""
    for order in permutations(applied):
        moments = _moments(before, order)
        if moments is None or moments[-1] != after:
            continue
        if not all(any(not is_met(rows, batch) for rows in moments) for batch in conflicts):
            continue
        if all(any(_is_true(rows, read) for rows in moments) for read in reads):
            return list(order)
    return None


def _moments(before: Rows, order: Sequence[Applied]) -> list[Rows] | None:
    moments = [before]
    for applied in order:
        if not is_met(moments[-1], applied.batch):
            return None
        moments.append(written(moments[-1], applied))
    return moments


def _is_true(rows: Rows, read: Read) -> bool:
    return [rows.get(key) for key in read.keys] == list(read.values)
