from __future__ import annotations

from hashlib import sha256
from random import Random

import pytest

from cellule.errors import Corrupted
from cellule.kernel.index import LISTS, check, update
from cellule.kernel.index.chunk import LINKS, Chunk, is_ending
from cellule.kernel.index.cursor import Cursor
from cellule.kernel.need import Pause
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.link import Link


def entries_of(count, seed=1):
    random = Random(seed)
    keys = sorted({random.randbytes(6) for _ in range(count)})
    return [(key, [number, "timer"]) for number, key in enumerate(keys)]


def built(store, entries):
    return store.run(update(None, dict(entries), store.nodes, LISTS)).root


def changed(store, root, changes):
    return store.run(update(root, dict(changes), store.nodes, LISTS))


def leaves(store, root):
    """The chunks of level 0, by decoding alone."""
    level, keys, values = decode(store.blocks[root])
    if level == 0:
        return [list(zip(keys, values, strict=True))]
    return [leaf for link in values for leaf in leaves(store, link.cid)]


def ending(key, level=0):
    return sha256(key).digest()[level] < (8 if level else 4)


def is_end(entry):
    return is_ending(0, entry[0], LISTS)


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


def test_chunks_end_after_a_key_that_ends_one_or_when_they_are_full(store):
    entries = entries_of(60_000)
    chunks = leaves(store, built(store, entries))
    assert [entry for chunk in chunks for entry in chunk] == entries
    for chunk in chunks[:-1]:
        assert ending(chunk[-1][0]) or len(chunk) == LISTS.entries_max
    for chunk in chunks:
        assert not any(ending(key) for key, _ in chunk[:-1])
    assert 48 < len(entries) / len(chunks) < 80


def test_another_value_moves_no_boundary(store):
    entries = entries_of(5_000)
    root = built(store, entries)
    other = changed(store, root, [(key, ["other", number]) for number, (key, _) in enumerate(entries)])
    lasts = [[chunk[-1][0] for chunk in leaves(store, each)] for each in (root, other.root)]
    assert lasts[0] == lasts[1]
    assert other.added == 0


def test_the_same_rule_holds_above(store):
    root = built(store, entries_of(60_000))
    level, keys, _ = decode(store.blocks[root])
    assert level >= 1
    assert len(keys) > 1
    row = [root]
    while level:
        chunks = [decode(store.blocks[cid]) for cid in row]
        for _, keys, _ in chunks[:-1]:
            assert ending(keys[-1], level) or len(keys) == LINKS.entries_max
        row = [link.cid for _, _, links in chunks for link in links]
        level -= 1
    assert store.run(check(root, store.nodes, LISTS)) == len(entries_of(60_000))


def test_no_entries_have_no_root(store):
    assert built(store, []) is None
    root = built(store, entries_of(1_000))
    gone = changed(store, root, [(key, None) for key, _ in entries_of(1_000)])
    assert (gone.root, gone.blocks) == (None, {})
    assert gone.added == -len(entries_of(1_000))


def test_a_change_writes_only_its_path(store):
    entries = entries_of(60_000)
    root = built(store, entries)
    store.needs.clear()
    updated = changed(store, root, [(entries[30_000][0], ["changed"])])
    assert len(updated.blocks) <= 8
    assert sum(len(need) for need in store.needs) <= 12
    fresh = entries.copy()
    fresh[30_000] = (entries[30_000][0], ["changed"])
    assert updated.root == built(store, fresh)


def test_removing_what_ends_a_chunk_joins_it_with_the_next(store):
    entries = entries_of(5_000)
    root = built(store, entries)
    chunks = leaves(store, root)
    lasts = [chunk[-1][0] for chunk in chunks[:-1]]
    updated = changed(store, root, [(key, None) for key in lasts])
    left = [entry for entry in entries if entry[0] not in set(lasts)]
    assert updated.root == built(store, left)
    assert len(leaves(store, updated.root)) < len(chunks)


def test_entries_after_the_last_chunk_that_ended_by_its_hash_begin_a_new_one(store):
    entries = entries_of(2_000)
    last = next(at for at in range(500, 2_000) if is_end(entries[at]))
    root = built(store, entries[: last + 1])
    updated = changed(store, root, entries[last + 1 :])
    assert updated.root == built(store, entries)


