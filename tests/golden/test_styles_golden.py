"""Frozen bytes of what machines, plans and aggregates keep: states and notes of a fixed life of each.

Any difference means that stored cells read otherwise, or that a verification of stored worlds fails.
`styles.json` has, for each step, its state and note as bytes and as what they say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import StepRecord
from cellule.kernel.programs import ProgramKinds
from cellule.modules.aggregate import AggregateKind
from cellule.modules.plan import PlanPrograms
from cellule.values.cbor import decode
from cellule.values.json_view import to_json
from tests.support.fsm_world import machine_world
from tests.support.kernel_world import START_NS, KernelWorld
from tests.support.lives import Life, Passed, Receipt

FROZEN = Path(__file__).with_name("styles.json")
MINUTE = 60 * 10**9
TEXT: dict[str, Any] = {"text": {}}
CHARGE = {
    "schemas": {
        "shop/Charge@1": {"record": {"id": TEXT, "n": {"int": {}}}},
        "shop/Charged@1": {"record": {"ok": TEXT}},
    },
    "effects": {"shop.charge": {"params": "shop/Charge@1", "receipt": "shop/Charged@1"}},
}  # fmt: skip
CONTRACT = """
data: {n: {type: int, default: 0}, who: text}
triggers: {pay: {fields: {n: int}}, charged: {receipt: shop.charge}}
start: place
states:
  - {name: placed, timeout: {after: 5m, trigger: late}}
  - {name: paid, entry: [{effect: shop.charge, params: {id: key, n: data.n}}]}
  - {name: done, entry: [{effect: shop.charge, params: {id: key, n: "0"}}]}
  - gone
transitions:
  - {from: placed, to: paid, trigger: pay, guard: "data.who == 'x'"}
  - {from: placed, to: paid, trigger: pay, set: {n: event.n, who: key}}
  - {from: placed, to: gone, trigger: late}
  - {from: paid, to: done, trigger: charged, guard: event.status == 'ok'}
terminal_states: [done, gone]
"""
PLAN = {
    "schemas": {"shop/Placed@1": {"record": {"id": TEXT, "n": {"int": {}}}}, **CHARGE["schemas"]},
    "effects": CHARGE["effects"],
    "plans": {"shop/flow@1": {"steps": [
        {"id": "sum", "op": "assign", "bind": "n",
         "expr": {"op": "add", "args": [{"ref": "@plan.input.n"}, 1]}},
        {"id": "ask", "op": "emit_effect", "kind": "shop.charge",
         "params": {"record": {"id": {"ref": "@plan.correlation"}, "n": {"ref": "@local.n"}}}},
        {"id": "answer", "op": "await_receipt", "for": "ask"},
        {"id": "more", "op": "await_event", "event": "shop/Word@1"},
        {"id": "end", "op": "end", "result": {"ref": "@step.answer.value.ok"}},
    ]}},
    "triggers": [{"event": "shop/Placed@1", "plan": "shop/flow@1", "correlate_by": "id"}],
}  # fmt: skip
SALES = {
    "schemas": {"shop/Sold@1": {"record": {"id": TEXT, "n": {"dec": {}}, "who": {"option": TEXT}}}},
    "modules": {"shop/sales@1": {
        "style": "aggregate", "state": "sys/Aggregate@1", "context": True, "effects_emitted": ["timer.set"],
        "event": ["shop/Sold@1", "sys/TimerFired@1"],
        "code": {"kind": "aggregate", "batch": 2, "window": {"size_ns": 60 * MINUTE}, "measures": {
            "count": "count", "sum": "sum(n)", "mean": "avg(n)", "least": "min(n)", "most": "max(n)",
            "who": "distinct(who)",
        }},
    }},
    "routing": {"subscriptions": [{"event": "shop/Sold@1", "module": "shop/sales@1", "key_field": "id"}]},
}  # fmt: skip


def machines() -> KernelWorld:
    """Placed, paid and done; late; moved by hand; refused."""
    deeds = [
        [("shop/place@1", {"id": "a"}), ("shop/place@1", {"id": "b"}), ("shop/place@1", {"id": "c"})],
        [("shop/pay@1", {"id": "a", "n": 7})],
        Receipt(0, "ok", {"ok": "yes"}),
        [("shop/order_transition@1", {"id": "c", "from_state": "placed", "to_state": "gone"})],
        [("shop/place@1", {"id": "c"})],
        Passed(6 * MINUTE),
    ]
    world = machine_world(CONTRACT, CHARGE)
    return Life(world, lambda: world.programs).live(deeds).world


def plans() -> KernelWorld:
    """A run that keeps an early word, and another trigger event that changes nothing."""
    document = {**PLAN, "schemas": {**PLAN["schemas"], "shop/Word@1": {"record": {"id": TEXT}}}}
    world = KernelWorld(document, ProgramKinds(PlanPrograms()))
    deeds = [
        [("shop/Placed@1", {"id": "a", "n": 7})], [("shop/Word@1", {"id": "a"})],
        [("shop/Placed@1", {"id": "a", "n": 8})], Receipt(0, "ok", {"ok": "yes"}),
    ]  # fmt: skip
    return Life(world, lambda: world.programs).live(deeds).world


def aggregates() -> KernelWorld:
    """Three items of a window, which ends, and one of the next."""
    world = KernelWorld(SALES, ProgramKinds(AggregateKind()))
    items = [{"id": "a", "n": "3.5", "who": "x"}, {"id": "a", "n": "1"}, {"id": "a", "n": "10", "who": "y"}]
    deeds = [[("shop/Sold@1", each) for each in items], Passed(90 * MINUTE), [("shop/Sold@1", items[0])]]
    return Life(world, lambda: world.programs).live(deeds).world


LIVES = {"machines": machines, "plans": plans, "aggregates": aggregates}


def steps_of(world: KernelWorld) -> Iterator[dict[str, Any]]:
    """State and note of each step, as bytes and as what they say."""
    for frame in world.frames:
        for _, record in decode_frame(frame).of(StepRecord):
            found: dict[str, Any] = {"cell": record.key.decode(), "status": record.status}
            for name, held in (("state", record.state), ("note", record.extras.get("ann"))):
                if isinstance(held, list):
                    found |= {name: held[0].hex(), f"{name} says": to_json(decode(held[0]))}
            yield found


@pytest.mark.parametrize("style", LIVES)
def test_states_and_notes_are_the_frozen_ones(style: str) -> None:
    frozen = json.loads(FROZEN.read_text())[style]
    world = LIVES[style]()
    assert json.loads(json.dumps(list(steps_of(world)))) == frozen
    world.assert_replays()


def test_every_form_of_a_note_is_frozen() -> None:
    notes = [each["note says"] for each in json.loads(FROZEN.read_text())["machines"] if "note says" in each]
    tags = {next(iter(each), "") for note in notes for each in note}
    assert tags == {"$tag", "guard_fault"}
    assert START_NS == 1_700_000_000_000_000_000
