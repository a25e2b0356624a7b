from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.index import check, lookup, update
from cellule.kernel.index.node import DEPTH_MAX, Node, hash_of, shift_of
from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from cellule.values.link import Link


def keys_in(slot, count, depth=0, under=0):
    """Keys whose hash leads to `slot`, below the slots of `under`."""
    found, number = [], 0
    while len(found) < count:
        key = b"key-%d" % number
        if hash_of(key) >> shift_of(depth) == under * 32 + slot:
            found.append(key)
        number += 1
    return sorted(found)


def bits(*slots):
    return sum(1 << slot for slot in slots).to_bytes(4, "little")


def bucket(keys):
    return [[key, 1] for key in keys]


def root_of(node, **other):
    return {"hamt": node, "hashAlg": 0x12, "bucketSize": 3, **other}


KEYS = keys_in(3, 4)
MORE = keys_in(5, 1)

ROOTS = {
    "no DAG-CBOR": (b"\xff\x00", "it is not a root"),
    "another shape": (encode([1, 2]), "it is not a root"),
    "a parameter missing": (encode({"hamt": [bits(3), [bucket(KEYS[:1])]]}), "it is not a root"),
    "another hash": (encode(root_of([bits(3), [bucket(KEYS[:1])]], hashAlg=0x13)), "it is not a root"),
    "another bucket size": (encode(root_of([bits(3), [bucket(KEYS[:1])]], bucketSize=4)), "it is not a root"),
    "an unknown field": (encode(root_of([bits(3), [bucket(KEYS[:1])]], more=1)), "it is not a root"),
    "a short map": (encode(root_of([bits(3)[:3], [bucket(KEYS[:1])]])), "it is not a root"),
    "a map that is no bytes": (encode(root_of([8, [bucket(KEYS[:1])]])), "it is not a root"),
    "more bits than elements": (
        encode(root_of([bits(3, 5), [bucket(KEYS[:1])]])),
        "2 bits set for 1 elements",
    ),
    "more elements than bits": (
        encode(root_of([bits(3), [bucket(KEYS[:1]), bucket(MORE)]])),
        "1 bits set for 2 elements",
    ),
    "nothing in it": (encode(root_of([bits(), []])), "it is empty"),
    "an element that is neither": (encode(root_of([bits(3), [7]])), "neither a link nor a bucket"),
    "an empty bucket": (encode(root_of([bits(3), [[]]])), "neither a link nor a bucket"),
    "a bucket too large": (encode(root_of([bits(3), [bucket(KEYS)]])), "neither a link nor a bucket"),
    "an unsorted bucket": (encode(root_of([bits(3), [bucket(KEYS[1::-1])]])), "keys do not ascend"),
    "a key twice": (encode(root_of([bits(3), [bucket([KEYS[0], KEYS[0]])]])), "keys do not ascend"),
    "an entry too long": (encode(root_of([bits(3), [[[KEYS[0], 1, 2]]]])), "not [key, value]"),
    "a text key": (encode(root_of([bits(3), [[["text", 1]]]])), "not [key, value]"),
    "a key in a wrong slot": (
        encode(root_of([bits(3), [bucket(MORE)]])),
        "does not belong under its hash prefix",
    ),
    "a link to a blob": (encode(root_of([bits(3), [Link(cid_of(b"", "raw"))]])), "no CID of a node"),
}


@pytest.mark.parametrize("name", ROOTS)
def test_a_malformed_root_is_corrupted_and_says_why(store, name):
    data, what = ROOTS[name]
    root = cid_of(data)
    store.blocks[root] = data
    for walk in (
        lookup(root, KEYS[:1], store.nodes),
        update(root, {KEYS[0]: [1]}, store.nodes),
        check(root, store.nodes),
    ):
        with pytest.raises(Corrupted) as error:
            store.run(walk)
        assert error.value.code == "kernel.index_node"
        assert what in str(error.value)
        assert str(root) in str(error.value)


def below(store, node, slot=3):
    """A root with one child."""
    data = encode(node)
    child = cid_of(data)
    root_data = encode(root_of([bits(slot), [Link(child)]]))
    store.blocks |= {child: data, cid_of(root_data): root_data}
    return cid_of(root_data), child


def test_a_child_with_too_few_entries_is_corrupted(store):
    keys = keys_in(7, 2, depth=1, under=3)
    root, child = below(store, [bits(7), [bucket(keys)]])
    with pytest.raises(Corrupted) as error:
        store.run(lookup(root, keys, store.nodes))
    assert "too few entries" in str(error.value)
    assert error.value.fields == {"cid": str(child), "depth": 1, "what": error.value.fields["what"]}


def test_a_node_deeper_than_a_hash_has_bits_is_corrupted():
    data = encode([bits(3), [Link(cid_of(b"below"))]])
    assert Node(cid_of(data), data, DEPTH_MAX).depth == 50
    with pytest.raises(Corrupted) as error:
        Node(cid_of(data), data, DEPTH_MAX + 1)
    assert "deeper than a hash has bits" in str(error.value)


def test_a_child_that_looks_like_a_root_is_corrupted(store):
    root, _ = below(store, root_of([bits(7), [bucket(KEYS[:1])]]))
    with pytest.raises(Corrupted) as error:
        store.run(lookup(root, KEYS[:1], store.nodes))
    assert "it is not [map, data]" in str(error.value)


def test_a_node_under_a_wrong_prefix_is_corrupted(store):
    keys = keys_in(7, 2, depth=1, under=3) + keys_in(8, 2, depth=1, under=3)
    node = [bits(7, 8), [bucket(keys[:2]), bucket(keys[2:])]]
    root, child = below(store, node)
    assert store.run(check(root, store.nodes)) == 4
    root, child = below(store, node, slot=4)
    with pytest.raises(Corrupted) as error:
        store.run(check(root, store.nodes))
    assert error.value.fields["cid"] == str(child)


def test_a_node_that_is_not_canonical_cbor_is_corrupted(store):
    good = encode(root_of([bits(3), [[[KEYS[0], 1]]]]))
    data = good[:-16].replace(b"\x44" + bits(3), b"\x58\x04" + bits(3)) + good[-16:]
    assert data != good
    root = cid_of(data)
    store.blocks[root] = data
    with pytest.raises(Corrupted) as error:
        store.run(check(root, store.nodes))
    assert "not canonical" in str(error.value)


def test_plain_bytes_in_the_place_of_a_link_are_corrupted(store):
    keys = keys_in(7, 2, depth=1, under=3) + keys_in(8, 2, depth=1, under=3)
    _, child = below(store, [bits(7, 8), [bucket(keys[:2]), bucket(keys[2:])]])
    data = encode(root_of([bits(3), [bytes(child)]]))
    store.blocks[cid_of(data)] = data
    with pytest.raises(Corrupted):
        store.run(check(cid_of(data), store.nodes))


def test_a_missing_node_is_corrupted_and_named(store):
    entries = {b"key-%d" % number: [number] for number in range(200)}
    updated = store.run(update(None, entries, store.nodes))
    gone = next(cid for cid in updated.blocks if cid != updated.root)
    del store.blocks[gone]
    with pytest.raises(Corrupted) as error:
        store.run(check(updated.root, store.nodes))
    assert error.value.code == "kernel.node_missing"
    assert error.value.fields["cid"] == str(gone)
