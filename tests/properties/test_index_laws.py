"""Laws of the cell index: a root depends on its entries alone, and every walk agrees with a dict."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.kernel.index import check, diff, lookup, pages, update
from cellule.kernel.index.compare import START
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
@given(ENTRIES, st.lists(CHANGES, max_size=4), BUDGETS, st.integers(1, 50))
def test_any_history_of_updates_gives_the_root_of_the_entries(entries, batches, budget, slice_nodes):
    world = World(budget)
    root = world.run(update(None, entries, world.nodes)).root
    for changes in batches:
        updated = world.run(update(root, changes, world.nodes, slice_nodes=slice_nodes))
        before, entries = len(entries), applied(entries, changes)
        assert updated.added == len(entries) - before
        root = updated.root
    assert root == World().run(update(None, entries, Nodes(0))).root
    assert same(world.run(lookup(root, [*entries, b"absent"], world.nodes)), entries)
    assert world.run(check(root, world.nodes)) == len(entries)
    for cid, data in world.blocks.items():
        assert cid_of(encode(decode(data))) == cid


@settings(deadline=None, max_examples=50)
@given(ENTRIES, st.randoms(use_true_random=False))
def test_the_order_of_single_puts_does_not_matter(entries, random):
    world = World()
    keys = list(entries)
    random.shuffle(keys)
    root = None
    for key in keys:
        root = world.run(update(root, {key: entries[key]}, world.nodes)).root
    assert root == world.run(update(None, entries, world.nodes)).root
    random.shuffle(keys)
    for key in keys:
        root = world.run(update(root, {key: None}, world.nodes)).root
    assert root is None


@settings(deadline=None, max_examples=50)
@given(ENTRIES, st.integers(1, 20), BUDGETS)
def test_pages_cover_every_entry_exactly_once(entries, limit, budget):
    world = World(budget)
    root = world.run(update(None, entries, world.nodes)).root
    seen, cursor = [], START
    while cursor is not None:
        page = world.run(pages(root, cursor, limit, world.nodes))
        assert len(page.entries) == limit or page.cursor is None
        seen.extend(page.entries)
        cursor = page.cursor
    assert len(seen) == len(entries)
    assert same(dict(seen), entries)


@settings(deadline=None, max_examples=70)
@given(ENTRIES, CHANGES, st.integers(1, 20), BUDGETS)
def test_a_diff_is_the_difference_of_the_entries(entries, changes, limit, budget):
    world = World(budget)
    root = world.run(update(None, entries, world.nodes)).root
    other = world.run(update(root, changes, world.nodes)).root
    after = applied(entries, changes)
    found, cursor = [], START
    while cursor is not None:
        page = world.run(diff(root, other, world.nodes, after=cursor, limit=limit))
        found.extend(page.changes)
        cursor = page.cursor
    expected = {
        key: (entries.get(key), after.get(key))
        for key in entries.keys() | after.keys()
        if key not in entries or key not in after or encode(entries[key]) != encode(after[key])
    }
    assert len(found) == len(expected)
    assert same(
        {key: [old, new] for key, old, new in found}, {key: list(pair) for key, pair in expected.items()}
    )
