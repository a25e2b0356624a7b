"""The short ways are no rules: with and without `fast`, the same items give the same bytes and outcomes."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cellule.kernel.decide import rounds
from cellule.kernel.fast import batch, columns, steps, ways
from cellule.kernel.items import ControlItem, EventItem, Pace
from cellule.testing.entropy import SeededEntropy
from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from tests.support import kernel_town as town
from tests.support.kernel_history import NOTHING, Scratch
from tests.support.kernel_world import KernelWorld

EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "25"))
DEEDS = ("add",) * 8 + ("ask", "delete", "grow", "link", "relay", "fan", "wrong", "fail")


class Pair:
    """Two worlds of one town, of which the second knows no short way."""

    def __init__(self, chance):
        pace = Pace(chance.choice((5, 1_000)), chance.choice((1, 64)))
        edition = town.Edition(
            takes=chance.choice(("one", "both")), upgrade=chance.choice(("pin", "follow")),
            failure=chance.choice(("halt", "skip")), idle_s=chance.choice((None, None, 50)), mirror=False,
        )  # fmt: skip
        budget = {"budget": NOTHING, "spill": Scratch()} if chance.chance(0.3) else {}
        self.worlds = [
            KernelWorld(town.document(edition), town.PROGRAMS, pace=pace, **options)
            for options in (budget, {"fast": False})
        ]
        for world in self.worlds:
            world.cas[cid_of(town.BLOB)] = town.BLOB
        self.met = Counter()

    def both(self, act):
        """Do the same with both worlds; they must answer the same."""
        fast, general = self.worlds
        return act(fast), act(general)

    def beat(self, items):
        fast, general = self.both(lambda world: world.beat(items))
        assert general.batch is None
        assert fast.frame == general.frame
        assert told(fast) == told(general)
        assert len(fast.outcomes) == len(items)
        assert fast.steps == general.steps
        counted, counted_generally = self.both(lambda world: world.world.frame_size)
        assert counted == counted_generally
        assert (fast.more, fast.wake, fast.first, fast.last) == (
            general.more, general.wake, general.first, general.last,
        )  # fmt: skip
        if items and fast.batch is None:
            self.met["left"] += 1
        elif items:
            self.met["batch" if fast.batch.records is None else "complete"] += 1


def told(beat):
    """What is said of each item: its height, or what is wrong with it."""
    return [(type(each), *map(repr, each[:1])) for each in beat.outcomes]


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


def live(seed, beats=30):
    chance = SeededEntropy(seed, "lane")
    pair = Pair(chance)
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
    fast, general = pair.both(KernelWorld.snapshot)
    assert fast == general
    for world in pair.worlds:
        world.assert_replays()
    return pair


@settings(
    max_examples=EXAMPLES, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
@given(seed=st.integers(0, 2**32))
@example(seed=5013)  # events for the queue of a stopped cell, beside others that all step
def test_the_short_ways_change_no_byte(seed):
    live(seed)


@pytest.mark.parametrize("full", [400, 4_000])
def test_a_full_frame_is_closed_at_the_same_step(full, monkeypatch):
    monkeypatch.setattr(rounds, "FRAME_BYTES_CLOSE", full)
    monkeypatch.setattr(steps, "FRAME_BYTES_CLOSE", full)
    monkeypatch.setattr(ways, "FRAME_BYTES_CLOSE", full)
    for seed in range(4):
        live(seed)


def test_events_beyond_a_full_frame_wait_for_the_next(monkeypatch):
    for module in (
        "cellule.kernel.decide.admission",
        "cellule.kernel.fast.batch",
        "cellule.kernel.fast.columns",
    ):
        monkeypatch.setattr(f"{module}.FRAME_BYTES_ADMIT", 900)
    for seed in range(4):
        live(seed)


def test_every_way_is_met(monkeypatch):
    together = []
    lay = columns.lay_columns

    def noted(*arguments):
        rows = lay(*arguments)
        together.append(rows is not None)
        return rows

    monkeypatch.setattr(batch, "lay_columns", noted)
    met = Counter()
    for seed in range(10):
        met += live(seed).met
    assert min(met[way] for way in ("left", "batch", "complete")) > 5, met
    assert 5 < sum(together) < len(together) - 5
