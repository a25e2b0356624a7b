"""What a snapshot keeps of the wall clock: numbers that fit each other, or `Corrupted`."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.heartbeat.spacing import WINDOW_MAX
from cellule.kernel.index import LISTS, build
from cellule.kernel.need import Nodes, drive
from cellule.kernel.state.wall_clock import WallClock

SPACING = [2, 7, 90, [[3, 5], [7, 40]]]
NONE_TOLD = [256, None, 0, []]
DATA = {"count": 2, "spacing": SPACING, "frames": NONE_TOLD}


def loaded(told=None, **changes):
    """A clock as a snapshot tells of it, with these published times; and what reads it."""
    rows = {beat.to_bytes(8, "big"): time for beat, time in (told or {}).items()}
    made = build(rows, LISTS)
    nodes = Nodes(0)
    clock = WallClock.load(nodes, made.root and (made.root, len(rows)), {**DATA, **changes})
    return clock, lambda beat: drive(
        clock.find(beat), nodes, lambda cids: {cid: made.blocks[cid] for cid in cids}
    )


def test_a_clock_is_what_was_kept_of_it():
    clock, find = loaded({3: 0, 7: 90})
    assert clock.as_data() == DATA
    assert clock.intervals == [(3, 5), (7, 40)]
    assert [find(beat) for beat in (3, 7, 8)] == [0, 90, None]
    assert loaded(spacing=NONE_TOLD, frames=SPACING)[0].intervals == [(3, 5), (7, 40)]


@pytest.mark.parametrize("time", [-1, "5", b"5", True, [5]])
def test_a_published_time_that_is_none_is_damage(time):
    _, find = loaded({3: time})
    with pytest.raises(Corrupted) as caught:
        find(3)
    assert caught.value.code == "kernel.wall_clock_damaged"


@pytest.mark.parametrize(
    "changes",
    [
        {"count": -1}, {"count": None}, {"count": True}, {"spacing": None}, {"frames": SPACING[:3]},
        {"spacing": [0, None, 0, []]}, {"spacing": [WINDOW_MAX + 1, None, 0, []]},
        {"spacing": [1, *SPACING[1:]]}, {"spacing": [2, -1, *SPACING[2:]]}, {"spacing": [2, 7, -1, []]},
        {"spacing": [2, 7, 90, [[3]]]}, {"spacing": [2, 7, 90, [[-3, 5]]]},
        {"spacing": [2, 7, 90, [[3, -5]]]}, {"spacing": ["2", *SPACING[1:]]}, {"frames": [2, 7, 90, 5]},
    ],
    ids=str,
)  # fmt: skip
def test_a_clock_with_one_wrong_number_is_damage(changes):
    with pytest.raises(Corrupted) as caught:
        loaded(**changes)
    assert caught.value.code == "kernel.wall_clock_damaged"


@pytest.mark.parametrize("name", DATA)
def test_a_clock_that_lacks_a_part_is_damage(name):
    with pytest.raises(Corrupted, match=name) as caught:
        WallClock.load(Nodes(0), None, {each: DATA[each] for each in DATA if each != name})
    assert caught.value.code == "kernel.wall_clock_damaged"
