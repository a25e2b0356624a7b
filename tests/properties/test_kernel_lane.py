"""The lane is a way, not a rule: with it and without it, the same items give the same bytes and outcomes."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cellule.kernel.decide import rounds
from cellule.kernel.decide.rounds import Pace
from cellule.kernel.fast import batch as lane
from cellule.kernel.fast import columns
from cellule.kernel.fast import steps as walk
from cellule.kernel.items import ControlItem, EventItem
from cellule.testing.entropy import SeededEntropy
from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from tests.support import kernel_town as town
from tests.support.kernel_history import NOTHING, Scratch
from tests.support.kernel_world import KernelWorld

EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "25"))
DEEDS = ("add",) * 8 + ("ask", "delete", "grow", "link", "relay", "fan", "wrong", "fail")


class Pair:
    """Two worlds of one town, of which the second knows no lane."""

    def __init__(self, chance, monkeypatch):
        self._lane, self._monkeypatch = lane.FastBatch.admit, monkeypatch
        pace = Pace(chance.choice((5, 1_000)), chance.choice((1, 64)))
        edition = town.Edition(
            takes=chance.choice(("one", "both")), upgrade=chance.choice(("pin", "follow")),
            failure=chance.choice(("halt", "skip")), idle_s=chance.choice((None, None, 50)), mirror=False,
        )  # fmt: skip
        budget = {"budget": NOTHING, "spill": Scratch()} if chance.chance(0.3) else {}
        self.worlds = [
            KernelWorld(town.document(edition), town.PROGRAMS, pace=pace, **options)
            for options in (budget, {})
        ]
        for world in self.worlds:
            world.cas[cid_of(town.BLOB)] = town.BLOB
        self.met = Counter()

    def both(self, act):
        """Do the same with both worlds; they must answer the same."""
        laned = act(self.worlds[0])
        self._monkeypatch.setattr(lane.FastBatch, "admit", no_lane)
        plain = act(self.worlds[1])
        self._monkeypatch.setattr(lane.FastBatch, "admit", self._lane)
        return laned, plain

    def beat(self, items):
        laned, plain = self.both(lambda world: world.beat(items))
        assert laned.frame == plain.frame
        assert told(laned) == told(plain)
        assert len(laned.outcomes) == len(items)
        assert laned.steps == plain.steps
        assert (laned.more, laned.wake, laned.first, laned.last) == (
            plain.more, plain.wake, plain.first, plain.last,
        )  # fmt: skip
        if items and laned.laid is None:
            self.met["left"] += 1
        elif items:
            self.met["laid" if laned.laid.records is None else "straight"] += 1


def told(beat):
    """What is said of each item: its height, or what is wrong with it."""
    return [(type(each), *map(repr, each[:1])) for each in beat.outcomes]


def no_lane(self, items):
    yield from ()
    return 0


def item(chance, names):
    value = {"who": f"c{chance.below(names)}", "do": chance.choice(DEEDS), "n": chance.below(9)}
    if chance.chance(0.02):
        return ControlItem("cell.resume", "ada", "as planned", {}, durable=True)
    schema = "town/Do@1"
    if chance.chance(0.03):
        schema, value = "town/Note@1", {"who": value["who"], "pad": 10}
    if chance.chance(0.02):
        value = {"do": "no one is named"}
    if chance.chance(0.1):
        return EventItem(schema, encode(value), id=f"id-{chance.below(60)}", explicit=True)
    if chance.chance(0.3):
        return EventItem(schema, encode(value))
    return schema, encode(value), value if chance.chance(0.5) else None


def live(seed, monkeypatch, beats=30):
    chance = SeededEntropy(seed, "lane")
    pair = Pair(chance, monkeypatch)
    for _ in range(beats):
        names, quiet = chance.choice((4, 40, 400)), chance.chance(0.4)
        items = [item(chance, names) for _ in range(chance.choice((0, 1, 3, 12, 40)))]
        if quiet:  # what a world under load sees
            values = [
                {"who": f"q{at % names}", "do": "add", "n": 1} for at in range(chance.choice((1, 8, 40)))
            ]
            items = [("town/Do@1", encode(value), value) for value in values]
            pair.both(KernelWorld.settle)
        pair.beat(items)
        for world in pair.worlds:
            world.now_ns += 20 * town.SECOND_NS
        if chance.chance(0.15):
            pair.both(KernelWorld.snapshot)
        if chance.chance(0.1):
            for world in pair.worlds:
                world.world.ledger.nodes.evict()
                world.world = world.restored(len(world.snapshots) - 1)
    laned, plain = pair.both(KernelWorld.snapshot)
    assert laned == plain
    for world in pair.worlds:
        world.assert_replays()
    return pair


@settings(
    max_examples=EXAMPLES, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(seed=st.integers(0, 2**32))
@example(seed=5013)  # events for the queue of a stopped cell, beside others that all step
def test_the_lane_changes_no_byte(seed, monkeypatch):
    live(seed, monkeypatch)


@pytest.mark.parametrize("full", [400, 4_000])
def test_a_full_frame_is_closed_at_the_same_step(full, monkeypatch):
    monkeypatch.setattr(rounds, "FRAME_BYTES_CLOSE", full)
    monkeypatch.setattr(walk, "FRAME_BYTES_CLOSE", full)
    for seed in range(4):
        live(seed, monkeypatch)


def test_events_beyond_a_full_frame_wait_for_the_next(monkeypatch):
    for module in (
        "cellule.kernel.decide.admission",
        "cellule.kernel.fast.batch",
        "cellule.kernel.fast.columns",
    ):
        monkeypatch.setattr(f"{module}.FRAME_BYTES_ADMIT", 900)
    for seed in range(4):
        live(seed, monkeypatch)


def test_every_way_is_met(monkeypatch):
    together = []
    lay = columns.lay_columns

    def noted(*arguments):
        laid = lay(*arguments)
        together.append(laid is not None)
        return laid

    monkeypatch.setattr(lane, "lay_columns", noted)
    met = Counter()
    for seed in range(10):
        met += live(seed, monkeypatch).met
    assert min(met[way] for way in ("left", "laid", "straight")) > 5, met
    assert 5 < sum(together) < len(together) - 5
