from __future__ import annotations

from random import Random

import pytest

from cellule.errors import Corrupted, InvariantBroken, Rejected
from cellule.kernel.index import LISTS, OrderedIndex, pair_key, pair_of, update
from cellule.kernel.index.sorted_keys import SortedKeys
from cellule.kernel.need import Need


def due(number):
    return pair_key(number, 0)


def stored(store, count):
    entries = [(due(number), [number]) for number in range(count)]
    return store.run(update(None, dict(entries), store.nodes, LISTS)).root


def everything(store, index):
    return store.run(index.scan(b"", None, 10_000))


def test_pair_keys_sort_like_their_numbers_and_come_back():
    pairs = [(0, 0), (0, 5), (1, 0), (255, 2**64 - 1), (256, 0), (2**64 - 1, 2**64 - 1)]
    assert sorted(pair_key(*pair) for pair in pairs) == [pair_key(*pair) for pair in pairs]
    assert [pair_of(pair_key(*pair)) for pair in pairs] == pairs


@pytest.mark.parametrize("pair", [(-1, 0), (0, -1), (2**64, 0), (0, 2**64)])
def test_numbers_beyond_64_bits_are_no_pair(pair):
    with pytest.raises(Rejected) as error:
        pair_key(*pair)
    assert error.value.code == "kernel.pair_key"


def test_a_key_of_another_length_is_no_pair():
    with pytest.raises(Corrupted) as error:
        pair_of(b"short")
    assert error.value.code == "kernel.pair_key_damaged"


def test_changes_show_at_once(store):
    index = OrderedIndex(None, store.nodes)
    assert store.run(index.first()) is None
    index.put(due(2), "two")
    index.insert(due(1), "one")
    assert store.run(index.first()) == (due(1), "one")
    assert store.run(index.get(due(2))) == "two"
    index.put(due(2), "TWO")
    index.remove(due(1))
    assert store.run(index.first()) == (due(2), "TWO")
    assert store.run(index.get(due(1))) is None
    index.delete(due(2))
    index.delete(due(9))
    assert everything(store, index) == []


def test_changes_show_over_the_root(store):
    index = OrderedIndex(stored(store, 1_000), store.nodes, count=1_000)
    index.put(due(5), "changed")
    index.remove(due(0))
    index.insert(pair_key(5, 1), "between")
    assert store.run(index.first()) == (due(1), [1])
    assert store.run(index.get(due(5))) == "changed"
    assert store.run(index.get(due(999))) == [999]
    assert store.run(index.get(pair_key(999, 1))) is None
    assert store.run(index.scan(due(4), due(7), 10)) == [
        (due(4), [4]), (due(5), "changed"), (pair_key(5, 1), "between"), (due(6), [6]),
    ]  # fmt: skip
    assert store.run(index.scan(due(4), due(7), 2, reverse=True)) == [
        (due(6), [6]),
        (pair_key(5, 1), "between"),
    ]
    assert store.run(index.count()) == 1_000


def test_scans_page_through_everything_both_ways(store):
    index = OrderedIndex(stored(store, 3_000), store.nodes, count=3_000)
    for number in range(0, 3_000, 3):
        index.remove(due(number))
    for number in range(3_000, 3_100):
        index.insert(due(number), [number])
    expected = [(due(n), [n]) for n in range(3_100) if n % 3 or n >= 3_000]
    begin, seen = b"", []
    while page := store.run(index.scan(begin, None, 90)):
        seen.extend(page)
        begin = page[-1][0] + b"\0"
    assert seen == expected
    end, seen = None, []
    while page := store.run(index.scan(b"", end, 90, reverse=True)):
        seen.extend(page)
        end = page[-1][0]
    assert seen == expected[::-1]


@pytest.mark.parametrize("limit", [0, 10_001])
def test_a_scan_without_a_sensible_limit_is_refused(store, limit):
    with pytest.raises(Rejected) as error:
        store.run(OrderedIndex(None, store.nodes).scan(b"", None, limit))
    assert error.value.code == "kernel.page_limit"


def test_taking_from_the_front_reads_each_chunk_once(store):
    index = OrderedIndex(stored(store, 5_000), store.nodes, count=5_000)
    store.needs.clear()
    for number in range(5_000):
        assert store.run(index.first()) == (due(number), [number])
        index.remove(due(number))
    assert store.run(index.first()) is None
    asked = [cid for need in store.needs for cid in need]
    assert len(asked) == len(set(asked))
    store.needs.clear()
    assert everything(store, index) == []
    assert store.needs == []
    assert store.run(index.count()) == 0


