"""Entries read together are found without reading the root again, and changes still win over them."""

from __future__ import annotations

from cellule.kernel.need import Nodes, drive
from cellule.kernel.ordered.index import OrderedIndex
from cellule.kernel.ordered.keys import pair_key


def made(count):
    nodes = Nodes(1 << 30)
    index = OrderedIndex(None, nodes)
    for number in range(count):
        index.insert(pair_key(number, 0), [number])
    index.freeze()
    walk = index.materialise()
    while True:
        try:
            next(walk)
        except StopIteration:
            return index, nodes


def get(index, nodes, key):
    return drive(index.get(key), nodes, lambda cids: {})


def test_warmed_entries_need_no_read_of_the_root(monkeypatch):
    index, nodes = made(2_000)
    keys = [pair_key(number, 0) for number in (5, 1_999, 700, 2_500)]
    drive(index.warm(keys), nodes, lambda cids: {})
    monkeypatch.setattr(index, "_in_root", None)
    assert [get(index, nodes, key) for key in keys] == [[5], [1_999], [700], None]


def test_a_change_hides_what_was_warmed():
    index, nodes = made(2_000)
    keys = [pair_key(5, 0), pair_key(6, 0)]
    drive(index.warm(keys), nodes, lambda cids: {})
    index.remove(keys[0])
    index.put(keys[1], ["new"])
    assert [get(index, nodes, key) for key in keys] == [None, ["new"]]


def test_cooling_reads_the_root_again():
    index, nodes = made(300)
    keys = [pair_key(5, 0), pair_key(6, 0)]
    drive(index.warm(keys), nodes, lambda cids: {})
    index.cool()
    assert get(index, nodes, keys[0]) == [5]
