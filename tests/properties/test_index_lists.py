"""Laws of the live view of lists: it agrees with a sorted dict, and its roots with the entries."""

from __future__ import annotations

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from cellule.kernel.index import LISTS, OrderedIndex, update
from cellule.kernel.need import Need, Nodes, drive

KEYS = st.integers(0, 3_000).map(lambda number: number.to_bytes(2, "big"))


class World:
    def __init__(self, bytes_max=0):
        self.blocks = {}
        self.nodes = Nodes(bytes_max)

    def run(self, walk):
        result = drive(walk, self.nodes, lambda cids: {cid: self.blocks[cid] for cid in cids})
        if hasattr(result, "blocks"):
            self.blocks.update(result.blocks)
            self.nodes.unpin(result.blocks)
        return result


def fresh_root(entries):
    return drive(update(None, entries, Nodes(0), LISTS), Nodes(0), dict).root


class OrderedIndexMachine(RuleBasedStateMachine):
    @initialize(
        budget=st.sampled_from([0, 1_000_000]),
        size=st.sampled_from([0, 3, 700]),
        seed=st.integers(0, 1_000),
    )
    def start(self, budget, size, seed):
        self.world = World(budget)
        numbers = Random(seed).sample(range(3_000), size)
        self.model = {number.to_bytes(2, "big"): ["stored", number] for number in numbers}
        root = self.world.run(update(None, self.model, self.world.nodes, LISTS)).root
        self.index = OrderedIndex(root, self.world.nodes, count=size)
        self.frozen, self.writing, self.made = dict(self.model), None, 0

    @rule(key=KEYS)
    def put(self, key):
        self.made += 1
        self.index.put(key, self.made)
        self.model[key] = self.made

    @rule(start=KEYS, count=st.integers(1, 200))
    def insert_many(self, start, count):
        for number in range(count):
            key = start + number.to_bytes(2, "big")
            if key not in self.model:
                self.made += 1
                self.index.insert(key, self.made)
                self.model[key] = self.made

    @rule(key=KEYS)
    def delete(self, key):
        self.index.delete(key)
        self.model.pop(key, None)

    @rule(count=st.integers(1, 150))
    def take_from_the_front(self, count):
        for _ in range(count):
            found = self.world.run(self.index.first())
            assert found == (min(self.model.items()) if self.model else None)
            if found is None:
                return
            self.index.remove(found[0])
            del self.model[found[0]]

    @rule(key=KEYS)
    def get(self, key):
        assert self.world.run(self.index.get(key)) == self.model.get(key)

    @rule(begin=KEYS, end=st.none() | KEYS, limit=st.sampled_from([1, 7, 500]), reverse=st.booleans())
    def scan(self, begin, end, limit, reverse):
        inside = sorted(
            (entry for entry in self.model.items() if begin <= entry[0] and (end is None or entry[0] < end)),
            reverse=reverse, key=lambda entry: entry[0],
        )  # fmt: skip
        assert self.world.run(self.index.scan(begin, end, limit, reverse=reverse)) == inside[:limit]

    @rule()
    def count(self):
        assert self.world.run(self.index.count()) == len(self.model)

    @rule()
    def freeze(self):
        self.index.freeze()
        self.frozen = dict(self.model)

    @precondition(lambda self: self.writing is None)
    @rule(slice_nodes=st.sampled_from([1, 3, 100]))
    def begin_to_materialise(self, slice_nodes):
        self.target = dict(self.frozen)
        self.writing = self.index.materialise(slice_nodes)
        self.go_on_materialising(1)

    @precondition(lambda self: self.writing is not None)
    @rule(steps=st.integers(1, 20))
    def go_on_materialising(self, steps):
        for _ in range(steps):
            try:
                step = next(self.writing)
            except StopIteration as end:
                self.finish(end.value)
                return
            if isinstance(step, Need):
                self.world.nodes.add({cid: self.world.blocks[cid] for cid in step.cids})
            else:
                self.world.blocks.update(step.blocks)
                step.blocks.clear()

    def finish(self, done):
        self.writing = None
        self.world.blocks.update(done.blocks)
        self.world.nodes.unpin(done.blocks)
        assert done.root == self.index.root == fresh_root(self.target)

    @precondition(lambda self: self.writing is not None)
    @rule()
    def abandon_materialising(self):
        self.writing.close()
        self.writing = None

    @rule()
    def evict(self):
        self.world.nodes.evict()

    def teardown(self):
        if not hasattr(self, "index"):
            return
        if self.writing is not None:
            self.writing.close()
        self.index.freeze()
        self.target = self.model
        self.finish(self.world.run(self.index.materialise()))
        assert self.world.run(self.index.scan(b"", None, 10_000)) == sorted(self.model.items())[:10_000]


TestOrderedIndex = OrderedIndexMachine.TestCase
TestOrderedIndex.settings = settings(deadline=None, max_examples=40, stateful_step_count=30)
