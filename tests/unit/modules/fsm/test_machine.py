"""Machines in worlds: transitions, guards, assignments, effects, timeouts, refusals, notes, moves by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cellule.errors import Rejected
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import EmittedRecord, IntentRecord
from cellule.kernel.manifest.load import load_manifest
from cellule.kernel.need import Nodes, drive
from cellule.kernel.programs import load_all
from cellule.modules.fsm import state_changes
from cellule.values import decode
from cellule.values.schema.scalars import EPOCH
from tests.support.fsm_world import machine_world, notes, refusals, steps
from tests.support.kernel_world import KernelWorld
from tests.unit.modules.fsm.test_contract import SEED

MINUTE = 60 * 10**9
ORDER = """
key: order_id
data:
  total: {type: int, default: 0}
  payer: text
  paid_at: time
triggers:
  pay: {fields: {amount: int, payer: text}}
  charged: {receipt: shop.charge}
start: place
states:
  - name: placed
    timeout: {after: 30m, trigger: too_late}
    exit: [{effect: shop.log, params: {text: "'left ' + data.state"}}]
  - {name: paid, entry: [{effect: shop.charge, params: {order: key, amount: data.total}, key: "'charge'"}]}
  - {name: done, entry: [{effect: shop.log, params: {text: "'entered'"}}]}
  - cancelled
transitions:
  - {from: placed, to: placed, trigger: pay, guard: event.amount < 10, set: {total: event.amount}}
  - from: placed
    to: paid
    trigger: pay
    guard: event.amount < 1000
    set: {total: data.total + event.amount, payer: event.payer, paid_at: now_ns}
  - {from: placed, to: cancelled, trigger: too_late}
  - {from: placed, to: cancelled, trigger: cancel}
  - {from: paid, to: done, trigger: charged}
