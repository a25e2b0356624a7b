from __future__ import annotations

from random import Random

import pytest

from cellule.errors import InvariantBroken
from cellule.kernel.index import CELLS, MISSING, LiveIndex, lookup, update
from cellule.kernel.need import Need, Nodes, Pause, drive
from cellule.values.cid import cid_of
from cellule.values.link import Link


class Scratch:
    """A spill in memory that refuses to read what was dropped."""

    def __init__(self):
        self.slots = {}
        self.next = 0
        self.puts = 0

    def put(self, data):
        self.puts += 1
        self.next += 1
        self.slots[self.next] = data
        return self.next

    def get(self, slot):
        return self.slots[slot]

    def drop(self, slot):
        del self.slots[slot]


def weigh(entry):
    return 200 + len(entry[0])


def live_on(store, root=None, **options):
    options = {"pack": list, "unpack": tuple, "weigh": weigh, "hot_max": 100, **options}
    return LiveIndex(root, store.nodes, **options)


def entry(number, size=10):
    return (b"s" * size, number)


def key(number):
    return b"cell-%05d" % number


def stored(store, count):
    entries = {key(number): list(entry(number)) for number in range(count)}
    return store.run(update(None, entries, store.nodes, CELLS)).root


def test_what_was_put_is_read_at_once_and_what_was_deleted_is_gone(store):
    live = live_on(store)
    assert live.cached(key(1)) is MISSING
    live.put(key(1), entry(1))
    assert live.cached(key(1)) == entry(1)
    live.put(key(1), entry(2))
    assert live.cached(key(1)) == entry(2)
    live.delete(key(1))
    assert live.cached(key(1)) is None


def test_load_brings_keys_from_the_root_and_remembers_absence(store):
    live = live_on(store, stored(store, 300))
    keys = [key(number) for number in range(295, 305)]
    found = store.run(live.load(keys))
    assert found == {key(n): entry(n) if n < 300 else None for n in range(295, 305)}
    assert live.cached(key(299)) == entry(299)
    assert live.cached(key(301)) is None
    store.needs.clear()
    assert store.run(live.load(keys)) == found
    assert store.needs == []


def test_load_answers_even_if_nothing_can_be_kept(store):
    live = live_on(store, stored(store, 300), hot_max=0)
    keys = [key(number) for number in range(300)]
    assert store.run(live.load(keys)) == {key(n): entry(n) for n in range(300)}


def test_the_hot_entries_stay_few_and_the_recently_used_ones_stay(store):
    live = live_on(store, stored(store, 300), hot_max=40)
    store.run(live.load([key(0)]))
    for number in range(1, 300):
        store.run(live.load([key(number)]))
        assert live.cached(key(0)) == entry(0)
    assert sum(live.cached(key(number)) is not MISSING for number in range(300)) <= 40


def test_a_change_replaces_every_clean_copy(store):
    live = live_on(store, stored(store, 100), hot_max=10)
    for number in range(100):
        store.run(live.load([key(number)]))
        live.put(key(number), entry(number + 1_000))
    live.freeze()
    store.run(live.materialise())
    for number in range(100):
        assert store.run(live.load([key(number)])) == {key(number): entry(number + 1_000)}


def test_materialising_gives_the_root_of_the_frozen_entries_and_later_changes_stay_on_top(store):
    live = live_on(store, stored(store, 50), count=50)
    for number in range(40, 60):
        live.put(key(number), entry(number * 2))
    live.delete(key(0))
    live.freeze()
    live.put(key(41), entry(7))
    live.delete(key(42))
    done = store.run(live.materialise())
    assert done.root == live.root
    expected = {key(n): list(entry(n)) for n in range(1, 40)} | {
        key(n): list(entry(n * 2)) for n in range(40, 60)
    }
    assert done.root == store.run(update(None, expected, store.nodes, CELLS)).root
    assert live.cached(key(41)) == entry(7)
    assert live.cached(key(42)) is None
    live.freeze()
    store.run(live.materialise())
    found = store.run(lookup(live.root, [key(41), key(42)], store.nodes))
    assert found == {key(41): list(entry(7))}


