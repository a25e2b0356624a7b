"""Random batches for the state machines: drawn as plans, made into batches when they run.

A plan names keys and values by number and expectations by kind, so drawing it does not depend on what an
engine answered before: a failing history replays, shrinks and prints in a few lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

from cellule.store import keys
from cellule.store.engine import Batch
from cellule.testing.conformance.engine_space import Space

Kind = Literal["held", "other", "absent"]

NAMES = (b"", b"\0", b"\0\xff", b"a", b"a\0", b"b", b"\xff", b"\xff\xff")
VALUES = (b"", b"\0", b"1", b"four", b"8 bytes.", b"x" * 300, bytes(70_000))
DELTAS = (0, 1, -1, 1_000, (1 << 63) - 1, -(1 << 63))
COUNTERS = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """A batch whose keys and values are numbers and whose expectations are kinds."""

    expect: Mapping[int, Kind]
    set: Mapping[int, int]
    clear: frozenset[int]
    clear_range: tuple[tuple[int, int], ...]
    add: Mapping[int, int]
    ordered: tuple[int, ...]


def pool(space: Space) -> list[bytes]:
    """Return the keys plans choose from: every family, and awkward bytes."""
    raw = [space.raw(name) for name in NAMES]
    journal = [keys.journal(space.universe, space.world, height) for height in (1, 255, 256)]
    return [*raw, *journal, *space.one_of_each_family()]


POOL_SIZE = len(pool(Space()))


def plans(ranges: bool = True) -> st.SearchStrategy[Plan]:
    """Draw plans; without `ranges` they may run at the same time as others."""
    index = st.integers(0, POOL_SIZE - 1)
    few = st.integers(0, 5) if not ranges else index
    bound = st.integers(0, len(NAMES) - 1)
    return st.builds(
        Plan,
        expect=st.dictionaries(few, st.sampled_from(("held", "held", "absent", "other")), max_size=3),
        set=st.dictionaries(few, st.integers(0, len(VALUES) - 1), max_size=4),
        clear=st.frozensets(few, max_size=3),
        clear_range=st.lists(st.tuples(bound, bound), max_size=2 if ranges else 0).map(tuple),
        add=st.dictionaries(st.integers(0, COUNTERS - 1), st.sampled_from(DELTAS), max_size=2),
        ordered=st.lists(st.integers(0, len(VALUES) - 1), max_size=2).map(tuple),
    )


def batch_of(plan: Plan, space: Space, rows: Mapping[bytes, bytes]) -> Batch:
    """Make a plan into a valid batch, given the rows that are there."""
    known = pool(space)
    sets = {known[n]: VALUES[value] for n, value in plan.set.items()}
    return Batch(
        expect=_expected({known[n]: kind for n, kind in plan.expect.items()}, sets, rows),
        set=sets,
        clear=[known[n] for n in sorted(plan.clear) if known[n] not in sets],
        clear_range=[(space.raw(NAMES[a]), space.raw(NAMES[b])) for a, b in plan.clear_range],
        add={space.counter(n): delta for n, delta in plan.add.items()},
        ordered=[(space.queue(), VALUES[value]) for value in plan.ordered],
    )


def _expected(
    kinds: Mapping[bytes, Kind], sets: Mapping[bytes, bytes], rows: Mapping[bytes, bytes]
) -> dict[bytes, bytes | None]:
    """An absence can be expected only of keys the batch sets; elsewhere it is left out."""
    expected: dict[bytes, bytes | None] = {}
    for key, kind in kinds.items():
        value = {"held": rows.get(key), "absent": None, "other": b"never written"}[kind]
        if value is not None or key in sets:
            expected[key] = value
    return expected
