"""Deleted cells: what they waited for, what was on its way to them, and who waited for the same."""

from __future__ import annotations

import pytest

from cellule.kernel.items import EventItem
from cellule.kernel.journal.codes import CONFLICT, Settled
from cellule.kernel.journal.records import IntentRecord, ReceiptRecord, StepRecord
from cellule.values.cbor import encode


def asked(*asks, order="o1", **more):
    rows = [[*each, *([None] * (4 - len(each)))] for each in asks]
    return EventItem("bank/Ask@1", encode({"order": order, "asks": rows, **more}))


def receipts(bank):
    return [record for record in bank.records() if isinstance(record, ReceiptRecord)]


def test_a_receipt_on_its_way_to_a_deleted_cell_never_reaches_the_next_one(make_bank):
    """A denied receipt waits for the next beat; the cell was deleted and made anew in between."""
    bank = make_bank(policy={"rules": [], "default": "deny"})
    bank.world.beat([asked(("bank.charge", {"amount": 1})), asked(delete=True), asked()])
    assert bank.heard() == [["bank/Ask@1", 0]]
    [step] = bank.world.beat().steps
    assert (step.status, step.code) == (CONFLICT, "kernel.receipt_outlived")
    assert bank.heard() == [["bank/Ask@1", 0]]


def test_a_receipt_behind_the_event_that_deletes_its_cell_makes_no_new_one(bank):
    [opening] = bank.charge().opened
    bank.world.control("pause")
    bank.world.beat([asked(delete=True)])
    bank.receive(opening)
    bank.world.control("resume")
    assert bank.world.entry("bank/Order", b"o1") is None
    assert isinstance(bank.records()[-1], StepRecord)
    assert bank.records()[-1].status == CONFLICT


def test_an_intent_that_is_opened_and_abandoned_in_one_beat_never_leaves(bank):
    beat = bank.world.beat([asked(("bank.charge", {"amount": 1})), asked(delete=True)])
    assert (beat.opened, beat.closed) == ([], [])
    assert receipts(bank)[-1].status == Settled.ABANDONED


def test_a_deleted_cell_may_wait_for_its_own_receipt(bank):
    """The first of two intents with one key took the second with it, which was then looked for."""
    bank.ask(("bank.charge", {"amount": 1}, None, "k"), ("bank.charge", {"amount": 1}, None, "k"))
    bank.ask(delete=True)
    assert [record.status for record in receipts(bank)] == [Settled.ABANDONED] * 2
    assert bank.book.counts == {}


def test_those_who_waited_for_a_deleted_cell_hear_of_it_in_the_next_beat(bank):
    bank.charge(key="k", order="a")
    bank.charge(key="k", order="b")
    beat = bank.ask(delete=True, order="a")
    assert len(beat.steps) == 1
    assert len(bank.heard("b")) == 1
    bank.world.settle()
    assert bank.last("b")[1]["status"] == "abandoned"
    assert bank.intents("b") == []


def test_a_pinned_cell_of_a_module_that_is_gone_may_ask_and_go(make_bank, bank_document):
    """Its module was looked up in the current manifest, which has it no more."""
    bank = make_bank(order={"upgrade": "pin"}, clerk={})
    [opening] = bank.charge().opened
    small = bank_document(clerk={})
    del small["modules"]["bank/Order@1"]
    small["routing"]["subscriptions"] = small["routing"]["subscriptions"][2:]
    small["effects"] = {"bank.charge": {"params": "bank/Charge@1", "receipt": "bank/Charged@1"}}
    bank.world.control("pause")
    bank.world.beat([asked(("bank.charge", {"amount": 2}), delete=True)])
    bank.world.deploy(small)
    beat = bank.world.control("resume")
    assert beat.closed == [opening.intent]
    assert len(beat.opened) == 1


@pytest.mark.parametrize("slot", ["pay", None])
def test_a_pinned_cell_whose_grant_is_gone_is_denied(make_bank, bank_document, slot):
    """The grant's name was looked up in the current manifest, which has it no more."""
    effects = {"bank.charge": {"params": "bank/Charge@1", "receipt": "bank/Charged@1", "needs_grant": True}}
    bank = make_bank(
        order={"upgrade": "pin", "cap_slots": {"pay": "till"}}, effects=effects,
        capabilities={"till": {"effects": ["bank.charge"]}},
    )  # fmt: skip
    assert bank.charge(slot=slot).opened
    bank.world.deploy(bank_document(order={"upgrade": "pin"}, effects=effects))
    assert bank.charge(slot=slot).opened == []
    bank.world.settle()
    assert bank.last()[1]["code"] == ("kernel.grant_gone" if slot else "kernel.grant_missing")


def test_a_receipt_is_proven_by_the_schema_of_its_cells_era(make_bank, bank_document):
    bank = make_bank(order={"upgrade": "pin"})
    first, second = bank.ask(("bank.charge", {"amount": 1}), ("bank.charge", {"amount": 1})).opened
    quiet = bank_document(order={
        "upgrade": "pin", "effects_emitted": ["timer.set"],
        "event": ["bank/Ask@1", "bank/Tick@1", "sys/TimerFired@1"],
    }, effects={})  # fmt: skip
    quiet["schemas"] = {name: each for name, each in quiet["schemas"].items() if name != "bank/Charged@1"}
    bank.world.deploy(quiet)
    bank.receive(first)
    assert bank.last()[1]["status"] == "ok"
    bank.receive(second, value={"id": 7})
    assert bank.last()[1]["code"] == "kernel.receipt_invalid"


@pytest.mark.parametrize(("value", "status"), [(b"\xff", Settled.FAILED), (encode({"id": "x"}), Settled.OK)])
def test_a_receipt_of_an_effect_that_no_manifest_has_any_more_is_a_value_at_least(
    make_bank, bank_document, value, status
):
    from cellule.kernel.items import ReceiptItem

    bank = make_bank()
    [opening] = bank.charge().opened
    bank.world.deploy(bank_document(order={
        "effects_emitted": ["timer.set"], "event": ["bank/Ask@1", "bank/Tick@1", "sys/TimerFired@1"],
    }, effects={}))  # fmt: skip
    bank.world.beat([ReceiptItem(opening.intent, opening.height, "ok", value)])
    assert receipts(bank)[-1].status == status
    assert bank.book.counts == {}


@pytest.mark.parametrize("is_there", [True, False])
def test_a_retry_belongs_to_the_cell_that_asked_and_to_no_later_one(bank, is_there):
    """The letter outlives its cell: what comes of asking again is not for the one that took its place."""
    [opening] = bank.charge().opened
    born = bank.world.entry("bank/Order", b"o1").born
    at = bank.receive(opening, "failed", exhausted=True).outcomes[0].height
    if not is_there:
        bank.ask(delete=True)
        bank.ask()
        assert bank.world.entry("bank/Order", b"o1").born != born
    before = bank.heard()
    [again] = bank.world.control("effect.retry", letter=at).opened
    assert (again.key, again.born) == (opening.key, born)
    assert [each.born for each in bank.records() if isinstance(each, IntentRecord)] == [born, born]
    assert bank.intents() == ([again.height] if is_there else [])
    bank.receive(again)
    assert bank.book.counts == {}
    assert len(bank.heard()) == len(before) + is_there
    assert receipts(bank)[-1].born == born
