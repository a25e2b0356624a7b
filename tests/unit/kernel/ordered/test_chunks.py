from __future__ import annotations

from hashlib import sha256
from random import Random

import pytest

from cellule.errors import Corrupted
from cellule.kernel.need import Pause
from cellule.kernel.ordered import check, update
from cellule.kernel.ordered.chunk import ENTRIES_MAX, Chunk, is_ending
from cellule.kernel.ordered.cursor import Cursor
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.link import Link


def entries_of(count, seed=1):
    random = Random(seed)
    keys = sorted({random.randbytes(6) for _ in range(count)})
    return [(key, [number, "timer"]) for number, key in enumerate(keys)]


def built(store, entries):
    return store.run(update(None, entries, store.nodes)).root


def leaves(store, root):
    """The chunks of level 0, by decoding alone."""
    chunk = decode(store.blocks[root])
    if chunk[0] == 0:
        return [chunk[1]]
    return [leaf for _, link in chunk[1] for leaf in leaves(store, link.cid)]


def ending(value):
    return sha256(encode(value)).digest()[0] & 0b11111110 == 0


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


def test_chunks_end_after_an_ending_entry_or_512_entries(store):
    entries = entries_of(60_000)
    chunks = leaves(store, built(store, entries))
    assert [tuple(entry) for chunk in chunks for entry in chunk] == entries
    assert any(len(chunk) == ENTRIES_MAX for chunk in chunks)
    for chunk in chunks[:-1]:
        assert ending(chunk[-1]) or len(chunk) == ENTRIES_MAX
    for chunk in chunks:
        assert not any(ending(entry) for entry in chunk[:-1])
    assert 64 < len(entries) / len(chunks) < 256


def test_the_same_rule_holds_above(store):
    root = built(store, entries_of(60_000))
    level, links = decode(store.blocks[root])
    assert level >= 1
    row = [root]
    while level > 1:
        chunks = [decode(store.blocks[cid])[1] for cid in row]
        for chunk in chunks[:-1]:
            assert ending(chunk[-1]) or len(chunk) == ENTRIES_MAX
        row = [link.cid for chunk in chunks for _, link in chunk]
        level -= 1
    assert len(links) > 1
    assert store.run(check(root, store.nodes)) == len(entries_of(60_000))


def test_no_entries_have_no_root(store):
    assert built(store, []) is None
    root = built(store, entries_of(1_000))
    gone = store.run(update(root, [(key, None) for key, _ in entries_of(1_000)], store.nodes))
    assert (gone.root, gone.blocks) == (None, {})
    assert gone.added == -len(entries_of(1_000))


def test_a_change_writes_only_its_path(store):
    entries = entries_of(60_000)
    root = built(store, entries)
    store.needs.clear()
    updated = store.run(update(root, [(entries[30_000][0], ["changed"])], store.nodes))
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
    updated = store.run(update(root, [(key, None) for key in lasts], store.nodes))
    left = [entry for entry in entries if entry[0] not in set(lasts)]
    assert updated.root == built(store, left)
    assert len(leaves(store, updated.root)) < len(chunks)


def test_entries_after_the_last_chunk_that_ended_by_its_hash_begin_a_new_one(store):
    entries = entries_of(2_000)
    last = next(at for at in range(500, 2_000) if is_ending(0, list(entries[at])))
    root = built(store, entries[: last + 1])
    updated = store.run(update(root, entries[last + 1 :], store.nodes))
    assert updated.root == built(store, entries)


def test_chunks_that_are_cut_at_512_entries_shift_up_to_the_next_entry_that_ends_one(store):
    plain = [entry for entry in entries_of(20_000) if not is_ending(0, list(entry))][:5_000]
    ends = [
        entry for entry in entries_of(20_000, seed=2) if is_ending(0, list(entry)) and entry[0] > plain[-1][0]
    ]
    entries = plain + ends[:1] + [entry for entry in entries_of(20_000) if entry[0] > ends[0][0]][:2_000]
    root = built(store, entries)
    sizes = [len(chunk) for chunk in leaves(store, root)]
    assert sizes[:9] == [ENTRIES_MAX] * 9
    before = set(store.blocks)
    inserted = store.run(update(root, [(b"", [0])], store.nodes))
    assert inserted.root == built(store, [(b"", [0]), *entries])
    assert 10 <= len(set(inserted.blocks) - before) <= 14
    removed = store.run(update(inserted.root, [(b"", None)], store.nodes))
    assert (removed.root, removed.added) == (root, -1)
    middle = [(entry[0], None) for entry in plain[1_000:1_010]]
    assert store.run(update(root, middle, store.nodes)).root == built(
        store, entries[:1_000] + entries[1_010:]
    )


