"""A cell cancels its own timers and effects, and a timer replaces the one with its key."""

from __future__ import annotations

import pytest

from cellule.kernel.items import EventItem
from cellule.kernel.journal.codes import NOBODY, Settled
from cellule.kernel.journal.records import ReceiptRecord, StepRecord
from cellule.values.cbor import encode
from tests.support.kernel_bank import CHARGE, HOUR, MINUTE, PROGRAMS, SECOND, TIMER, Bank, document
from tests.support.kernel_world import Did, FunctionPrograms, KernelWorld


def timer(after_ns, name="t", *, key=None):
    return (TIMER, {"after_ns": after_ns, **({"key": name} if name else {})}, None, key)


def receipts(bank):
    return [record for record in bank.records() if isinstance(record, ReceiptRecord)]


def fired(bank, order="o1"):
    return [event["due_ns"] for schema, event in bank.heard(order) if schema == "sys/TimerFired@1"]


# A timer takes the place of those with its key


def test_a_timer_replaces_the_one_with_its_key(bank):
    start = bank.world.now_ns
    for _ in range(5):
        bank.ask(timer(10 * SECOND))
        bank.world.now_ns += 4 * SECOND
    assert len(bank.intents()) == 1
    assert bank.book.timers == 1
    bank.world.advance(HOUR)
    assert fired(bank) == [start + 26 * SECOND]


def test_a_replaced_timer_is_recorded_with_the_step_that_set_the_new_one(bank):
    bank.ask(timer(SECOND))
    [old] = bank.intents()
    bank.ask(timer(SECOND))
    [receipt] = receipts(bank)
    assert (receipt.cause, receipt.status, receipt.extras["code"]) == (
        old,
        Settled.CANCELLED,
        "kernel.timer_replaced",
    )
    assert isinstance(bank.records()[receipt.extras["step"] - 1], StepRecord)


def test_timers_with_other_keys_of_other_cells_or_without_a_key_stay(bank):
    bank.ask(timer(SECOND), timer(SECOND, "u"), timer(SECOND, None), timer(SECOND, None))
    bank.ask(timer(SECOND), order="o2")
    bank.ask(timer(2 * SECOND))
    assert len(bank.intents()) == 4
    assert len(bank.intents("o2")) == 1


def test_the_last_of_two_timers_of_one_step_counts(bank):
    start = bank.world.now_ns
    bank.ask(timer(SECOND), timer(5 * SECOND))
    bank.world.advance(HOUR)
    assert fired(bank) == [start + 5 * SECOND]


def test_a_timer_that_is_denied_replaces_nothing(make_bank):
    long = 'effect.kind == "timer.set" && effect.params.after_ns > 1000000000'
    bank = make_bank(policy={"rules": [{"name": "no", "when": long, "then": "deny"}]})
    start = bank.world.now_ns
    bank.ask(timer(SECOND))
    bank.ask(timer(HOUR))
    bank.world.advance(2 * HOUR)
    assert fired(bank) == [start + SECOND]


