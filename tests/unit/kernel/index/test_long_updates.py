"""Updates with more changes than are asked for together.

Once a chunk whose changes were asked for in two runs was written twice, each time from the old one: the
changes of the first run were lost.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.kernel.index import CELLS, LISTS, build, scan_all, update, write
from cellule.kernel.index.write import RUN_CHANGES
from cellule.kernel.need import Nodes, drive

COUNT = 3 * RUN_CHANGES + 17


def key(number):
    return f"o{number:06}".encode()


def updated(root, blocks, changes, shape):
    nodes = Nodes(0)
    return drive(update(root, changes, nodes, shape), nodes, lambda cids: {cid: blocks[cid] for cid in cids})


@pytest.mark.parametrize("shape", [CELLS, LISTS])
@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("gone", [0, 500])
def test_every_change_of_a_long_update_is_written(shape, step, gone):
    before = {key(number): [number, "old"] for number in range(COUNT)}
    made = build(before, shape)
    changes = {key(number): [number, "new"] for number in range(0, COUNT, step)}
    changes |= {key(number): None for number in range(1, gone, 7)}
    changes |= {key(COUNT + number): [number, "more"] for number in range(gone)}
    after = {name: value for name, value in {**before, **changes}.items() if value is not None}

    done = updated(made.root, made.blocks, changes, shape)

    blocks = {**made.blocks, **done.blocks}
    nodes = Nodes(0)
    found = drive(scan_all(done.root, nodes), nodes, lambda cids: {cid: blocks[cid] for cid in cids})
    assert dict(found) == after
    assert done.root == build(after, shape).root


@settings(max_examples=150, deadline=None)
@given(
    count=st.integers(0, 400),
    begin=st.integers(0, 400),
    length=st.integers(1, 120),
    gone=st.sets(st.integers(0, 400), max_size=5),
    run=st.integers(1, 9),
    merge=st.integers(1, 4),
)
def test_the_bounds_of_an_update_change_no_root(count, begin, length, gone, run, merge):
    old = {key(number): [number, "old"] for number in range(count)}
    new = {key(number): [number, "new"] for number in range(begin, begin + length)}
    new |= dict.fromkeys(map(key, gone))
    after = {name: value for name, value in {**old, **new}.items() if value is not None}
    made = build(old, CELLS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "RUN_CHANGES", run)
        patch.setattr(write, "MERGE_CHANGES", merge)
        done = updated(made.root, made.blocks, new, CELLS)
    assert done.root == build(after, CELLS).root
    assert done.added == len(after) - len(old)
