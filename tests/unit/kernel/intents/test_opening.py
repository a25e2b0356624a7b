"""A step's requests become intents, and are decided in the same beat."""

from __future__ import annotations

import pytest

from cellule.kernel.journal.records import DecisionRecord, IntentRecord, ReceiptRecord, StepRecord
from cellule.kernel.state.intent_id import intent_text


def test_an_intent_is_opened_with_its_decision_right_after_its_step(bank):
    beat = bank.charge(5)
    [opening] = beat.opened
    kinds = [type(record) for record in bank.records()[-3:]]
    assert kinds == [StepRecord, IntentRecord, DecisionRecord]
    assert (opening.kind, opening.module, opening.cell) == ("bank.charge", "bank/Order", b"o1")
    assert opening.key == intent_text(opening.intent)
    assert opening.attempts == 3


def test_two_requests_of_one_step_are_two_intents(bank):
    beat = bank.ask(("bank.charge", {"amount": 1}), ("bank.charge", {"amount": 1}))
    first, second = beat.opened
    assert first.intent != second.intent
    assert bank.book.counts == {"bank/Order": 2}


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (("bank.refund", {"amount": 1}), "kernel.effect_undeclared"),
        (("http.request", {"url": "https://x"}), "kernel.effect_undeclared"),
        (("bank.charge", {"amount": -1}), "kernel.effect_params"),
        (("bank.charge", {"sum": 1}), "kernel.effect_params"),
        (("bank.charge", {"amount": 1}, None, ""), "kernel.effect_key"),
        (("timer.set", {}), "kernel.effect_params"),
        (("timer.set", {"after_ns": 1, "at_ns": 1}), "kernel.effect_params"),
    ],
)
def test_a_request_that_is_not_declared_or_does_not_fit_fails_the_step(bank, ask, code):
    beat = bank.ask(ask)
    assert beat.steps[0].code == code
    assert beat.opened == []
    assert bank.book.counts == {}


def test_pure_modules_may_ask_for_nothing(make_bank):
    bank = make_bank(order={"kind": "pure", "effects_emitted": [], "event": ["bank/Ask@1", "bank/Tick@1"]})
    assert bank.charge().steps[0].code == "kernel.effect_pure"


def test_a_failed_step_opens_nothing_of_what_it_asked(bank):
    beat = bank.ask(("bank.charge", {"amount": 1}), ("bank.charge", {"amount": -1}))
    assert beat.opened == []


def test_deleting_a_cell_abandons_its_intents_and_opens_those_of_the_last_step(bank):
    [first] = bank.charge(1).opened
    beat = bank.ask(("bank.charge", {"amount": 2}), delete=True)
    assert beat.closed == [first.intent]
    [last] = beat.opened
    assert last.intent != first.intent
    assert bank.world.entry("bank/Order", b"o1") is None
    settled = bank.receive(last)
    assert settled.outcomes[0].height > 0
    assert bank.book.counts == {}
    assert bank.world.entry("bank/Order", b"o1") is None


def test_a_receipt_never_reaches_another_incarnation(bank):
    [first] = bank.charge(1).opened
    bank.ask(delete=True)
    bank.charge(9)
    beat = bank.receive(first)
    assert beat.outcomes[0].error.code == "kernel.receipt_late"
    assert bank.heard() == [["bank/Ask@1", 1]]


def test_long_params_are_linked_and_reach_the_adapter_whole(bank, read):
    [opening] = bank.charge(1, pad="x" * 5_000).opened
    assert read(opening.params)["pad"] == "x" * 5_000
    bank.restore_in_place()
    bank.receive(opening)
    assert bank.last()[1]["status"] == "ok"


def test_a_cell_with_too_many_open_intents_is_denied_more(bank, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.intents.gate.CELL_INTENTS_MAX", 2)
    bank.ask(*[("bank.charge", {"amount": 1})] * 3)
    bank.world.settle()
    assert bank.last()[1]["code"] == "kernel.cell_intents"
    assert bank.book.counts == {"bank/Order": 2}


def test_the_intent_id_names_world_cell_step_and_params(bank, make_bank):
    [one] = bank.charge(1).opened
    [same] = make_bank().charge(1).opened
    [other] = make_bank().charge(2).opened
    assert one.intent == same.intent
    assert one.intent != other.intent
    assert any(isinstance(record, ReceiptRecord) for record in bank.records()) is False