terminal_states: [done, cancelled]
"""
TEXT: dict[str, Any] = {"text": {}}
EFFECTS = {
    "schemas": {
        "shop/Charge@1": {"record": {"order": TEXT, "amount": {"int": {}}}},
        "shop/Charged@1": {"record": {"ok": {"bool": {}}}},
        "shop/Log@1": {"record": {"text": TEXT}},
        "shop/Nothing@1": {"record": {}},
    },
    "effects": {
        "shop.charge": {"params": "shop/Charge@1", "receipt": "shop/Charged@1"},
        "shop.log": {"params": "shop/Log@1", "receipt": "shop/Nothing@1"},
    },
}  # fmt: skip


@pytest.fixture(params=[True, False], ids=["fast", "general"])
def world(request) -> Any:
    """The order machine, by both ways of the kernel; replayed and verified at the end."""
    found = machine_world(ORDER, EFFECTS, fast=request.param)
    yield found
    found.assert_replays()


def sent(world: KernelWorld, trigger: str, key: str = "o1", **fields: Any) -> Any:
    world.send(f"shop/{trigger}@1", {"order_id": key, **fields})
    world.settle()
    return world.state("shop/order", key.encode())


def asked(world: KernelWorld) -> list[tuple[str, Any]]:
    """The intents of the journal: kind and params."""
    return [
        (record.kind, decode(record.params[0]))
        for frame in world.frames
        for record in decode_frame(frame).records
        if isinstance(record, IntentRecord)
    ]


def test_the_seeds_machine_runs_from_pending_to_completed():
    world = machine_world(SEED)
    for trigger, state in (("start_processing", "PROCESSING"), ("processing_complete", "COMPLETED")):
        world.send(f"shop/{trigger}@1", {"id": "w"})
        world.settle()
        assert world.state("shop/order", b"w") == {"state": state}
    world.assert_replays()


def test_guards_choose_in_the_order_of_the_file_and_assignments_read_the_state_before(world):
    assert sent(world, "place") == {"state": "placed", "total": 0, "visit": 0}
    assert sent(world, "pay", amount=5, payer="ada") == {"state": "placed", "total": 5, "visit": 1}
    now = world.now_ns
    assert sent(world, "pay", amount=70, payer="bob") == {
        "state": "paid", "total": 75, "payer": "bob", "paid_at": now, "visit": 2,
    }  # fmt: skip


def test_exit_and_entry_effects_are_asked_for_in_that_order_with_the_state_they_belong_to(world):
    sent(world, "place")
    sent(world, "pay", amount=70, payer="bob")
    assert [each for each in asked(world) if each[0] != "timer.set"] == [
        ("shop.log", {"text": "left placed"}), ("shop.charge", {"order": "o1", "amount": 70}),
    ]  # fmt: skip


def test_an_invalid_event_changes_nothing_and_is_recorded_with_state_trigger_and_what_is_allowed(world):
    sent(world, "place")
    before = world.entry("shop/order", b"o1")
    assert sent(world, "place") == {"state": "placed", "total": 0, "visit": 0}
    assert sent(world, "pay", amount=5000, payer="x") == {"state": "placed", "total": 0, "visit": 0}
    after = world.entry("shop/order", b"o1")
    assert before is not None
    assert after is not None
    assert before.version == after.version
    (code, first), (_, second) = refusals(world)
    assert code == "fsm.transition_invalid"
    assert first.startswith("order is in placed, where place is not possible. Possible are: pay -> placed, ")
    assert "no guard of pay holds (event.amount < 10; event.amount < 1000)" in second


def test_a_refused_first_event_makes_no_cell():
    world = machine_world(SEED)
    world.send("shop/processing_complete@1", {"id": "w"})
    world.settle()
    assert world.state("shop/order", b"w") is None
    assert refusals(world)[0][1] == (
        "order is in PENDING, where processing_complete is not possible. "
        "Possible are: start_processing -> PROCESSING, initialization_failed -> FAILED."
    )
    world.assert_replays()


def test_a_timeout_moves_the_machine_and_only_when_it_is_still_there(world):
    sent(world, "place", "late")
    sent(world, "place", "paid")
    sent(world, "pay", "paid", amount=70, payer="x")
    world.advance(29 * MINUTE)
    assert world.state("shop/order", b"late")["state"] == "placed"
    world.advance(2 * MINUTE)
    assert world.state("shop/order", b"late")["state"] == "cancelled"
    assert world.state("shop/order", b"paid")["state"] == "paid"
    assert refusals(world) == []


def test_each_visit_has_a_timeout_of_its_own(world):
    sent(world, "place")
    world.advance(20 * MINUTE)
    sent(world, "pay", amount=5, payer="ada")
    world.advance(20 * MINUTE)
    assert world.state("shop/order", b"o1")["state"] == "placed"
    world.advance(11 * MINUTE)
    assert world.state("shop/order", b"o1")["state"] == "cancelled"


def test_a_timeout_may_be_a_moment_that_the_data_names():
    text = "data: {until: time}\ntriggers: {open: {fields: {until: time}}}\n"
    text += "states: [new, {name: open, timeout: {at: data.until, trigger: end}}, over]\ntransitions:\n"
    text += "  - {from: new, to: open, trigger: open, set: {until: event.until}}\n"
    text += "  - {from: open, to: over, trigger: end}\nterminal_states: [over]\n"
    world = machine_world(text)
    world.send("shop/open@1", {"id": "a", "until": world.now_ns + MINUTE})
    world.advance(MINUTE - 1)
    assert world.state("shop/order", b"a")["state"] == "open"
    world.advance(2)
    assert world.state("shop/order", b"a")["state"] == "over"
    world.assert_replays()


def test_the_note_of_a_step_is_the_typed_record_and_gives_the_history():
    world = machine_world(SEED)
    world.send("shop/start_processing@1", {"id": "w"})
    world.send("shop/processing_failed@1", {"id": "w"})
    world.settle()
    first, second = notes(world)
    assert [each["$tag"] for each in first] == ["fsm_state_initialized", "fsm_state_transitioned"]
    assert second[0]["$value"] == {
        "machine": "order", "from_state": "PROCESSING", "to_state": "FAILED", "trigger": "processing_failed",
    }  # fmt: skip
    versions = [SimpleNamespace(ann=note, at=EPOCH, height=at) for at, note in ((20, second), (10, first))]
    found = state_changes(versions)
    assert [each[:3] for each in found] == [
        (None, "PENDING", "start_processing"), ("PENDING", "PROCESSING", "start_processing"),
        ("PROCESSING", "FAILED", "processing_failed"),
    ]  # fmt: skip
    assert [each.height for each in found] == [10, 10, 20]


def test_each_transition_of_a_contract_on_one_line_has_a_note_of_its_own():
    """Notes were remembered by line, so all transitions from a state had that of the first one taken."""
    text = '{"states": ["a", "b", "c"], "terminal_states": ["c"], "transitions": [{"from": "a", "to": "b", '
    text += '"trigger": "go"}, {"from": "b", "to": "a", "trigger": "go"}, {"from": "b", "to": "c", '
    text += '"trigger": "end"}]}'
    world = machine_world(text)
    for trigger in ("go", "go", "go", "end"):
        world.send(f"shop/{trigger}@1", {"id": "w"})
    assert [each[-1]["$value"]["to_state"] for each in notes(world)] == ["b", "a", "b", "c"]
    world.assert_replays()


def test_announced_records_are_events_with_key_and_time():
    world = machine_world(SEED.replace("state_transitions:", "state_transitions:\n  announce: true"))
    world.send("shop/start_processing@1", {"id": "w"})
    world.settle()
    emitted = [
        (record.schema, decode(record.value[0]))
        for frame in world.frames
        for record in decode_frame(frame).records
        if isinstance(record, EmittedRecord)
    ]
    assert [schema for schema, _ in emitted] == [
        "shop/fsm_state_initialized@1",
        "shop/fsm_state_transitioned@1",
    ]
    assert emitted[1][1] == {
        "machine": "order", "from_state": "PENDING", "to_state": "PROCESSING", "trigger": "start_processing",
        "key": "w", "at_ns": world.now_ns,
    }  # fmt: skip
    world.assert_replays()


def by_hand(world: KernelWorld, source: str, target: str, trigger: str | None = None) -> Any:
    extras = {} if trigger is None else {"trigger": trigger}
    return sent(world, "order_transition", from_state=source, to_state=target, **extras)


def test_a_move_by_hand_follows_the_contract_and_the_state_the_sender_believes_in(world):
    sent(world, "place")
    assert by_hand(world, "PLACED", "Cancelled")["state"] == "cancelled"
    assert notes(world)[-1][0]["$value"]["trigger"] == "manual"
    by_hand(world, "placed", "paid")
    by_hand(world, "cancelled", "paid")
    end = "(manual). It is terminal: nothing is possible any more."
    assert [text for _, text in refusals(world)] == [
        f"order is in cancelled: it is not in placed {end}",
        f"order is in cancelled: no transition leads to paid {end}",
    ]
    assert world.state("shop/order", b"o1")["state"] == "cancelled"


def test_a_guard_without_an_answer_does_not_hold_and_is_noted():
    text = "data: {n: int}\nstates: [A, B, C]\ntransitions:\n"
    text += "  - {from: A, to: B, trigger: go, guard: data.n > 1}\n  - {from: A, to: C, trigger: go}\n"
    world = machine_world(text + "terminal_states: [B, C]\n")
    world.send("shop/go@1", {"id": "a"})
    world.settle()
    assert world.state("shop/order", b"a") == {"state": "C"}
    assert "line 4" in notes(world)[0][-1]["guard_fault"]
    world.assert_replays()


def test_a_value_that_does_not_fit_its_field_fails_the_step_and_changes_nothing():
    text = "data: {n: {int: {}, max: 5}}\ntriggers: {go: {fields: {n: int}}}\nstates: [A, B]\ntransitions:\n"
    text += "  - {from: A, to: B, trigger: go, set: {n: event.n}}\nterminal_states: [B]\n"
    world = machine_world(text)
    world.send("shop/go@1", {"id": "a", "n": 6})
    world.settle()
    assert world.state("shop/order", b"a") is None
    assert [step.extras["code"] for step in steps(world)] == ["fsm.value_invalid"]
    world.assert_replays()


def load_problem(world: KernelWorld) -> Rejected:
    """What loading the code of a world's manifest is refused with."""
    manifest, nodes = load_manifest(decode(next(iter(world.cas.values())))), Nodes(0)
    with pytest.raises(Rejected) as caught:
        drive(load_all(manifest, world.programs, nodes), nodes, world.fetch)
    return caught.value


@pytest.mark.parametrize("guard", ["event.amount <", "event.colour < 10", "event.amount"])
def test_a_wrong_expression_is_refused_when_the_code_is_loaded(guard):
    found = load_problem(machine_world(ORDER.replace("event.amount < 10", guard), EFFECTS))
    assert found.code == "fsm.expression"
    assert "order.fsm.yaml, line 19: transitions[0].guard: " in str(found)


def test_an_effect_that_the_module_does_not_declare_is_refused_with_its_line():
    found = load_problem(machine_world(ORDER, EFFECTS, effects_emitted=["timer.set", "shop.log"]))
    assert found.code == "fsm.effect_unknown"
    assert "line 15: states[1].entry[0]: there is no effect shop.charge" in str(found)


def test_a_state_of_another_form_is_refused():
    found = load_problem(
        machine_world(SEED, {"schemas": {"shop/order_state@1": {"record": {"state": TEXT}}}})
    )
    assert found.code == "fsm.code"