def test_reads_and_writes_are_right_at_every_pause(store):
    live = live_on(store, stored(store, 500), hot_max=20)
    model = {key(n): entry(n) for n in range(500)}
    random = Random(4)
    for number in range(0, 500, 2):
        model[key(number)] = entry(number + 1)
        live.put(key(number), entry(number + 1))
    live.freeze()
    frozen = dict(model)
    walk = live.materialise(slice_nodes=1)
    pauses = 0
    while True:
        try:
            step = next(walk)
        except StopIteration as end:
            done = end.value
            break
        if isinstance(step, Need):
            store.nodes.add(store.read(step.cids))
            continue
        assert isinstance(step, Pause)
        pauses += 1
        changed = key(random.randrange(500))
        model[changed] = entry(pauses)
        live.put(changed, entry(pauses))
        some = [key(random.randrange(500)) for _ in range(5)]
        assert store.run(live.load(some)) == {k: model[k] for k in some}
    store.blocks.update(done.blocks)
    assert pauses > 10
    assert (
        done.root == store.run(update(None, {k: list(v) for k, v in frozen.items()}, store.nodes, CELLS)).root
    )
    assert store.run(live.load(list(model))) == model


def test_an_abandoned_materialisation_changes_nothing_and_the_next_one_writes_all(store):
    live = live_on(store)
    for number in range(100):
        live.put(key(number), entry(number))
    live.freeze()
    walk = live.materialise(slice_nodes=1)
    next(walk)
    walk.close()
    assert live.root is None
    live.put(key(5), entry(55))
    live.delete(key(6))
    live.freeze()
    done = store.run(live.materialise())
    expected = {key(n): list(entry(n)) for n in range(100) if n != 6} | {key(5): list(entry(55))}
    assert done.root == store.run(update(None, expected, store.nodes, CELLS)).root
    assert store.run(live.count()) == 99


def test_only_one_materialisation_runs_at_a_time(store):
    live = live_on(store)
    for number in range(100):
        live.put(key(number), entry(number))
    live.freeze()
    walk = live.materialise(slice_nodes=1)
    next(walk)
    with pytest.raises(InvariantBroken) as error:
        next(live.materialise())
    assert error.value.code == "kernel.materialise_twice"


def test_materialising_nothing_gives_the_same_root(store):
    root = stored(store, 10)
    live = live_on(store, root)
    live.freeze()
    assert store.run(live.materialise()) == (root, {})


def test_new_blocks_are_in_reach_before_they_are_durable():
    nodes = Nodes(0)
    live = LiveIndex(None, nodes, pack=list, unpack=tuple, weigh=weigh, hot_max=0)
    for number in range(100):
        live.put(key(number), entry(number))
    live.freeze()
    blocks = drive(live.materialise(), nodes, dict).blocks
    with pytest.raises(StopIteration) as loaded:
        next(live.load([key(7)]))
    assert loaded.value.value == {key(7): entry(7)}
    nodes.unpin(blocks)
    assert isinstance(next(live.load([key(8)])), Need)


def test_the_count_is_right_whether_or_not_keys_were_read_before_they_changed(store):
    live = live_on(store, stored(store, 100), count=100)
    store.run(live.load([key(1), key(200)]))
    live.put(key(1), entry(0))  # known to be there
    live.put(key(200), entry(0))  # known not to be there
    live.delete(key(2))  # there, not read
    live.delete(key(300))  # not there, not read
    live.put(key(3), entry(0))  # there, not read
    live.put(key(400), entry(0))  # not there, not read
    live.delete(key(400))
    live.put(key(400), entry(1))
    assert store.run(live.count()) == 101
    live.freeze()
    live.delete(key(400))
    live.put(key(2), entry(5))
    assert store.run(live.count()) == 101
    store.run(live.materialise())
    assert store.run(live.count()) == 101
    live.freeze()
    store.run(live.materialise())
    assert store.run(live.count()) == 101


