"""Random worlds against the model: whatever is done to a world, every frame holds what the rules say.

After each rule the frame's records, the outcomes, all cells, the ring, what is pending, timers, stopped cells
and dead letters are compared with `tests.support.kernel_model`. At the end the journal must restore to
identical bytes from every snapshot, and verify. `CELLULE_EXAMPLES` sets the number of histories.
"""

from __future__ import annotations

import os
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cellule.kernel.decide import steps
from cellule.kernel.decide.beat import Pace
from cellule.kernel.index.keys import pair_of
from cellule.kernel.items import Admitted, ControlItem, Duplicate, EventItem
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.need import Need, Pause, drive
from cellule.kernel.state import cells, dedupe, snapshot
from cellule.kernel.state import log_state as log
from cellule.kernel.state.module_cells import Budget
from cellule.kernel.world import World
from cellule.testing.entropy import SeededEntropy
from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support import kernel_town as town
from tests.support.kernel_model import ModelWorld
from tests.support.kernel_model_controls import stopped
from tests.support.kernel_told import cell_of, cell_told, records_of
from tests.support.kernel_world import KernelWorld

EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "70"))
STEPS = 40
DEPTH_MAX = 4
SETTLE_MAX = 400

WHO = st.sampled_from(["a", "b", "c"])
KEYS = [b"a", b"b", b"c"]
COUNTS = st.integers(0, 8)
DEEDS = st.sampled_from(
    ["add", "add", "ask", "delete", "grow", "link", "relay", "repeat", "fan", "wrong", "effect", "fail"]
)
IDS = st.sampled_from(["one", "two", b"\x01", UUID(int=7), UUID(int=7).bytes, "x" * 16])
ODD_SCHEMAS = ["town/Lonely@1", "town/Nowhere@1", "sys/WorldStarted@1"]
VERBS = ["cell.resume"] * 4 + ["cell.migrate"] * 4 + ["resume"] * 3 + ["pause", "dance"]
BUDGETS = {
    "plenty": Budget(),
    "little": Budget(hot_cells_max=4, dirty_bytes_max=2_000, nodes_bytes_max=2_000),
    "none": Budget(hot_cells_max=0, dirty_bytes_max=0, nodes_bytes_max=0),
}
EDITIONS = st.builds(
    town.Edition,
    version=st.sampled_from([1, 2]),
    upcasts=st.sampled_from([True, True, False]),
    takes=st.sampled_from(["one", "both", "two"]),
    upcasts_events=st.sampled_from([True, True, False]),
    upgrade=st.sampled_from(["follow", "pin"]),
    failure=st.sampled_from(["halt", "skip"]),
    idle_s=st.sampled_from([None, 30, 100]),
    ttl_s=st.sampled_from([None, 90]),
    mirror=st.booleans(),
)


@st.composite
def events(draw):
    """An event, mostly a good one."""
    kind = draw(st.sampled_from(["do", "do", "do", "do", "do2", "note", "pass", "odd"]))
    key, options = None, {"durable": draw(st.booleans())}
    match kind:
        case "do":
            schema, value = "town/Do@1", {"who": draw(WHO), "do": draw(DEEDS), "n": draw(COUNTS)}
        case "do2":
            schema, value = "town/Do@2", {"who": draw(WHO), "do": draw(DEEDS), "n": draw(COUNTS), "by": "us"}
        case "note":
            schema, value = "town/Note@1", {"who": draw(WHO), "pad": draw(st.sampled_from([-1, 3, 40, 300]))}
        case "pass":
            schema, value = "town/Pass@1", {"left": draw(COUNTS)}
            key = draw(st.sampled_from([*town.RELAYS, None]))
        case _:
            schema, value = draw(st.sampled_from(ODD_SCHEMAS)), {}
            options["system"] = draw(st.booleans())
    if draw(st.integers(0, 3)) == 0:
        options["id"], options["explicit"] = draw(IDS), draw(st.sampled_from([True, True, False]))
    if draw(st.integers(0, 5)) == 0:
        options["expected_version"] = draw(st.integers(0, 3))
        options["expected_born"] = draw(st.sampled_from([None, None, 0, *range(2, 9)]))
    if draw(st.integers(0, 9)) == 0:
        options["correlation"] = "c-17"
    return EventItem(schema, encode(value), key=key, **options)


@st.composite
def controls(draw):
    """An operator's verb, mostly a sensible one; deploys have a rule of their own."""
    verb = draw(st.sampled_from(VERBS))
    arguments = {}
    if verb.startswith("cell.") and draw(st.booleans()):
        arguments["module"] = draw(st.sampled_from(town.BASES))
        if draw(st.booleans()):
            arguments["key"] = draw(st.sampled_from([b"", *KEYS, *town.RELAYS]))
    given = draw(st.one_of(st.none(), IDS))
    return ControlItem(verb, "ada", "because", arguments, durable=draw(st.booleans()), id=given)


