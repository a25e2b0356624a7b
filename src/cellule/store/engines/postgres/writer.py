"""From a batch to the arguments of the commit function: pure, no driver, no server.

Keys are grouped by family and sorted, because the function takes its locks in the order given. A *witness* is
expected and not written, so it is locked shared. A family is *touched* (locked before anything is compared)
up to the last family that has expectations; behind it, the writes themselves take the locks. What stands
under a key is a sealed row; the empty byte string means "no row": an expected absence, or a key that is only
locked because it will be cleared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from cellule.store.engine import Batch, Stamp
from cellule.store.engines.postgres.layout import COUNTER_ARGUMENTS, VALUE_ARGUMENTS, VALUE_FAMILIES
from cellule.store.families import Family, check_one_family, family
from cellule.store.rows import seal_row

ABSENT = b""
ORDER_BYTES = 10

Column = list[bytes] | None
Argument = list[bytes] | list[int] | None

NOTHING: list[Column] = [None] * len(VALUE_ARGUMENTS)
NO_COUNTERS: list[Argument] = [None] * len(COUNTER_ARGUMENTS)


class _Part:
    """What a batch does in one family."""

    __slots__ = ("clear", "expect", "ranges", "witness", "write")

    def __init__(self) -> None:
        self.witness: dict[bytes, bytes] = {}
        self.expect: dict[bytes, bytes] = {}
        self.write: dict[bytes, bytes] = {}
        self.clear: set[bytes] = set()
        self.ranges: list[tuple[bytes, bytes]] = []


def stamps_of(order: int, count: int) -> list[Stamp]:
    """Return the stamps of a batch that drew `order` from the sequence."""
    head = order.to_bytes(ORDER_BYTES, "big")
    return [Stamp(head + place.to_bytes(2, "big")) for place in range(count)]


def commit_arguments(batch: Batch, stamps: Sequence[Stamp]) -> list[Argument]:
    """Return the arguments that `layout.arguments` names, for a batch that was checked."""
    parts: dict[Family, _Part] = defaultdict(_Part)
    for key, value in batch.set.items():
        parts[family(key)].write[key] = seal_row(key, value)
    last_expecting = -1
    cleared = set(batch.clear)
    for key, expected in batch.expect.items():
        kind = family(key)
        is_witness = expected is not None and key not in batch.set and key not in cleared
        rows = parts[kind].witness if is_witness else parts[kind].expect
        rows[key] = ABSENT if expected is None else seal_row(key, expected)
        last_expecting = max(last_expecting, kind)
    for (prefix, value), stamp in zip(batch.ordered, stamps, strict=True):
        key = prefix + stamp
        parts[family(key)].write[key] = seal_row(key, value)
    for key in batch.clear:
        parts[family(key)].clear.add(key)
    for begin, end in batch.clear_range:
        parts[check_one_family(begin, end)].ranges.append((begin, end))
    arguments: list[Argument] = []
    for kind in VALUE_FAMILIES:
        if kind in parts:
            arguments += _columns(parts[kind], touched=kind <= last_expecting)
        else:
            arguments += NOTHING
    return arguments + _counter_columns(parts.get(Family.COUNTER), batch)


def _columns(part: _Part, *, touched: bool) -> list[Column]:
    expect, write = part.expect, part.write
    if part.clear:
        write = {**write, **dict.fromkeys(part.clear, ABSENT)}
    keys = sorted(write)
    expected = sorted(expect)
    # Expected keys are touched in any case; they need no second list unless something else is written.
    beyond = touched and not (write.keys() <= expect.keys())
    witnesses = sorted(part.witness)
    return [
        witnesses or None,
        [part.witness[key] for key in witnesses] if witnesses else None,
        sorted({*expected, *keys}) if beyond else None,
        expected or None,
        [expect[key] for key in expected] if expected else None,
        keys or None,
        [write[key] for key in keys] if keys else None,
        *_cleared(part),
    ]


def _counter_columns(part: _Part | None, batch: Batch) -> list[Argument]:
    if part is None and not batch.add:
        return NO_COUNTERS
    cleared = _Part() if part is None else part
    deltas = {**batch.add, **dict.fromkeys(cleared.clear, 0)}
    keys = sorted(deltas)
    return [keys or None, [deltas[key] for key in keys] or None, *_cleared(cleared)]


def _cleared(part: _Part) -> tuple[Column, Column, Column]:
    """The last three arguments of every family: keys to clear, and the bounds of ranges."""
    keys = list(part.clear) if part.clear else None
    if not part.ranges:
        return keys, None, None
    return keys, [begin for begin, _ in part.ranges], [end for _, end in part.ranges]
