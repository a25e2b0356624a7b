"""Plain requests and receipts have a short way: whatever it takes, it writes what the general way writes.

Random histories of a bank run twice, with and without `fast`. Frames, what left and the state at the
end must be the same bytes. `CELLULE_EXAMPLES` sets the number of histories.
"""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.kernel.fast import intents as fast_intents
from cellule.kernel.items import EventItem, Pace, ReceiptItem
from cellule.values.cbor import encode
from tests.support.kernel_bank import CHARGE, HOUR, PROGRAMS, SECOND, TIMER, Edition
from tests.support.kernel_world import KernelWorld

EXAMPLES = int(os.environ.get("CELLULE_EXAMPLES", "60"))

EDITIONS = st.builds(
    Edition,
    open_max=st.sampled_from([2, 5, 10_000, 10_000]),
    policy=st.sampled_from(["none", "none", "ask", "deny", "micro"]),
    budget=st.sampled_from([None, None, 3]),
)
PARAMS = st.sampled_from([
    {"amount": 1}, {"amount": 50}, {"amount": 2, "pad": "x" * 2_000}, {"amount": 3, "pad": "\ud7ff*"},
])  # fmt: skip
ASKS = st.one_of(
    st.tuples(st.just(CHARGE), PARAMS, st.sampled_from([None, None, "pay"]), st.just(None)),
    st.tuples(st.just(CHARGE), PARAMS, st.just(None), st.sampled_from([None, "k1"])),
    st.tuples(
        st.just(TIMER),
        st.sampled_from([{"after_ns": SECOND}, {"after_ns": SECOND, "key": "t"}]),
        st.just(None),
        st.just(None),
    ),
)
EVENTS = st.builds(
    lambda order, asks, delete, cancel: {
        "order": order, "asks": [list(ask) for ask in asks], "delete": delete, "cancel": cancel,
    },
    st.sampled_from("abcd"), st.lists(ASKS, max_size=3), st.sampled_from([False] * 8 + [True]),
    st.sampled_from([False] * 4 + [["t"], ["t", "k1"]]),
)  # fmt: skip
VALUES = st.sampled_from([
    encode({"id": "r"}), encode({"id": "r"}), encode({"id": "*" * 2_000}), encode({"id": 7}), b"\xff",
    encode(None), None,
])  # fmt: skip
RECEIPTS = st.tuples(
    st.integers(0, 30), st.sampled_from(["ok", "ok", "ok", "failed"]), VALUES, st.sampled_from(["", "key"]),
    st.sampled_from([None, None, None, "ada"]),
)  # fmt: skip
TURNS = st.tuples(
    st.lists(EVENTS, max_size=4), st.lists(RECEIPTS, max_size=4), st.sampled_from([0, SECOND, HOUR])
)


def lived(edition, quota, turns, *, fast=True):
    """The history of a bank: its world, and what each beat told."""
    world = KernelWorld(edition.document(), PROGRAMS, pace=Pace(quota, 64), fast=fast)
    left, out = [], []
    for events, receipts, ns in turns:
        items = [
            EventItem("bank/Ask@1", encode({name: each for name, each in event.items() if each is not False}))
            for event in events
        ]
        for at, status, value, by, who in receipts if out else ():
            opening = out[at % len(out)]
            items.append(ReceiptItem(opening.intent, opening.height, status, value, by=by, who=who))
        beat = world.beat(items)
        outcomes = [type(each) for each in beat.outcomes]
        left.append((beat.opened, beat.closed, beat.step_rows, outcomes, world.world.frame_size))
        out += beat.opened
        world.now_ns += ns
    world.settle()
    return world, left


@settings(max_examples=EXAMPLES, deadline=None)
@given(edition=EDITIONS, quota=st.sampled_from([2, 1_000]), turns=st.lists(TURNS, min_size=1, max_size=12))
def test_both_ways_write_the_same(edition, quota, turns):
    quick, left = lived(edition, quota, turns)
    general, left_generally = lived(edition, quota, turns, fast=False)
    assert quick.frames == general.frames
    assert left == left_generally
    assert quick.snapshot() == general.snapshot()
    quick.assert_replays()


def test_the_short_ways_are_taken(monkeypatch):
    """A comparison of a way with itself would prove nothing."""
    taken = []
    for name in ("_open", "_settle"):
        whole = getattr(fast_intents, name)
        monkeypatch.setattr(
            fast_intents, name, lambda *a, whole=whole, name=name: taken.append(name) or whole(*a)
        )
    event = {"order": "a", "asks": [[CHARGE, {"amount": 1}, None, None]], "delete": False}
    receipt = (0, "ok", encode({"id": "r"}), "key", None)
    lived(Edition(budget=None), 1_000, [([event], [], 0), ([], [receipt], 0), ([event], [], 0)])
    assert taken == ["_open", "_settle", "_open"]