def test_a_removal_of_an_absent_key_and_an_equal_put_change_nothing(store):
    entries = entries_of(3_000)
    root = built(store, entries)
    same = store.run(update(root, [(b"absent", None)], store.nodes))
    assert (same.root, same.blocks, same.added) == (root, {}, 0)
    same = store.run(update(root, [entries[7]], store.nodes))
    assert (same.root, same.blocks, same.added) == (root, {}, 0)


def test_an_update_pauses_and_its_blocks_may_be_taken(store):
    entries = entries_of(20_000)
    root = built(store, entries)
    done, blocks, pauses = sliced(update(None, entries, store.nodes, slice_nodes=5))
    assert done.root == root
    assert blocks == store.blocks
    assert len(pauses) > 10
    assert max(pauses) <= 5


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
    removed = store.run(update(root, [(key, None) for key in keys[::3]], store.nodes)).root
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


GOOD = [[b"a", 1], [b"b", 2]]
MALFORMED = {
    "no DAG-CBOR": (b"\xff\xff", "it is not [level, entries]"),
    "no list": (encode({"level": 0}), "it is not [level, entries]"),
    "damaged inside": (encode([0, GOOD])[:-1], "it is not DAG-CBOR"),
    "no entries": (encode([0, []]), "it has 0 entries"),
    "too many entries": (encode([0, [[n.to_bytes(2, "big"), n] for n in range(513)]]), "it has 513 entries"),
    "unsorted": (encode([0, GOOD[::-1]]), "its keys do not ascend"),
    "a key twice": (encode([0, [GOOD[0], GOOD[0]]]), "its keys do not ascend"),
    "an entry too short": (encode([0, [[b"a"]]]), "an entry is not a key and what it stands for"),
    "a text key": (encode([0, [["a", 1]]]), "an entry is not a key and what it stands for"),
    "a value above level 0": (encode([1, [[b"a", 1]]]), "links no chunk"),
    "a link to a blob": (
        encode([1, [[k, Link(cid_of(k, "raw"))] for k in (b"a", b"b")]]),
        "no CID of a chunk",
    ),
    "entries that are no list": (encode([0, 5]), "it is not [level, entries]"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_chunk_is_corrupted_and_says_why(store, name):
    data, what = MALFORMED[name]
    root = cid_of(data)
    store.blocks[root] = data
    for walk in (update(root, [(b"a", 1)], store.nodes), check(root, store.nodes)):
        with pytest.raises(Corrupted) as error:
            store.run(walk)
        assert error.value.code == "kernel.chunk"
        assert str(root) in str(error.value)
    assert what in str(error.value) or "not canonical" in str(error.value)


def linked(store, *children, keys=None, level=1):
    """A root over the given chunks."""
    rows = []
    for at, (child_level, entries) in enumerate(children):
        data = encode([child_level, entries])
        store.blocks[cid_of(data)] = data
        rows.append([keys[at] if keys else entries[-1][0], Link(cid_of(data))])
    data = encode([level, rows])
    store.blocks[cid_of(data)] = data
    return cid_of(data)


def test_a_chunk_under_another_last_key_or_level_is_corrupted(store):
    root = linked(store, (0, GOOD), (0, [[b"d", 4]]), keys=[b"c", b"d"])
    with pytest.raises(Corrupted, match="last key"):
        store.run(check(root, store.nodes))
    root = linked(store, (0, GOOD), (1, [[b"d", Link(root)]]))
    with pytest.raises(Corrupted, match="level"):
        store.run(check(root, store.nodes))


def test_chunks_cut_elsewhere_than_the_rule_says_are_corrupted(store):
    assert not is_ending(0, GOOD[-1])
    root = linked(store, (0, GOOD), (0, [[b"d", 4]]))
    with pytest.raises(Corrupted, match="does not end where"):
        store.run(check(root, store.nodes))
    wrapper = linked(store, (0, GOOD))
    with pytest.raises(Corrupted, match="single chunk"):
        store.run(check(wrapper, store.nodes))


def test_a_chunk_read_from_its_bytes_knows_its_keys(store):
    data = encode([0, GOOD])
    chunk = Chunk(cid_of(data), data, 0, b"b")
    assert (chunk.level, chunk.keys, chunk.entries) == (0, [b"a", b"b"], GOOD)