ITEMS = st.lists(st.one_of(events(), events(), events(), controls()), max_size=7)


class Scratch:
    """A spill in memory."""

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


class KernelMachine(RuleBasedStateMachine):
    """`kernel` is the world and its host, `model` what it must be, `past` the model after each frame."""

    def __init__(self):
        super().__init__()
        self.kernel = None
        self.writing = None

    @initialize(
        edition=EDITIONS,
        quota=st.sampled_from([1, 2, 5, 1_000]),
        burst=st.sampled_from([1, 2, 64]),
        budget=st.sampled_from(sorted(BUDGETS)),
        seed=st.integers(0, 3),
    )
    def start(self, edition, quota, burst, budget, seed):
        self.kernel = KernelWorld(
            town.document(edition), town.PROGRAMS, seed=seed, pace=Pace(quota, burst),
            budget=BUDGETS[budget], spill=Scratch(),
        )  # fmt: skip
        self.kernel.cas[cid_of(town.BLOB)] = town.BLOB
        self.entropy = SeededEntropy(seed, "kernel world")
        self.model = ModelWorld(
            self.kernel.world_id.bytes, {}, [town.era(edition)], self.kernel.now_ns, quota, burst, DEPTH_MAX
        )
        self.past = [self.model.copy()]
        self.compare(self.model.beat([World.started()], self.kernel.now_ns, self.entropy.bytes(16)), None)

    # Work

    def do(self, items):
        """The same beat in the kernel and in the model."""
        beat = self.kernel.beat(items)
        predicted = self.model.beat(items, self.kernel.now_ns, self.entropy.bytes(16))
        self.compare(predicted, beat)
        return beat

    @rule(items=ITEMS)
    def beat(self, items):
        self.do(items)

    @rule()
    def settle(self):
        for _ in range(SETTLE_MAX):
            if not self.do([]).more:
                return

    @rule(count=st.integers(5, 20), who=WHO)
    def flood(self, count, who):
        value = encode({"who": who, "do": "add", "n": 1})
        self.do([EventItem("town/Do@1", value) for _ in range(count)])

    @rule(who=WHO, n=COUNTS, goes_on=st.booleans())
    def pause_between_emit_and_delivery(self, who, n, goes_on):
        self.do([EventItem("town/Do@1", encode({"who": who, "do": "relay", "n": n}))])
        self.do([ControlItem("pause", "ada", "to look")])
        self.do([])
        if goes_on:
            self.do([ControlItem("resume", "ada", "has looked")])

    @rule(do=DEEDS, n=COUNTS)
    def visit_everyone(self, do, n):
        """Every cell gets something to do: those of older eras too."""
        asked = [EventItem("town/Do@1", encode({"who": who, "do": do, "n": n})) for who in "abc"]
        noted = [EventItem("town/Note@1", encode({"who": who, "pad": 20 * n})) for who in "abc"]
        self.do([*asked, *noted])

    @rule(seconds=st.sampled_from([-5, 20, 100, 400]))
    def wait(self, seconds):
        self.kernel.now_ns += seconds * town.SECOND_NS
        self.do([])

    @rule(edition=EDITIONS, around=ITEMS, position=st.integers(0, 7), durable=st.booleans())
    def deploy(self, edition, around, position, durable):
        manifest = load_manifest(town.document(edition))
        self.kernel.cas[manifest.cid] = manifest.data
        link = Link(manifest.cid)
        self.model.manifests[link] = town.era(edition)
        item = ControlItem("deploy", "ada", "a new edition", {"manifest": link}, durable=durable)
        self.do([*around[:position], item, *around[position:]])

    @rule()
    def let_everything_run(self):
        """What an operator does after a fix: go on, migrate, resume; each in a beat of its own."""
        for verb in ("resume", "cell.migrate", "cell.resume"):
            self.do([ControlItem(verb, "ada", "after the fix")])

    @rule()
    def evict(self):
        self.kernel.world.ledger.nodes.evict()

    # Snapshots

    @precondition(lambda self: self.writing is None)
    @rule(noted=st.booleans())
    def snapshot(self, noted):
        root = self.kernel.snapshot()
        if noted:
            height = self.kernel.snapshots[-1][0]
            arguments = {"height": height, "snapshot": Link(root)}
            self.do([ControlItem(verb, "host", "", arguments) for verb in ("snapshot", "baseline")])

    @precondition(lambda self: self.writing is None)
    @rule()
    def begin_snapshot(self):
        self.writing = (self.kernel.world.snapshot(), len(self.kernel.frames))

    @precondition(lambda self: self.writing is not None)
    @rule(count=st.integers(1, 4))
    def write_slices(self, count):
        job, frames = self.writing
        for _ in range(count):
            answer = self.kernel.world.snapshot_slice()
            if isinstance(answer, Need):
                self.kernel.world.ledger.nodes.add(self.kernel.fetch(answer.cids))
            elif not isinstance(answer, Pause):
                self.kernel.cas.update(job.blocks)
                job.saved()
                self.kernel.snapshots.append((job.height, answer, frames))
                self.writing = None
                return

    # Crashes

    @rule(lost=st.integers(0, 2), start=st.integers(0, 9), budget=st.sampled_from(sorted(BUDGETS)))
    def crash(self, lost, start, budget):
        """The world in memory is gone, and the newest frames were not durable."""
        kernel = self.kernel
        kept = max(1, len(kernel.frames) - lost)
        del kernel.frames[kept:], self.past[kept + 1 :]
        kernel.snapshots = [saved for saved in kernel.snapshots if saved[2] <= kept]
        kernel.budget = BUDGETS[budget]
        self.writing = None
        self.model = self.past[kept].copy()
        kernel.world = kernel.restored(start % len(kernel.snapshots))
        self.compare_worlds()

    @rule(items=ITEMS)
    def lose_a_beat(self, items):
        """The beat was under way, or done in memory; nothing of it was committed."""
        kernel = self.kernel
        kernel.world.beat(items, kernel.now_ns, bytes(16))
        self.writing = None
        kernel.world = kernel.restored(len(kernel.snapshots) - 1)
        self.compare_worlds()

    def teardown(self):
        if self.kernel is None:
            return
        while self.writing is not None:
            self.write_slices(4)
        self.kernel.assert_replays()

    # Comparing

    def compare(self, predicted, beat):
        """Compare a beat; the first one of a world was done when it was made, and only its frame is known."""
        if predicted.records:
            self.past.append(self.model.copy())
        assert len(self.kernel.frames) == len(self.past) - 1
        if predicted.records:
            assert records_of(self.kernel, self.kernel.frames[-1]) == predicted.records
        if beat is not None:
            note(f"beat {self.model.beats}: {beat.outcomes} {beat.steps}")
            assert (beat.frame is None) == (not predicted.records)
            assert [outcome_of(outcome) for outcome in beat.outcomes] == predicted.outcomes
            assert (beat.wake, beat.more) == (predicted.wake, predicted.more)
            stepped = [told[1:4] for told in predicted.records if told[0] == "step"]
            assert [step[:3] for step in beat.steps] == stepped
        self.compare_worlds()

    def compare_worlds(self):
        kernel, model, ledger = self.kernel, self.model, self.kernel.world.ledger
        assert (ledger.height, ledger.beat, ledger.paused) == (model.height, model.beats, model.paused)
        assert ledger.now_ns == model.now_ns
        for base in town.BASES:
            for key in (b"", *KEYS, *town.RELAYS):
                assert cell_of(kernel, base, key) == cell_told(model, (base, key)), (base, key)
        assert [(slot.cells.base, slot.key) for slot in ledger.ring] == model.ring
        pending = [(message.height, message.depth, targets) for message, targets in ledger.pending]
        assert pending == [(message.height, message.depth, targets) for message, targets in model.pending]
        rows = self.rows(ledger.timers)
        timers = [(pair_of(key), (what, (base, key_of), born)) for key, (what, base, key_of, born) in rows]
        assert timers == sorted(model.timers.items())
        halted = [(base, key) for _, (base, key, _) in self.rows(ledger.stopped)]
        assert halted == stopped(model)
        rows = self.rows(ledger.dead_letters)
        dead = [(pair_of(key)[0], (row.module, row.key), row.message.height, row.code) for key, row in rows]
        assert dead == model.dead_letters
        remembered = ledger.dedupe.count()  # an id that a conflict left unused may be in two buckets
        assert len(model.seen) <= remembered <= len(model.seen) + len(model.conflicts)

    def rows(self, index):
        return drive(index.scan(b"", None, 10_000), self.kernel.world.ledger.nodes, self.kernel.fetch)


def outcome_of(outcome):
    if isinstance(outcome, Admitted):
        return "admitted", outcome.height
    if isinstance(outcome, Duplicate):
        return "duplicate", outcome.height
    return "refused", outcome.error.code


@pytest.fixture
def small_limits(monkeypatch):
    """Formats with many blocks, long chains and closed buckets, without long histories."""
    monkeypatch.setattr(steps, "DEPTH_MAX", DEPTH_MAX)
    monkeypatch.setattr(log, "LOG_CHUNK_BYTES", 500)
    monkeypatch.setattr(cells, "QUEUE_INLINE_MAX", 2)
    monkeypatch.setattr(dedupe, "DEDUPE_BUCKET_IDS", 2)
    monkeypatch.setattr(snapshot, "SLICE_NODES", 1)


def test_random_worlds_do_what_the_model_says(small_limits):
    options = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    run_state_machine_as_test(KernelMachine, settings=options)
