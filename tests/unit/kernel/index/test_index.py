from __future__ import annotations

from random import Random

import pytest

from cellule.errors import Rejected
from cellule.kernel.index import CELLS, check, diff, lookup, scan, update
from cellule.kernel.need import Need, Pause
from cellule.values.cbor import decode
from cellule.values.cid import Cid, cid_of
from cellule.values.link import Link


def many(count, seed=1):
    random = Random(seed)
    return {random.randbytes(8): [random.randbytes(12), number] for number in range(count)}


def built(store, entries):
    return store.run(update(None, entries, store.nodes, CELLS)).root


def links_of(data):
    found = []

    def visit(value):
        if isinstance(value, Link):
            found.append(value.cid)
        elif isinstance(value, list):
            for item in value:
                visit(item)
        elif isinstance(value, dict):
            visit(list(value.values()))

    visit(decode(data))
    return found


def reachable(store, root):
    seen, left = set(), [root]
    while left:
        cid = left.pop()
        seen.add(cid)
        left.extend(links_of(store.blocks[cid]))
    return seen


def sliced(walk):
    """Run a walk that needs no nodes, taking its blocks at every pause; returns result, blocks, pauses."""
    taken, pauses = {}, []
    while True:
        try:
            step = next(walk)
        except StopIteration as end:
            return end.value, {**taken, **end.value.blocks}, pauses
        assert isinstance(step, Pause)
        pauses.append(len(step.blocks))
        taken.update(step.blocks)
        step.blocks.clear()


def test_an_empty_index_has_no_root(store):
    assert built(store, {}) is None
    assert store.run(lookup(None, [b"a"], store.nodes)) == {}
    assert store.run(scan(None, b"", None, 10, store.nodes)) == []
    assert store.run(check(None, store.nodes, CELLS)) == 0


def test_lookup_finds_what_is_there_and_nothing_else(store):
    entries = many(500)
    root = built(store, entries)
    found = store.run(lookup(root, [*entries, b"absent", b""], store.nodes))
    assert found == entries


def test_lookup_asks_once_a_level_for_all_keys_together(store):
    entries = many(3_000)
    root = built(store, entries)
    store.needs.clear()
    store.run(lookup(root, list(entries), store.nodes))
    assert len(store.needs) == 1 + decode(store.blocks[root])[0]
    assert store.needs[0] == (root,)
    assert {cid for need in store.needs for cid in need} == set(store.blocks)


def test_deleting_everything_gives_no_root_and_deleting_nothing_changes_nothing(store):
    entries = many(200)
    root = built(store, entries)
    same = store.run(update(root, {b"absent": None}, store.nodes, CELLS))
    assert (same.root, same.blocks, same.added) == (root, {}, 0)
    gone = store.run(update(root, dict.fromkeys(entries), store.nodes, CELLS))
    assert (gone.root, gone.blocks, gone.added) == (None, {}, -200)


def test_putting_the_value_that_is_there_makes_no_block(store):
    entries = many(200)
    root = built(store, entries)
    key = next(iter(entries))
    same = store.run(update(root, {key: entries[key]}, store.nodes, CELLS))
    assert (same.root, same.blocks, same.added) == (root, {}, 0)


def test_an_update_reads_each_leaf_and_writes_each_touched_chunk_once(store):
    entries = many(5_000)
    root = built(store, entries)
    before = reachable(store, root)
    store.needs.clear()
    changed = {key: [b"new", 0] for key in list(entries)[:40]}
    updated = store.run(update(root, changed, store.nodes, CELLS))
    asked = [cid for need in store.needs for cid in need]
    leaves = [cid for cid in asked if decode(store.blocks[cid])[0] == 0]
    assert len(leaves) == len(set(leaves))
    after = reachable(store, updated.root)
    assert set(updated.blocks) == after - before
    assert before - after == set(asked)


def test_blocks_may_be_taken_at_every_pause(store):
    entries = many(3_000)
    whole = built(store, entries)
    done, blocks, pauses = sliced(update(None, entries, store.nodes, CELLS, slice_nodes=10))
    assert done.root == whole
    assert blocks == store.blocks
    assert len(pauses) > 10
    assert max(pauses) <= 10 + 128 // 4  # what one run of changes may complete


def test_many_changes_go_down_in_runs_and_give_the_same_root(store):
    entries = many(6_000)
    root = built(store, entries)
    step_by_step = None
    for start in range(0, 6_000, 1_500):
        part = dict(list(entries.items())[start : start + 1_500])
        step_by_step = store.run(update(step_by_step, part, store.nodes, CELLS)).root
    assert step_by_step == root
    assert store.run(check(root, store.nodes, CELLS)) == 6_000


AWKWARD_KEYS = [
    bytes.fromhex("0192b1c8a5d47000a000000000000000"),
    b"\x01\x00\x00\x00",
    bytes(cid_of(b"key")),
    b"\x12\x20" + bytes(32),
    b"",
    b"\x01",
]
AWKWARD_VALUES = [
    Link(cid_of(b"target")),
    bytes(cid_of(b"target")),
    [Link(cid_of(b"one", "raw")), b"\x01\x00\x00\x00", {"a": Link(cid_of(b"two"))}],
    b"\xd8\x2a\x58\x25\x00" + bytes(cid_of(b"inside")),
    [1, 1.0, True, None],
    {"bytes": b"\x01\x55\x00\x00"},
]


