"""Laws of keys: packed tuples sort as the tuples do, and only what was packed can be unpacked."""

from __future__ import annotations

from uuid import UUID

from hypothesis import assume, given
from hypothesis import strategies as st

from cellule.errors import Rejected
from cellule.store import keys
from cellule.store.engine import Stamp
from cellule.store.families import check_one_family, family
from cellule.store.tuples import INT_MAX, Position, pack, prefix_range, unpack

awkward = st.sampled_from([b"\0", b"\xff", b"\0\xff", b"\x01", b"\x02", b"a"])
strings = st.one_of(st.binary(max_size=12), st.lists(awkward, max_size=4).map(b"".join))
texts = st.text(st.characters(codec="utf-8"), max_size=8) | st.text(
    "\0\x01a\u07ff\uffff\U00010000", max_size=4
)
edges = [(1 << 8 * n) + d for n in range(9) for d in (-2, -1, 0, 1) if (1 << 8 * n) + d <= INT_MAX]
numbers = st.integers(-INT_MAX, INT_MAX) | st.sampled_from(edges + [-number for number in edges])
elements = st.one_of(
    strings, texts, numbers, st.uuids(), st.binary(min_size=12, max_size=12).map(Stamp).map(Position)
)
tuples = st.lists(elements, max_size=4).map(tuple)

RANKS = {bytes: 0, str: 1, int: 2, UUID: 3, Position: 4}


def answer(call, *arguments):
    """What a call returns, or the code it refuses with."""
    try:
        return call(*arguments)
    except Rejected as error:
        return error.code


def rank(elements):
    return [(RANKS[type(e)], e.bytes if isinstance(e, UUID) else e) for e in elements]


@given(tuples, tuples)
def test_packed_keys_sort_as_their_tuples(a, b):
    assert (pack(*a) < pack(*b)) == (rank(a) < rank(b))
    assert (pack(*a) == pack(*b)) == (a == b)


@given(tuples)
def test_unpacking_gives_the_tuple_back(elements):
    assert unpack(pack(*elements)) == elements


@given(
    st.one_of(
        st.binary(max_size=30),
        st.lists(awkward | st.sampled_from([b"\x14", b"\x15\x01", b"\x30"])).map(b"".join),
    )
)
def test_only_packed_bytes_can_be_unpacked(key):
    elements = answer(unpack, key)
    assert elements == "store.key_malformed" or pack(*elements) == key


@given(tuples, st.data())
def test_every_changed_or_cut_key_is_another_tuple_or_refused(elements, data):
    key = pack(*elements)
    assume(key)
    changed = bytearray(key)
    changed[data.draw(st.integers(0, len(key) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    for other in (bytes(changed), key[: data.draw(st.integers(0, len(key) - 1))]):
        assert answer(unpack, other) != elements


@given(tuples, tuples)
def test_a_prefix_range_holds_exactly_the_tuples_that_continue_it(prefix, other):
    begin, end = prefix_range(pack(*prefix))
    assert (begin <= pack(*other) < end) == (other[: len(prefix)] == prefix)
    assert begin <= pack(*prefix, *other) < end


ids = st.uuids() | st.sampled_from([UUID(int=0), UUID(int=1), UUID(int=(1 << 128) - 1)])
heights = st.integers(0, INT_MAX) | st.sampled_from([number for number in edges if number >= 0])


@given(ids, ids, heights, heights)
def test_frames_sort_by_height(universe, world, a, b):
    assert (keys.journal(universe, world, a) < keys.journal(universe, world, b)) == (a < b)
    assert (keys.journal_part(universe, world, a, 9) < keys.journal(universe, world, b)) == (a < b)


some_keys = st.one_of(
    st.binary(max_size=4),
    st.sampled_from(
        [b"\x01", b"\x02", b"\x02u\0", b"\x02u\0\x30", b"\x02w\0\x30", b"\x02effects\0", b"\x02z"]
    ),
    st.builds(keys.universe_meta, ids),
    st.builds(keys.cas, ids, st.just(b"c")),
    st.builds(keys.cas_chunk, ids, st.just(bytes(16)), st.just(0)),
    st.builds(keys.ref, ids, st.just("r")),
    st.builds(keys.world_head, ids, ids),
    st.builds(keys.snapshot, ids, ids, st.just(3)),
    st.builds(keys.journal, ids, ids, heights),
    st.builds(keys.inbox_prefix, ids, ids),
    st.builds(keys.wake, st.integers(0, 63), heights, ids, ids),
    st.builds(keys.bell, st.integers(0, 63)),
)
bounds = some_keys | some_keys.map(lambda key: key + b"\xff") | some_keys.map(lambda key: key[:-1])


@given(bounds, bounds, st.lists(some_keys, max_size=10))
def test_an_accepted_range_holds_keys_of_its_family_only(begin, end, others):
    kind = answer(check_one_family, begin, end)
    if kind != "store.range_families":
        assert all(family(key) is kind for key in [*others, begin] if begin <= key < end)