def test_chunks_that_are_full_shift_up_to_the_next_key_that_ends_one(store):
    plain = [entry for entry in entries_of(20_000) if not is_end(entry)][:5_000]
    ends = [entry for entry in entries_of(20_000, seed=2) if is_end(entry) and entry[0] > plain[-1][0]]
    entries = plain + ends[:1] + [entry for entry in entries_of(20_000) if entry[0] > ends[0][0]][:2_000]
    root = built(store, entries)
    sizes = [len(chunk) for chunk in leaves(store, root)]
    assert sizes[:9] == [LISTS.entries_max] * 9
    before = set(store.blocks)
    inserted = changed(store, root, [(b"", [0])])
    assert inserted.root == built(store, [(b"", [0]), *entries])
    assert 20 <= len(set(inserted.blocks) - before) <= 24
    removed = changed(store, inserted.root, [(b"", None)])
    assert (removed.root, removed.added) == (root, -1)
    middle = [(entry[0], None) for entry in plain[1_000:1_010]]
    assert changed(store, root, middle).root == built(store, entries[:1_000] + entries[1_010:])


def test_a_removal_of_an_absent_key_and_an_equal_put_change_nothing(store):
    entries = entries_of(3_000)
    root = built(store, entries)
    same = changed(store, root, [(b"absent", None)])
    assert (same.root, same.blocks, same.added) == (root, {}, 0)
    same = changed(store, root, [entries[7]])
    assert (same.root, same.blocks, same.added) == (root, {}, 0)


def test_an_update_pauses_and_its_blocks_may_be_taken(store):
    entries = entries_of(20_000)
    root = built(store, entries)
    done, blocks, pauses = sliced(update(None, dict(entries), store.nodes, LISTS, slice_nodes=5))
    assert done.root == root
    assert blocks == store.blocks
    assert len(pauses) > 10
    assert max(pauses) <= 5 + 128 // 4  # what one run of changes may complete


def test_keys_and_values_that_look_like_links_stay_what_they_are(store):
    values = [
        Link(cid_of(b"a")),
        bytes(cid_of(b"a")),
        b"\x01\x00\x00\x00",
        [Link(cid_of(b"b", "raw"))],
        1,
        1.0,
    ]
    random = Random(2)
    keys = sorted(b"\x01" + random.randbytes(15) for _ in range(3_000))
    entries = [(key, values[number % len(values)]) for number, key in enumerate(keys)]
    root = built(store, entries)
    for data in store.blocks.values():
        decode(data)
    assert [(key, value) for chunk in leaves(store, root) for key, value in chunk] == entries
    removed = changed(store, root, [(key, None) for key in keys[::3]]).root
    assert removed == built(store, [entry for at, entry in enumerate(entries) if at % 3])


def test_a_cursor_goes_both_ways_through_all_chunks(store):
    entries = entries_of(20_000)
    root = built(store, entries)

    def walk_all(step):
        cursor = Cursor(root, store.nodes, ahead_max=4)
        yield from cursor.open()
        yield from cursor.seek(b"" if step == "next" else None)
        keys = [cursor.chunk.keys]
        while (yield from getattr(cursor, step)()):
            keys.append(cursor.chunk.keys)
        assert step == "prev" or cursor.is_last
        return keys

    forward = store.run(walk_all("next"))
    assert [key for chunk in forward for key in chunk] == [key for key, _ in entries]
    assert store.run(walk_all("prev")) == forward[::-1]


