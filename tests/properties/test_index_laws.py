"""Laws of the index: a root depends on its entries alone, and every walk agrees with a sorted dict."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.kernel.index import CELLS, LISTS, check, diff, lookup, scan, update
from cellule.kernel.index.chunk import Shape
from cellule.kernel.need import Nodes, drive
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.link import Link

CIDS = st.binary(max_size=2).map(cid_of)
KEYS = st.one_of(
    st.integers(0, 400).map(lambda number: b"%d" % number),
    st.binary(max_size=3).map(lambda tail: b"\x01" + tail),
    st.binary(min_size=15, max_size=15).map(lambda tail: b"\x01" + tail),
    CIDS.map(bytes),
)
LEAVES = st.one_of(
    st.booleans(), st.integers(-5, 5), st.sampled_from([0.0, 1.0, 2.5]), st.text(max_size=3),
    st.binary(max_size=6), CIDS.map(Link), CIDS.map(bytes), st.just(b"\x01\x00\x00\x00"),
    st.just(b"\xd8\x2a\x58\x25\x00\x01"),
)  # fmt: skip
VALUES = st.one_of(
    LEAVES, st.lists(LEAVES, max_size=4), st.dictionaries(st.text(max_size=2), LEAVES, max_size=2)
)
ENTRIES = st.dictionaries(KEYS, VALUES, max_size=120)
CHANGES = st.dictionaries(KEYS, st.none() | VALUES, max_size=60)
SHAPES = st.sampled_from([CELLS, LISTS, Shape(ending_below=64, entries_max=6)])
BUDGETS = st.sampled_from([0, 2_000, 10_000_000])


class World:
    def __init__(self, bytes_max=0):
        self.blocks = {}
        self.nodes = Nodes(bytes_max)

    def run(self, walk):
        result = drive(walk, self.nodes, lambda cids: {cid: self.blocks[cid] for cid in cids})
        if hasattr(result, "blocks"):
            self.blocks.update(result.blocks)
        return result


def applied(entries, changes):
    merged = {**entries, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def same(left, right):
    """Equal as bytes: 1, 1.0 and True are three values."""
    return {key: encode(value) for key, value in left.items()} == {
        key: encode(value) for key, value in right.items()
    }


@settings(deadline=None, max_examples=70)
@given(ENTRIES, st.lists(CHANGES, max_size=4), BUDGETS, st.integers(1, 50), SHAPES)
def test_any_history_of_updates_gives_the_root_of_the_entries(entries, batches, budget, slice_nodes, shape):
    world = World(budget)
    root = world.run(update(None, entries, world.nodes, shape)).root
    for changes in batches:
        updated = world.run(update(root, changes, world.nodes, shape, slice_nodes=slice_nodes))
        before, entries = len(entries), applied(entries, changes)
        assert updated.added == len(entries) - before
        root = updated.root
    assert root == World().run(update(None, entries, Nodes(0), shape)).root
    assert same(world.run(lookup(root, [*entries, b"absent"], world.nodes)), entries)
    assert world.run(check(root, world.nodes, shape)) == len(entries)
    for cid, data in world.blocks.items():
        assert cid_of(encode(decode(data))) == cid


@st.composite
def batches_of_every_shape(draw):
    """An index made from a seed, then edits: scattered, dense, at either end, everything."""
    random = Random(draw(st.integers(0, 10_000)))
    keys = [number.to_bytes(2, "big") for number in range(3_000)]
    made = [{key: [0] for key in random.sample(keys, draw(st.sampled_from([0, 1, 130, 1_000, 2_500])))}]
    for version in range(1, draw(st.integers(1, 5)) + 1):
        low = draw(st.integers(0, 3_000))
        span = keys[low : low + draw(st.sampled_from([1, 5, 200, 3_000]))]
        some = random.sample(span, min(len(span), draw(st.sampled_from([1, 4, 300, 3_000]))))
        gone = draw(st.sampled_from([0.0, 0.5, 1.0]))
        made.append({key: None if random.random() < gone else [version] for key in some})
    return made


@settings(deadline=None, max_examples=60)
@given(batches_of_every_shape(), BUDGETS, st.sampled_from([1, 100]), SHAPES)
def test_any_history_of_large_batches_gives_the_root_of_the_entries(history, budget, slice_nodes, shape):
    world, root, model = World(budget), None, {}
    for changes in history:
        updated = world.run(update(root, changes, world.nodes, shape, slice_nodes=slice_nodes))
        before, model = len(model), applied(model, changes)
        root = updated.root
        assert updated.added == len(model) - before
        assert root == World().run(update(None, model, Nodes(0), shape)).root
        assert world.run(check(root, world.nodes, shape)) == len(model)


@settings(deadline=None, max_examples=50)
@given(ENTRIES, st.randoms(use_true_random=False), SHAPES)
def test_the_order_of_single_puts_does_not_matter(entries, random, shape):
    world = World()
    keys = list(entries)
    random.shuffle(keys)
    root = None
    for key in keys:
        root = world.run(update(root, {key: entries[key]}, world.nodes, shape)).root
    assert root == world.run(update(None, entries, world.nodes, shape)).root
    random.shuffle(keys)
    for key in keys:
        root = world.run(update(root, {key: None}, world.nodes, shape)).root
    assert root is None


@settings(deadline=None, max_examples=60)
@given(ENTRIES, CHANGES, SHAPES)
def test_another_value_moves_no_boundary(entries, others, shape):
    world = World()
    root = world.run(update(None, entries, world.nodes, shape)).root
    others = {key: value for key, value in others.items() if key in entries and value is not None}
    other = world.run(update(root, others, world.nodes, shape)).root
    assert chunk_keys(world, root) == chunk_keys(world, other)


def chunk_keys(world, root):
    """The keys of every chunk, level by level."""
    if root is None:
        return []
    level, keys, values = decode(world.blocks[root])
    return [keys, *(each for link in values for each in chunk_keys(world, link.cid))] if level else [keys]


@settings(deadline=None, max_examples=50)
@given(ENTRIES, st.integers(1, 20), BUDGETS, KEYS, st.none() | KEYS, st.booleans(), SHAPES)
def test_pages_cover_every_entry_of_a_range_once_and_in_order(
    entries, limit, budget, begin, end, reverse, shape
):
    world = World(budget)
    root = world.run(update(None, entries, world.nodes, shape)).root
    low, high, seen = begin, end, []
    while page := world.run(scan(root, low, high, limit, world.nodes, reverse=reverse)):
        assert len(page) <= limit
        seen.extend(page)
        if reverse:
            high = page[-1][0]
        else:
            low = page[-1][0] + b"\0"
    inside = {key: value for key, value in entries.items() if begin <= key and (end is None or key < end)}
    assert [key for key, _ in seen] == sorted(inside, reverse=reverse)
    assert same(dict(seen), inside)


@settings(deadline=None, max_examples=70)
@given(ENTRIES, CHANGES, st.integers(1, 20), BUDGETS, SHAPES)
def test_a_diff_is_the_difference_of_the_entries(entries, changes, limit, budget, shape):
    world = World(budget)
    root = world.run(update(None, entries, world.nodes, shape)).root
    other = world.run(update(root, changes, world.nodes, shape)).root
    after = applied(entries, changes)
    found, cursor = [], b""
    while cursor is not None:
        page = world.run(diff(root, other, world.nodes, begin=cursor, limit=limit))
        assert len(page.changes) <= limit
        found.extend(page.changes)
        cursor = page.cursor
    expected = {
        key: (entries.get(key), after.get(key))
        for key in entries.keys() | after.keys()
        if key not in entries or key not in after or encode(entries[key]) != encode(after[key])
    }
    assert [key for key, _, _ in found] == sorted(expected)
    assert same(
        {key: [old, new] for key, old, new in found}, {key: list(pair) for key, pair in expected.items()}
    )