def test_deleting_what_is_known_to_be_absent_leaves_nothing_to_write(store):
    live = live_on(store, stored(store, 10))
    store.run(live.load([key(50)]))
    live.delete(key(50))
    live.freeze()
    assert store.run(live.materialise()).blocks == {}
    assert live.cached(key(50)) is None


def test_dirty_bytes_follow_the_entries_in_memory(store):
    live = live_on(store, weigh=lambda entry: len(entry[0]))
    live.put(key(1), entry(1, 100))
    live.put(key(2), entry(2, 50))
    live.put(key(1), entry(1, 10))
    assert live.dirty_bytes == 60
    live.freeze()
    live.put(key(1), entry(1, 5))
    assert live.dirty_bytes == 65
    live.delete(key(1))
    assert live.dirty_bytes == 60
    store.run(live.materialise())
    assert live.dirty_bytes == 0


def test_spilled_entries_are_read_back_written_and_freed(store):
    scratch = Scratch()
    spilling = live_on(store, stored(store, 50), spill=scratch, dirty_bytes_max=3_000, hot_max=10)
    plain = live_on(store, spilling.root, hot_max=10)
    for number in range(200):
        for live in (spilling, plain):
            live.put(key(number % 120), entry(number))
        assert spilling.dirty_bytes <= 3_000
    assert scratch.puts > 50
    assert spilling.cached(key(3)) == plain.cached(key(3)) == entry(123)
    for live in (spilling, plain):
        live.delete(key(4))
        live.freeze()
        live.put(key(5), entry(1))
    for number in range(120):
        assert spilling.cached(key(number)) == plain.cached(key(number))
    assert store.run(spilling.materialise()) == store.run(plain.materialise())
    assert store.run(spilling.load([key(n) for n in range(120)])) == store.run(
        plain.load([key(n) for n in range(120)])
    )
    for live in (spilling, plain):
        live.freeze()
    assert store.run(spilling.materialise()).root == store.run(plain.materialise()).root
    assert scratch.slots == {}


def test_entries_may_spill_in_a_form_of_their_own(store):
    """Packing may make blocks; spilling must not."""
    scratch, made = Scratch(), {}

    def pack(value):
        cid = cid_of(value[0], "raw")
        made[cid] = value[0]
        return [Link(cid), value[1]]

    live = live_on(
        store,
        pack=pack,
        unpack=lambda value: (made[value[0].cid], value[1]),
        spill=scratch,
        dirty_bytes_max=1_000,
        spill_pack=list,
        spill_unpack=tuple,
    )
    for number in range(50):
        live.put(key(number), entry(number))
    assert scratch.puts > 10
    assert made == {}
    assert live.cached(key(0)) == entry(0)
    live.freeze()
    done = store.run(live.materialise())
    assert set(made) == {cid_of(b"s" * 10, "raw")}
    assert store.run(lookup(done.root, [key(0)], store.nodes)) == {
        key(0): [Link(cid_of(b"s" * 10, "raw")), 0]
    }


def test_a_load_that_waits_while_the_world_goes_on_answers_what_is_true_at_its_end(store):
    live = live_on(store, stored(store, 100), hot_max=0)
    walk = live.load([key(1), key(2), key(3)])
    need = next(walk)
    live.put(key(1), entry(11))
    live.put(key(2), entry(22))
    live.freeze()
    store.run(live.materialise())
    live.put(key(2), entry(222))
    store.nodes.add(store.read(need.cids))
    found = store.run(walk)
    assert found == {key(1): entry(11), key(2): entry(222), key(3): entry(3)}


@pytest.mark.parametrize("changed", [range(0), range(4), range(2, 4), range(2), (1, 3)])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_a_page_ends_alike_wherever_its_entries_are(store, changed, limit):
    """A full page of entries in the root and in memory ended the scan, and one of either alone went on."""
    live = live_on(store, stored(store, 4))
    for number in changed:
        live.put(key(number), entry(number))
    page = store.run(live.scan(b"", None, limit))
    assert [each for each, _ in page.entries] == [key(number) for number in range(min(limit, 4))]
    assert page.next == (key(limit - 1) + b"\0" if limit <= 4 else None)