KEYS = [b"a", b"b"]
LINKED = [Link(cid_of(b"")), Link(cid_of(b"2"))]
MALFORMED = {
    "no DAG-CBOR": (b"\xff\xff", "it is not [level, keys, values]"),
    "no list": (encode({"level": 0}), "it is not [level, keys, values]"),
    "too short a list": (encode([0, KEYS]), "it is not [level, keys, values]"),
    "too deep": (encode([24, KEYS, LINKED]), "it is not [level, keys, values]"),
    "damaged inside": (encode([0, KEYS, [1, 2]])[:-1], "it is not DAG-CBOR"),
    "no entries": (encode([0, [], []]), "it has none"),
    "unsorted": (encode([0, KEYS[::-1], [1, 2]]), "its keys do not ascend"),
    "a key twice": (encode([0, [b"a", b"a"], [1, 2]]), "its keys do not ascend"),
    "a value missing": (encode([0, KEYS, [1]]), "not as many values as keys"),
    "a text key": (encode([0, ["a"], [1]]), "a key is not a byte string"),
    "keys that are no list": (encode([0, 5, [1]]), "not as many values as keys"),
    "a value above level 0": (encode([1, KEYS, [1, 2]]), "links no chunk"),
    "a link to a blob": (encode([1, KEYS, [Link(cid_of(k, "raw")) for k in KEYS]]), "no CID of a chunk"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_chunk_is_corrupted_and_says_why(store, name):
    data, what = MALFORMED[name]
    root = cid_of(data)
    store.blocks[root] = data
    for walk in (update(root, {b"a": 1}, store.nodes, LISTS), check(root, store.nodes, LISTS)):
        with pytest.raises(Corrupted) as error:
            store.run(walk)
        assert error.value.code == "kernel.chunk"
        assert str(root) in str(error.value)
    assert what in str(error.value) or "not canonical" in str(error.value)


def test_a_chunk_with_more_entries_than_it_may_have_is_corrupted(store):
    keys = [key for key, _ in entries_of(20_000) if not ending(key)][: LISTS.entries_max + 1]
    data = encode([0, keys, [1] * len(keys)])
    store.blocks[cid_of(data)] = data
    with pytest.raises(Corrupted, match="more than 256"):
        store.run(check(cid_of(data), store.nodes, LISTS))


def test_a_chunk_that_is_not_canonical_cbor_is_corrupted(store):
    good = encode([0, KEYS, [1, 2]])
    data = good.replace(b"\x41a", b"\x58\x01a")
    assert data != good
    store.blocks[cid_of(data)] = data
    with pytest.raises(Corrupted, match="not canonical"):
        store.run(check(cid_of(data), store.nodes, LISTS))


def linked(store, *children, keys=None, level=1):
    """A root over the given chunks: of each its level, and keys that all have the value 1."""
    lasts, links = [], []
    for at, (child_level, own) in enumerate(children):
        data = encode([child_level, own, [1] * len(own)])
        store.blocks[cid_of(data)] = data
        lasts.append(keys[at] if keys else own[-1])
        links.append(Link(cid_of(data)))
    data = encode([level, lasts, links])
    store.blocks[cid_of(data)] = data
    return cid_of(data)


def test_a_chunk_under_another_last_key_or_level_is_corrupted(store):
    root = linked(store, (0, KEYS), (0, [b"d"]), keys=[b"c", b"d"])
    with pytest.raises(Corrupted, match="last key"):
        store.run(check(root, store.nodes, LISTS))
    root = linked(store, (0, KEYS), (0, [b"d"]), level=2)
    with pytest.raises(Corrupted, match="level"):
        store.run(check(root, store.nodes, LISTS))


def test_chunks_cut_elsewhere_than_the_rule_says_are_corrupted(store):
    assert not is_ending(0, b"b", LISTS)
    root = linked(store, (0, KEYS), (0, [b"d"]))
    with pytest.raises(Corrupted, match="does not end where"):
        store.run(check(root, store.nodes, LISTS))
    wrapper = linked(store, (0, KEYS))
    with pytest.raises(Corrupted, match="single chunk"):
        store.run(check(wrapper, store.nodes, LISTS))


def test_chunks_in_a_wrong_order_are_corrupted(store):
    end = next(key for key, _ in entries_of(2_000) if ending(key))
    root = linked(store, (0, [b"", end]), (0, [b"\x00", b"\xff\xff"]))
    with pytest.raises(Corrupted, match="do not follow those of the chunk before"):
        store.run(check(root, store.nodes, LISTS))


def test_a_missing_chunk_is_corrupted_and_named(store):
    root = built(store, entries_of(2_000))
    gone = next(cid for cid in store.blocks if cid != root)
    del store.blocks[gone]
    with pytest.raises(Corrupted) as error:
        store.run(check(root, store.nodes, LISTS))
    assert error.value.code == "kernel.node_missing"
    assert error.value.fields["cid"] == str(gone)


def test_a_chunk_read_from_its_bytes_knows_its_keys(store):
    data = encode([0, KEYS, [1, 2]])
    chunk = Chunk(cid_of(data), data, 0, b"b")
    assert (chunk.level, chunk.keys, chunk.values) == (0, KEYS, [1, 2])
