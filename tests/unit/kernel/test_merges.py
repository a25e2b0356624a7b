"""A cell takes over a state that another world gave it: if it fits, and the cell is what was looked at."""

from __future__ import annotations

import pytest

from cellule.kernel.items import Admitted
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import StepRecord
from cellule.values.cbor import encode
from cellule.values.envelope import seal

SECOND = 1_000_000_000
STATE = {"total": 9, "paid": False, "seen": 4}


def taken(world, verb="cell.merge", **changes):
    """What becomes of a merge of order `o1`; `changes` are of what is right at its version."""
    entry = world.entry("shop/Order", b"o1")
    version, born = (0, 0) if entry is None else (entry.version, entry.born)
    right = {"module": "shop/Order", "key": b"o1", "version": version, "born": born}
    [outcome] = world.control(verb, **{**right, "state": seal(encode(STATE)), **changes}).outcomes
    return outcome if isinstance(outcome, Admitted) else outcome.error


@pytest.fixture
def paid(world):
    world.send("shop/Paid@1", {"order": "o1"})
    return world


def newest_step(world):
    [step] = [each for _, each in decode_frame(world.frames[-1]).of(StepRecord)]
    return step


def test_a_cell_at_rest_takes_a_state_as_its_next_version(paid):
    before = paid.entry("shop/Order", b"o1")
    done = taken(paid)
    assert paid.state("shop/Order", b"o1") == STATE
    step = newest_step(paid)
    assert (step.cause, step.extras["control"]) == (done.height, done.height)
    assert (step.version, step.born, step.prev) == (2, before.born, before.last)


def test_a_cell_that_is_not_there_is_born_with_the_state_and_removed_in_its_time(make_world, shop):
    world = make_world(shop(Order={"retention": {"ttl_ns": 60 * SECOND}}))
    assert isinstance(taken(world, "cell.import"), Admitted)
    step = newest_step(world)
    assert (step.version, step.prev, world.entry("shop/Order", b"o1").born) == (1, 0, step.born)
    world.advance(61 * SECOND)
    assert world.state("shop/Order", b"o1") is None


def test_a_cell_that_takes_a_state_keeps_the_time_of_its_removal(make_world, shop):
    world = make_world(shop(Order={"retention": {"ttl_ns": 60 * SECOND}}))
    world.send("shop/Paid@1", {"order": "o1"})
    world.advance(30 * SECOND)
    assert isinstance(taken(world), Admitted)
    assert world.state("shop/Order", b"o1") == STATE
    world.advance(31 * SECOND)
    assert world.state("shop/Order", b"o1") is None


def test_a_merge_without_a_state_deletes_the_cell(paid):
    assert isinstance(taken(paid, state=None), Admitted)
    assert paid.entry("shop/Order", b"o1") is None


@pytest.mark.parametrize(
    ("verb", "changes", "code"),
    [
        ("cell.merge", {"state": seal(encode({"total": "nine"}))}, "kernel.merge_state"),
        ("cell.merge", {"state": seal(encode({**STATE, "odd": 1}))}, "kernel.merge_state"),
        ("cell.import", {"state": None}, "kernel.argument"),
        ("cell.merge", {"version": 2}, "kernel.merge_moved"),
        ("cell.merge", {"born": 1}, "kernel.merge_moved"),
        ("cell.merge", {"version": 0, "born": 0}, "kernel.merge_moved"),
        ("cell.merge", {"module": "shop/None"}, "kernel.merge_module"),
        ("cell.merge", {"module": 5}, "kernel.argument"), ("cell.merge", {"key": "o1"}, "kernel.argument"),
    ],
    ids=str,
)  # fmt: skip
def test_a_merge_that_does_not_fit_is_refused_and_nothing_changes(paid, verb, changes, code):
    before, height = paid.entry("shop/Order", b"o1"), paid.world.ledger.height
    assert taken(paid, verb, **changes).code == code
    assert (paid.entry("shop/Order", b"o1"), paid.world.ledger.height) == (before, height)


def test_a_cell_that_is_busy_or_stopped_takes_nothing(paid):
    paid.control("pause")
    paid.send("shop/Paid@1", {"order": "o1"})
    assert taken(paid).code == "kernel.merge_moved"
    paid.control("resume")
    paid.settle()
    paid.control("cell.halt", module="shop/Order", key=b"o1")
    assert taken(paid).code == "kernel.merge_moved"


def test_a_cell_that_is_a_log_takes_nothing(make_world, shop):
    world = make_world(shop(Order={"state": "log"}))
    assert taken(world).code == "kernel.merge_module"
