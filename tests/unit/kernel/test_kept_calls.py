"""How many calls a cell keeps unanswered: they stand in its entry, and 96 entries in a chunk."""

from __future__ import annotations

import pytest

from cellule.kernel.decide.calls import _beyond
from cellule.kernel.limits import CELL_CALLS_BYTES_MAX, CELL_CALLS_MAX
from cellule.kernel.state.expectation import Call


def calls(count, size):
    return [Call("a/b", b"k" * size, 1, str(number), "a/c@1") for number in range(count)]


@pytest.mark.parametrize(
    ("count", "size", "beyond"),
    [(0, 10, 0), (CELL_CALLS_MAX, 10, 0), (CELL_CALLS_MAX + 1, 10, 1), (110, 500, 0), (1_000, 500, 879)],
)
def test_the_oldest_calls_go_where_they_are_too_many_or_too_long(count, size, beyond):
    """1,000 calls by keys of 500 bytes were half a megabyte in one entry, and no snapshot could be saved."""
    made = calls(count, size)
    assert list(_beyond(made)) == made[:beyond]
    assert sum(len(each.key) for each in made[beyond:]) < CELL_CALLS_BYTES_MAX
