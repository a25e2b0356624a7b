"""Walks that are found by trying a machine: what they are made of, and where the search ends."""

from __future__ import annotations

from typing import Any

import pytest

from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.need import Nodes, drive
from cellule.modules.fsm import FsmPrograms, trails, trial
from cellule.modules.fsm.program import FsmProgram
from cellule.modules.fsm.read import read_contract
from cellule.modules.fsm.trails import Explorer, Trails
from cellule.modules.fsm.trial import Deed, Trial
from cellule.values import decode
from tests.support.fsm_world import machine_world
from tests.support.kernel_world import START_NS
from tests.unit.modules.fsm.test_machine import EFFECTS, ORDER


def found_in(text: str, extras: Any = None) -> Trails:
    world, nodes = machine_world(text, extras), Nodes(0)
    manifest = load_manifest(decode(next(iter(world.cas.values()))))
    module = manifest.modules["shop/order"]
    program = drive(FsmPrograms().program(manifest, module, nodes), nodes, world.fetch)
    assert isinstance(program, FsmProgram)
    contract = read_contract(text.encode(), "order.fsm.yaml")
    return Explorer(Trial(contract, program, manifest, module, b"o1", START_NS)).walks()


def test_a_walk_has_the_values_the_guards_let_pass_the_receipts_and_the_time():
    found = found_in(ORDER, EFFECTS)
    assert found.missed == []
    walks = {f"{each.source} {each.trigger} {each.target}": walk for each, walk in found.transitions}
    assert not any(walk.by_hand for walk in walks.values())
    place = Deed("sent", "shop/place@1", {"order_id": "o1"})
    assert walks["placed too_late cancelled"].deeds == (place, Deed("waited", "", 30 * 60 * 10**9))
    paid = walks["paid charged done"]
    assert paid.states == ("placed", "paid", "done")
    assert paid.deeds[1].value["amount"] in range(10, 1_000)
    assert paid.deeds[2] == Deed("answered", "shop.charge", {"ok": True})


def test_paths_meet_no_state_twice_and_end_where_nothing_leads_on():
    ends = [walk.states for walk in found_in(ORDER, EFFECTS).paths]
    assert sorted(set(ends)) == [("placed", "cancelled"), ("placed", "paid", "done")]


def test_what_is_not_possible_is_every_event_that_a_state_does_not_take():
    found = found_in(ORDER, EFFECTS).refused
    tried = {(walk.states[-1], deed.name) for walk, deed in found}
    assert ("placed", "shop/place@1") in tried
    assert ("cancelled", "shop/pay@1") in tried
    assert ("placed", "shop/pay@1") not in tried


FAR = """data: {n: {type: int, default: 0}}
states: [a, b]
transitions:
  - {from: a, to: b, trigger: go, guard: data.n > 1000000}
  - {from: a, to: a, trigger: go, set: {n: data.n + 1}}
terminal_states: [b]
"""


@pytest.fixture
def soon_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that ends after 200 steps."""
    for module in (trial, trails):
        monkeypatch.setattr(module, "TRIES_MAX", 200)


@pytest.mark.usefixtures("soon_over")
def test_a_state_that_is_too_far_to_walk_to_is_reached_by_hand():
    found = found_in(FAR)
    (first, walk), _ = found.transitions
    assert (first.target, walk.by_hand, found.missed) == ("b", True, [])


@pytest.mark.usefixtures("soon_over")
def test_a_transition_whose_effects_cannot_be_asked_for_by_hand_is_missed():
    text = FAR.replace(
        "states: [a, b]", "states: [a, {name: b, entry: [{effect: shop.log, params: {text: data.who}}]}]"
    )
    found = found_in(text.replace("data: {n:", "data: {who: text, n:"), EFFECTS)
    assert [(each.source, each.target) for each in found.missed] == [("a", "b")]
