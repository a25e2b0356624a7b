"""Deciding a group of batches at once gives what applying them one after another gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellule.errors import Conflict, Corrupted, Rejected
from cellule.store.engine import Batch
from cellule.store.engines.memory import MemoryDisk
from cellule.store.engines.sqlite.group import decide, keys_read, prepare
from cellule.store.rows import open_row, seal_row

VALUE_KEYS = [b"\x02xa", b"\x02xb", b"\x02xc", b"\x02xd"]
COUNTER_KEYS = [b"\x01a", b"\x01b"]
values = st.sampled_from([b"", b"1", b"2"])


@st.composite
def batches(draw):
    written = draw(st.dictionaries(st.sampled_from(VALUE_KEYS), values, max_size=3))
    expected = draw(st.dictionaries(st.sampled_from(VALUE_KEYS), st.none() | values, max_size=2))
    bounds = st.sampled_from([*VALUE_KEYS, b"\x02xz"])
    return Batch(
        expect={key: value for key, value in expected.items() if value is not None or key in written},
        set=written,
        clear=[key for key in draw(st.sets(st.sampled_from(VALUE_KEYS), max_size=2)) if key not in written],
        clear_range=draw(st.lists(st.tuples(bounds, bounds), max_size=1))
        + draw(st.lists(st.just((b"\x01a", b"\x01b")), max_size=1)),
        add=draw(st.dictionaries(st.sampled_from(COUNTER_KEYS), st.integers(-5, 5), max_size=2)),
        ordered=draw(st.lists(st.tuples(st.just(b"\x02xq"), values), max_size=2)),
    )


def perform(rows, decision):
    """What the writer thread does with a decision, on a dict."""
    for begin, end in decision.ranges:
        for key in [key for key in rows if begin <= key < end]:
            del rows[key]
    for key, row in decision.rows.items():
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row


def apply_one_by_one(disk, group):
    outcomes = []
    for batch in group:
        try:
            outcomes.append(disk.apply(batch))
        except Conflict:
            outcomes.append(Conflict)
    return outcomes


@given(st.lists(st.lists(batches(), min_size=1, max_size=5), max_size=4))
def test_groups_decide_like_batches_applied_one_by_one(groups):
    disk, rows, stamp = MemoryDisk(), {}, 0
    for group in groups:
        prepared = [prepare(batch) for batch in group]
        stored = {key: rows[key] for key in keys_read(prepared) if key in rows}
        decision = decide(prepared, stored, stamp)
        stamp = decision.stamp
        perform(rows, decision)
        told = [type(each) if isinstance(each, Conflict) else each for each in decision.outcomes]
        assert told == apply_one_by_one(disk, group)
        assert {key: open_row(key, rows[key]) for key in sorted(rows)} == disk.dump()


def test_a_conflicting_batch_leaves_no_trace_and_the_others_succeed():
    group = [
        prepare(Batch(set={b"\x02a": b"1"})),
        prepare(
            Batch(expect={b"\x02a": b"0"}, set={b"\x02b": b"1"}, add={b"\x01n": 1}, ordered=[(b"\x02q", b"")])
        ),
        prepare(Batch(expect={b"\x02a": b"1"}, set={b"\x02c": b"1"})),
    ]
    decision = decide(group, {}, 7)
    assert [isinstance(outcome, Conflict) for outcome in decision.outcomes] == [False, True, False]
    assert set(decision.rows) == {b"\x02a", b"\x02c"}
    assert decision.stamp == 7


def test_a_damaged_row_under_an_expected_key_fails_its_batch_as_damage_not_as_conflict():
    damaged = bytes([seal_row(b"\x02a", b"1")[0] ^ 1]) + seal_row(b"\x02a", b"1")[1:]
    group = [
        prepare(Batch(expect={b"\x02a": b"1"}, set={b"\x02a": b"2"})),
        prepare(Batch(set={b"\x02b": b"1"})),
    ]
    decision = decide(group, {b"\x02a": damaged}, 0)
    assert isinstance(decision.outcomes[0], Corrupted)
    assert decision.rows == {b"\x02b": seal_row(b"\x02b", b"1")}


def test_a_damaged_counter_fails_only_the_batch_that_adds_to_it():
    group = [prepare(Batch(add={b"\x01a": 1})), prepare(Batch(add={b"\x01b": 1}))]
    decision = decide(group, {b"\x01a": b"short"}, 0)
    assert isinstance(decision.outcomes[0], Corrupted)
    assert set(decision.rows) == {b"\x01b"}


def test_every_batch_with_ordered_values_gets_its_own_number_and_each_value_its_place():
    group = [
        prepare(Batch(ordered=[(b"\x02q", b"x"), (b"\x02q", b"y")])),
        prepare(Batch(ordered=[(b"\x02r", b"z")])),
    ]
    decision = decide(group, {}, 0x0102)
    assert [[stamp.hex() for stamp in outcome] for outcome in decision.outcomes] == [
        ["000000000000000001030000", "000000000000000001030001"],
        ["000000000000000001040000"],
    ]


def test_a_range_over_two_families_is_refused():
    with pytest.raises(Rejected) as caught:
        prepare(Batch(clear_range=[(b"\x01a", b"\x02z")]))
    assert caught.value.code == "store.range_families"