def test_the_front_is_right_through_freezing_and_materialising(store):
    index = OrderedIndex(stored(store, 300), store.nodes, count=300)
    model = {due(n): [n] for n in range(300)}
    random = Random(6)
    walk = None
    for number in range(1_000):
        key, value = store.run(index.first())
        assert (key, value) == min(model.items())
        index.remove(key)
        del model[key]
        fresh = pair_key(random.randrange(400), number + 1)
        index.insert(fresh, ["new", number])
        model[fresh] = ["new", number]
        if walk is None and number % 50 == 0:
            index.freeze()
            walk = index.materialise(slice_nodes=1)
        elif walk is not None:
            try:
                step = next(walk)
                if isinstance(step, Need):
                    store.nodes.add(store.read(step.cids))
            except StopIteration as end:
                store.blocks.update(end.value.blocks)
                store.nodes.unpin(end.value.blocks)
                walk = None
    assert everything(store, index) == sorted(model.items())
    assert store.run(index.count()) == len(model)


def test_what_is_inserted_and_removed_again_leaves_no_trace(store):
    index = OrderedIndex(stored(store, 10), store.nodes)
    for number in range(100):
        index.insert(pair_key(number, 7), [number])
        index.remove(pair_key(number, 7))
    index.freeze()
    assert store.run(index.materialise()).blocks == {}


def test_an_index_tells_without_reading_that_it_is_empty(store):
    index = OrderedIndex(None, store.nodes)
    assert index.is_empty
    index.insert(pair_key(1, 7), [1])
    assert not index.is_empty
    index.freeze()
    assert not index.is_empty
    store.blocks.update(store.run(index.materialise()).blocks)
    assert not index.is_empty
    index.remove(pair_key(1, 7))
    index.freeze()
    store.run(index.materialise())
    assert index.is_empty


def test_inserting_a_key_twice_is_a_broken_promise(store):
    index = OrderedIndex(None, store.nodes)
    index.insert(due(1), 1)
    with pytest.raises(InvariantBroken) as error:
        index.insert(due(1), 2)
    assert error.value.code == "kernel.index_insert"


def test_materialising_gives_the_root_of_the_frozen_entries(store):
    index = OrderedIndex(stored(store, 2_000), store.nodes, count=2_000)
    for number in range(0, 2_000, 7):
        index.remove(due(number))
    for number in range(2_000, 2_500):
        index.put(due(number), [number])
    index.freeze()
    index.put(due(1), "later")
    done = store.run(index.materialise())
    expected = [(due(n), [n]) for n in range(2_500) if n % 7 or n >= 2_000]
    assert done.root == index.root == store.run(update(None, dict(expected), store.nodes, LISTS)).root
    assert store.run(index.get(due(1))) == "later"
    assert store.run(index.count()) == len(expected)


def test_an_abandoned_materialisation_changes_nothing_and_the_next_one_writes_all(store):
    index = OrderedIndex(None, store.nodes)
    for number in range(2_000):
        index.insert(due(number), [number])
    index.freeze()
    walk = index.materialise(slice_nodes=1)
    next(walk)
    with pytest.raises(InvariantBroken) as error:
        next(index.materialise())
    assert error.value.code == "kernel.materialise_twice"
    walk.close()
    assert index.root is None
    index.remove(due(0))
    index.freeze()
    expected = [(due(n), [n]) for n in range(1, 2_000)]
    assert (
        store.run(index.materialise()).root
        == store.run(update(None, dict(expected), store.nodes, LISTS)).root
    )


def test_the_count_is_right_whatever_was_known(store):
    index = OrderedIndex(stored(store, 100), store.nodes, count=100)
    index.delete(due(1))  # there
    index.delete(due(200))  # not there
    index.put(due(2), "again")  # there
    index.put(due(201), "new")  # not there
    index.remove(due(201))
    index.put(due(201), "new")
    index.delete(due(1))
    index.put(due(1), "back")
    assert store.run(index.count()) == 101
    index.freeze()
    index.delete(due(1))
    index.delete(due(201))
    index.put(due(202), "new")
    assert store.run(index.count()) == 100
    store.run(index.materialise())
    assert store.run(index.count()) == 100


def test_sorted_keys_stay_sorted_through_anything():
    keys, model, random = SortedKeys(), set(), Random(9)
    for _ in range(20_000):
        key = random.randbytes(2)
        if key in model:
            keys.remove(key)
            model.remove(key)
        else:
            keys.add(key)
            model.add(key)
    ordered = sorted(model)
    assert list(keys.walk(b"", None)) == ordered
    assert list(keys.walk_back(b"", None)) == ordered[::-1]
    assert keys.first() == ordered[0]
    for _ in range(200):
        begin, end = sorted((random.randbytes(2), random.randbytes(2)))
        inside = [key for key in ordered if begin <= key < end]
        assert list(keys.walk(begin, end)) == inside
        assert list(keys.walk_back(begin, end)) == inside[::-1]
        assert keys.after(begin) == next((key for key in ordered if key > begin), None)
