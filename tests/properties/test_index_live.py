"""The live index against a dict, through any interleaving of writes, reads, freezes, slices and evictions."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cellule.kernel.index import CELLS, MISSING, LiveIndex, check, update
from cellule.kernel.need import Need, Nodes, drive

KEYS = st.integers(0, 60).map(lambda number: b"cell-%d" % number)
ENTRIES = st.tuples(st.binary(max_size=40), st.integers(0, 9))
LOOKED_AT_MAX = 61 * 240  # a spilled entry that is read is in memory again until the next put


def weigh(entry):
    return 200 + (len(entry[0]) if isinstance(entry[0], bytes) else 0)


class Scratch:
    def __init__(self):
        self.slots, self.made = {}, 0

    def put(self, data):
        self.made += 1
        self.slots[self.made] = data
        return self.made

    def get(self, slot):
        return self.slots[slot]

    def drop(self, slot):
        del self.slots[slot]


class LiveIndexMachine(RuleBasedStateMachine):
    """`model` is what reads must show, `frozen` what the next root must hold."""

    @initialize(
        budget=st.sampled_from([0, 1_000, 1_000_000]),
        hot_max=st.sampled_from([0, 4, 1_000]),
        dirty_bytes_max=st.sampled_from([0, 1_000, 1_000_000]),
        entries=st.dictionaries(KEYS, ENTRIES, max_size=40),
    )
    def start(self, budget, hot_max, dirty_bytes_max, entries):
        self.blocks, self.nodes, self.scratch = {}, Nodes(budget), Scratch()
        self.dirty_bytes_max = dirty_bytes_max
        updated = self.run(
            update(None, {key: list(entry) for key, entry in entries.items()}, self.nodes, CELLS)
        )
        self.blocks.update(updated.blocks)
        self.live = LiveIndex(
            updated.root, self.nodes, pack=list, unpack=tuple, weigh=weigh, hot_max=hot_max,
            spill=self.scratch, dirty_bytes_max=dirty_bytes_max, count=len(entries),
        )  # fmt: skip
        self.model, self.frozen = dict(entries), dict(entries)
        self.writing = self.loading = None

    def read(self, cids):
        return {cid: self.blocks[cid] for cid in cids}

    def run(self, walk):
        return drive(walk, self.nodes, self.read)

    @rule(key=KEYS, entry=ENTRIES)
    def put(self, key, entry):
        self.live.put(key, entry)
        self.model[key] = entry

    @rule(key=KEYS)
    def delete(self, key):
        self.live.delete(key)
        self.model.pop(key, None)

    @rule(keys=st.lists(KEYS, max_size=10))
    def load(self, keys):
        assert self.run(self.live.load(keys)) == {key: self.model.get(key) for key in keys}

    @rule(key=KEYS)
    def look(self, key):
        found = self.live.cached(key)
        assert found is MISSING or found == self.model.get(key)

    @rule(key=KEYS, entry=ENTRIES)
    def load_then_put(self, key, entry):
        self.run(self.live.load([key]))
        self.put(key, entry)

    @precondition(lambda self: self.loading is None)
    @rule(keys=st.lists(KEYS, min_size=1, max_size=10))
    def begin_load(self, keys):
        self.loading = (keys, self.live.load(keys))
        self.go_on_loading()

    @precondition(lambda self: self.loading is not None)
    @rule()
    def go_on_loading(self):
        keys, walk = self.loading
        try:
            step = next(walk)
        except StopIteration as end:
            self.loading, found = None, end.value
        else:
            self.nodes.add(self.read(step.cids))
            return
        assert found == {key: self.model.get(key) for key in keys}

    @rule()
    def freeze(self):
        self.live.freeze()
        self.frozen = dict(self.model)

    @precondition(lambda self: self.writing is None)
    @rule(slice_nodes=st.sampled_from([1, 3, 100]))
    def begin_to_materialise(self, slice_nodes):
        self.target = dict(self.frozen)
        self.writing = self.live.materialise(slice_nodes)
        self.go_on_materialising(1)

    @precondition(lambda self: self.writing is not None)
    @rule(steps=st.integers(1, 30))
    def go_on_materialising(self, steps):
        for _ in range(steps):
            try:
                step = next(self.writing)
            except StopIteration as end:
                self.finish(end.value)
                return
            if isinstance(step, Need):
                self.nodes.add(self.read(step.cids))
            else:
                self.blocks.update(step.blocks)
                step.blocks.clear()

    def finish(self, done):
        self.writing = None
        self.blocks.update(done.blocks)
        self.nodes.unpin(done.blocks)
        fresh = drive(
            update(None, {k: list(v) for k, v in self.target.items()}, Nodes(0), CELLS), Nodes(0), dict
        )
        assert done.root == self.live.root == fresh.root
        assert self.run(check(done.root, self.nodes, CELLS)) == len(self.target)

    @precondition(lambda self: self.writing is not None)
    @rule()
    def abandon_materialising(self):
        self.writing.close()
        self.writing = None

    @rule()
    def evict(self):
        self.nodes.evict()

    @rule(begin=KEYS, end=st.none() | KEYS, limit=st.sampled_from([1, 3, 500]))
    def scan(self, begin, end, limit):
        seen, low = [], begin
        while low is not None:
            page = self.run(self.live.scan(low, end, limit))
            assert len(page.entries) <= limit
            seen += page.entries
            low = page.next
        inside = [key for key in sorted(self.model) if begin <= key and (end is None or key < end)]
        assert seen == [(key, self.model[key]) for key in inside]

    @rule()
    def count(self):
        assert self.run(self.live.count()) == len(self.model)

    @invariant()
    def budget_holds(self):
        if hasattr(self, "live"):
            assert self.live.dirty_bytes <= self.dirty_bytes_max + LOOKED_AT_MAX

    def teardown(self):
        if not hasattr(self, "live"):
            return
        if self.writing is not None:
            self.writing.close()
        self.live.freeze()
        self.target = self.model
        self.finish(self.run(self.live.materialise()))
        assert self.run(self.live.load(list(self.model))) == self.model
        assert self.scratch.slots == {}
        assert self.live.dirty_bytes == 0


TestLiveIndex = LiveIndexMachine.TestCase
TestLiveIndex.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)