def test_a_cell_and_a_world_that_are_full_may_still_replace(bank, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.intents.gate.CELL_INTENTS_MAX", 2)
    monkeypatch.setattr("cellule.kernel.decide.intents.open.CELL_INTENTS_MAX", 2)
    monkeypatch.setattr("cellule.kernel.decide.intents.gate.TIMERS_OPEN_MAX", 2)
    bank.ask(timer(SECOND), timer(SECOND, "u"))
    start = bank.world.now_ns
    bank.ask(timer(MINUTE))
    bank.ask(timer(MINUTE, "third"))
    bank.world.settle()
    assert bank.last()[1]["code"] in ("kernel.cell_intents", "kernel.timers_full")
    bank.world.advance(HOUR)
    assert max(fired(bank)) == start + MINUTE


def test_a_replaced_timer_stays_replaced_after_a_restore(bank):
    start = bank.world.now_ns
    bank.ask(timer(10 * SECOND))
    bank.restore_in_place()
    bank.ask(timer(20 * SECOND))
    bank.restore_in_place()
    bank.world.advance(HOUR)
    assert fired(bank) == [start + 20 * SECOND]


# A cell takes requests back


def test_a_cell_cancels_its_timer_by_its_key(bank):
    bank.ask(timer(SECOND), timer(MINUTE, "u"))
    bank.ask(cancel=["t"])
    bank.world.advance(HOUR)
    assert len(fired(bank)) == 1
    assert [event["status"] for schema, event in bank.heard() if schema == "effect.timer/set@1"] == [
        "cancelled"
    ]


def test_a_cell_cancels_its_effect_by_its_key_and_hears_of_it(bank):
    [opening] = bank.charge(key="k").opened
    beat = bank.ask(cancel=["k"])
    assert beat.closed == [opening.intent]
    bank.world.settle()
    schema, event = bank.last()
    assert (schema, event["status"], event["code"]) == (
        "effect.bank/charge@1",
        "cancelled",
        "kernel.cancelled",
    )
    late = bank.receive(opening).outcomes[0]
    assert late.error.code == "kernel.receipt_late"


def test_what_is_cancelled_in_the_beat_that_asked_never_leaves(bank):
    ask = {"order": "o1", "asks": [[CHARGE, {"amount": 1}, None, "k"]]}
    stop = {"order": "o1", "asks": [], "cancel": ["k"]}
    beat = bank.world.beat([EventItem("bank/Ask@1", encode(each)) for each in (ask, stop)])
    assert (beat.opened, beat.closed) == ([], [])
    assert bank.intents() == []


def test_a_step_may_cancel_and_ask_anew(bank):
    start = bank.world.now_ns
    bank.ask(timer(SECOND, "old"))
    bank.ask(timer(MINUTE, "old"), cancel=["old"])
    bank.world.advance(HOUR)
    assert fired(bank) == [start + MINUTE]


def test_a_cell_cancels_nothing_of_another_cell(bank):
    [opening] = bank.charge(key="k", order="a").opened
    bank.ask(cancel=["k"], order="b")
    assert bank.intents("a") == [opening.height]


def test_a_key_that_nothing_open_has_is_passed_over(bank):
    bank.ask(timer(SECOND))
    bank.world.advance(MINUTE)
    before = len(receipts(bank))
    bank.ask(cancel=["t", "never"])
    assert len(receipts(bank)) == before
    step = [record for record in bank.records() if isinstance(record, StepRecord)][-1]
    assert step.extras["cancels"] == ["t", "never"]


def test_an_intent_that_waits_for_an_approval_or_for_another_is_cancelled_too(make_bank):
    rules = [{"name": "ask", "when": "effect.params.amount > 10", "then": "require_approval"}]
    bank = make_bank(policy={"rules": rules})
    bank.charge(50, key="parked", order="a")
    [opening] = bank.charge(1, key="k", order="b").opened
    bank.charge(1, key="k", order="a")
    bank.ask(cancel=["parked", "k"], order="a")
    bank.world.settle()
    assert (bank.intents("a"), bank.intents("b")) == ([], [opening.height])
    assert bank.book.parked == 0
    bank.receive(opening)
    assert bank.last("b")[1]["status"] == "ok"


def test_those_who_wait_for_a_cancelled_request_hear_that_it_was(bank):
    bank.charge(key="k", order="a")
    bank.charge(key="k", order="b")
    bank.ask(cancel=["k"], order="a")
    bank.world.settle()
    assert bank.last("b")[1]["status"] == "cancelled"


def test_a_deleting_step_that_cancels_abandons(bank):
    [opening] = bank.charge(key="k").opened
    bank.ask(delete=True, cancel=["k"])
    [receipt] = receipts(bank)
    assert (receipt.cause, receipt.status, receipt.delivery) == (opening.height, Settled.ABANDONED, NOBODY)


@pytest.mark.parametrize(
    "cancel",
    [[""], ["x" * 501], ["\ud800"], [7], "k", {"k"}, ["k"] * 1_001],
    ids=["empty", "long", "surrogate", "number", "text", "set", "many"],
)
def test_what_is_no_list_of_keys_fails_the_step(cancel):
    def step(_state, _schema, _event, _ctx):
        return Did({"heard": []}, cancel=cancel)

    bank = Bank(KernelWorld(document(), FunctionPrograms({"bank/Order": step})))
    bank.ask()
    step_record = [record for record in bank.records() if isinstance(record, StepRecord)][-1]
    assert step_record.extras["code"] == "kernel.cancel_invalid"
    bank.world.assert_replays()


@pytest.mark.parametrize("fast", [True, False])
def test_both_ways_write_the_same(fast):
    def run(is_fast):
        bank = Bank(KernelWorld(document(), PROGRAMS, fast=is_fast))
        bank.ask(timer(SECOND))
        bank.charge(key="k")
        bank.ask(timer(MINUTE), cancel=["k"])
        bank.ask(cancel=["t"])
        bank.world.settle()
        return bank.world.frames

    assert run(fast) == run(not fast)
