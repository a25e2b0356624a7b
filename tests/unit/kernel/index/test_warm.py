"""Entries read together are found without reading the root again, and changes still win over them."""

from __future__ import annotations

from cellule.kernel.index.keys import pair_key
from cellule.kernel.index.ordered import OrderedIndex


def made(store, count):
    index = OrderedIndex(None, store.nodes)
    for number in range(count):
        index.insert(pair_key(number, 0), [number])
    index.freeze()
    store.run(index.materialise())
    return index


def test_warmed_entries_need_no_read_of_the_root(store):
    index = made(store, 2_000)
    keys = [pair_key(number, 0) for number in (5, 1_999, 700, 2_500)]
    store.run(index.warm(keys))
    store.needs.clear()
    assert [store.run(index.get(key)) for key in keys] == [[5], [1_999], [700], None]
    assert store.needs == []


def test_a_change_hides_what_was_warmed(store):
    index = made(store, 2_000)
    keys = [pair_key(5, 0), pair_key(6, 0)]
    store.run(index.warm(keys))
    index.remove(keys[0])
    index.put(keys[1], ["new"])
    assert [store.run(index.get(key)) for key in keys] == [None, ["new"]]


def test_cooling_reads_the_root_again(store):
    index = made(store, 300)
    keys = [pair_key(5, 0), pair_key(6, 0)]
    store.run(index.warm(keys))
    index.cool()
    store.needs.clear()
    assert store.run(index.get(keys[0])) == [5]
    assert store.needs