@pytest.mark.parametrize("size", [0, 40, 400])
def test_bytes_that_look_like_links_stay_bytes_and_links_stay_links(store, size):
    entries = many(size)
    for number, key in enumerate(AWKWARD_KEYS):
        entries[key] = AWKWARD_VALUES[number]
        entries[key + b"!"] = AWKWARD_VALUES[-1 - number]
    root = built(store, entries)
    assert store.run(lookup(root, list(entries), store.nodes)) == entries
    assert dict(store.run(scan(root, b"", None, 10_000, store.nodes))) == entries
    for data in store.blocks.values():
        decode(data)
    one_by_one = None
    for key in reversed(list(entries)):
        one_by_one = store.run(update(one_by_one, {key: entries[key]}, store.nodes, CELLS)).root
    assert one_by_one == root
    for key in [*AWKWARD_KEYS, *many(size)]:
        one_by_one = store.run(update(one_by_one, {key: None}, store.nodes, CELLS)).root
    assert one_by_one == built(store, {key + b"!": entries[key + b"!"] for key in AWKWARD_KEYS})


def test_values_that_are_equal_in_python_but_not_in_bytes_differ(store):
    one, real, true = (built(store, {b"k": value}) for value in (1, 1.0, True))
    assert len({one, real, true}) == 3
    changes = store.run(diff(one, real, store.nodes)).changes
    assert [(key, type(old), type(new)) for key, old, new in changes] == [(b"k", int, float)]
    link, raw = built(store, {b"k": Link(cid_of(b""))}), built(store, {b"k": bytes(cid_of(b""))})
    assert store.run(diff(link, raw, store.nodes)).changes == [(b"k", Link(cid_of(b"")), bytes(cid_of(b"")))]


def test_what_is_no_value_is_refused_and_nothing_is_written(store):
    with pytest.raises(Rejected):
        store.run(update(None, {b"k": [object()]}, store.nodes, CELLS))


def test_pages_cover_all_entries_once_in_key_order(store):
    entries = many(1_000)
    root = built(store, entries)
    seen, begin = [], b""
    while page := store.run(scan(root, begin, None, 37, store.nodes)):
        seen.extend(page)
        begin = page[-1][0] + b"\0"
    assert seen == sorted(entries.items())


def test_a_range_has_its_first_key_and_not_its_last(store):
    entries = {b"k%03d" % number: [number] for number in range(500)}
    root = built(store, entries)
    found = store.run(scan(root, b"k100", b"k300", 10_000, store.nodes))
    assert [value for _, [value] in found] == list(range(100, 300))
    back = store.run(scan(root, b"k100", b"k300", 5, store.nodes, reverse=True))
    assert [value for _, [value] in back] == [299, 298, 297, 296, 295]
    assert store.run(scan(root, b"k300", b"k100", 10, store.nodes)) == []
    assert store.run(scan(root, b"z", None, 10, store.nodes)) == []
    assert store.run(scan(root, b"", b"a", 10, store.nodes)) == []


def test_a_page_reads_only_what_it_may_need(store):
    root = built(store, many(20_000))
    store.needs.clear()
    store.run(scan(root, b"\x80", None, 10, store.nodes))
    assert sum(len(need) for need in store.needs) < 15


@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_a_page_without_a_sensible_limit_is_refused(store, limit):
    for walk in (
        scan(None, b"", None, limit, store.nodes),
        diff(None, None, store.nodes, limit=limit),
    ):
        with pytest.raises(Rejected) as error:
            store.run(walk)
        assert error.value.code == "kernel.page_limit"


def test_a_diff_reads_only_the_paths_that_differ(store):
    entries = many(20_000)
    root = built(store, entries)
    keys = list(entries)
    changes = {keys[5]: [b"changed", 1], keys[6]: None, b"new": [b"new", 2]}
    other = store.run(update(root, changes, store.nodes, CELLS)).root
    store.needs.clear()
    found = store.run(diff(root, other, store.nodes)).changes
    assert {key: (old, new) for key, old, new in found} == {
        keys[5]: (entries[keys[5]], [b"changed", 1]),
        keys[6]: (entries[keys[6]], None),
        b"new": (None, [b"new", 2]),
    }
    assert sum(len(need) for need in store.needs) <= 2 * 3 * 5
    assert len(store.needs) <= 6


def test_equal_roots_are_compared_without_reading(store):
    root = built(store, many(100))
    store.needs.clear()
    assert store.run(diff(root, root, store.nodes)) == ([], None)
    assert store.needs == []


def test_a_walk_yields_needs_and_goes_on_when_they_are_met(store):
    root = built(store, many(100))
    walk = lookup(root, [b"x"], store.nodes)
    assert next(walk) == Need((root,))
    assert type(root) is Cid
