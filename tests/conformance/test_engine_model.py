"""The judge of concurrent histories: it accepts what some serial order explains, and nothing else."""

from __future__ import annotations

from cellule.store.engine import Batch, Stamp
from cellule.testing.conformance.engine_model import Applied, Read, serial_order, written

A, B, COUNTER = b"\x02a", b"\x02b", b"\x01c"
STAMP = Stamp(bytes(12))


def applied(*batches):
    return [Applied(batch, [STAMP] * len(batch.ordered)) for batch in batches]


def explained(before, after, done, conflicts=(), reads=()):
    return serial_order(before, after, applied(*done), conflicts, reads) is not None


def test_a_batch_is_written_in_the_order_of_the_contract():
    batch = Batch(
        clear_range=[(A, B)], set={A: b"new"}, clear=[B], add={COUNTER: -1}, ordered=[(b"\x02q", b"item")]
    )
    after = written({A: b"old", b"\x02aa": b"gone", B: b"gone"}, applied(batch)[0])
    assert after == {A: b"new", COUNTER: b"\xff" * 8, b"\x02q" + STAMP: b"item"}


def test_the_order_that_met_all_expectations_is_found():
    first, second = Batch(expect={A: b"0"}, set={A: b"1"}), Batch(expect={A: b"1"}, set={A: b"2"})
    order = serial_order({A: b"0"}, {A: b"2"}, applied(second, first), [], [])
    assert [step.batch for step in order] == [first, second]


def test_two_winners_of_one_expectation_are_not_explained():
    rivals = [Batch(expect={A: b"0"}, set={A: b"1"}), Batch(expect={A: b"0"}, set={A: b"2"})]
    assert explained({A: b"0"}, {A: b"2"}, rivals[1:], rivals[:1])
    assert not explained({A: b"0"}, {A: b"2"}, rivals)


def test_a_conflict_needs_a_moment_at_which_it_was_one():
    done = [Batch(set={A: b"1"})]
    assert explained({}, {A: b"1"}, done, [Batch(expect={A: b"1"})])
    assert explained({}, {A: b"1"}, done, [Batch(expect={A: None}, set={A: b"2"})])
    assert not explained({A: b"0"}, {A: b"0", B: b"1"}, [Batch(set={B: b"1"})], [Batch(expect={A: b"0"})])


def test_a_read_needs_a_moment_at_which_it_was_true():
    done = [Batch(set={A: b"1", B: b"1"})]
    after = {A: b"1", B: b"1"}
    for values in ([None, None], [b"1", b"1"]):
        assert explained({}, after, done, reads=[Read([A, B], values)])
    assert not explained({}, after, done, reads=[Read([A, B], [b"1", None])])


def test_a_lost_or_half_done_write_is_not_explained():
    batch = Batch(set={A: b"1", B: b"1"})
    assert not explained({}, {}, [batch])
    assert not explained({}, {A: b"1"}, [batch])
    assert not explained({}, {A: b"1"}, [])


def test_two_creations_that_each_clear_the_other_cannot_both_stay():
    left = Batch(expect={A: None}, set={A: b"1"}, clear=[B])
    right = Batch(expect={B: None}, set={B: b"1"}, clear=[A])
    assert explained({}, {A: b"1"}, [left, right])
    assert explained({}, {B: b"1"}, [left, right])
    assert not explained({}, {A: b"1", B: b"1"}, [left, right])
