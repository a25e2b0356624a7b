"""Receipts settle intents, each exactly once."""

from __future__ import annotations

import pytest

from cellule.kernel.items import Admitted, EventItem, ReceiptItem, RefusedItem
from cellule.kernel.journal.records import RefusedRecord
from cellule.kernel.limits import RECEIPT_BYTES_MAX
from cellule.kernel.state.intent_id import intent_text
from cellule.values.cbor import encode


def test_a_receipt_reaches_its_cell_in_the_beat_that_admits_it(bank):
    [opening] = bank.charge(5, key="order-1").opened
    beat = bank.receive(opening, by="k1", attempts=2)
    assert isinstance(beat.outcomes[0], Admitted)
    schema, event = bank.last()
    assert schema == "effect.bank/charge@1"
    assert event == {
        "intent_id": intent_text(opening.intent), "kind": "bank.charge", "status": "ok", "key": "order-1",
        "value": {"id": "c-1"},
    }  # fmt: skip
    assert bank.book.counts == {}
    assert beat.closed == []


@pytest.mark.parametrize("status", ["failed", "timeout", "cancelled"])
def test_every_other_end_tells_why(bank, status):
    [opening] = bank.charge().opened
    bank.receive(opening, status, code="bank.broke", text="no money")
    event = bank.last()[1]
    assert (event["status"], event["code"], event["text"]) == (status, "bank.broke", "no money")
    assert "value" not in event


def test_a_second_receipt_is_refused_and_recorded(bank):
    [opening] = bank.charge().opened
    bank.receive(opening)
    beat = bank.receive(opening)
    refused = beat.outcomes[0]
    assert isinstance(refused, RefusedItem)
    assert refused.error.code == "kernel.receipt_late"
    assert isinstance(bank.records()[-1], RefusedRecord)
    assert len(bank.heard()) == 2


def test_a_foreign_receipt_is_refused(bank):
    [opening] = bank.charge().opened
    beat = bank.receive(opening._replace(intent=b"\x07" * 32))
    assert beat.outcomes[0].error.code == "kernel.receipt_foreign"
    assert bank.book.counts == {"bank/Order": 1}


def test_a_status_that_does_not_exist_is_refused(bank):
    [opening] = bank.charge().opened
    assert bank.receive(opening, "great").outcomes[0].error.code == "kernel.receipt_status"


@pytest.mark.parametrize("value", [{"id": 7}, {}, {"id": "x", "more": 1}])
def test_a_payload_that_does_not_fit_settles_as_failed(bank, value):
    [opening] = bank.charge().opened
    bank.receive(opening, value=value)
    event = bank.last()[1]
    assert (event["status"], event["code"]) == ("failed", "kernel.receipt_invalid")
    assert "invalid receipt" in event["text"]


def test_a_module_that_takes_rejections_hears_of_them(make_bank):
    bank = make_bank(order={"event": ["bank/Ask@1", "bank/Tick@1", "sys/EffectReceiptRejected@1"]})
    [opening] = bank.charge().opened
    bank.receive(opening, value={"id": 7}, by="k1")
    schema, event = bank.last()
    assert schema == "sys/EffectReceiptRejected@1"
    assert (event["kind"], event["adapter"]) == ("bank.charge", "k1")


def test_a_module_that_does_not_take_receipts_is_not_told(make_bank):
    bank = make_bank(order={"event": ["bank/Ask@1", "bank/Tick@1"]})
    [opening] = bank.charge().opened
    bank.receive(opening)
    assert bank.heard() == [["bank/Ask@1", 1]]
    assert bank.book.counts == {}


def test_a_receipt_from_a_person_stops_the_adapter_and_says_who(bank):
    [opening] = bank.charge().opened
    beat = bank.receive(opening, who="ada", why="the bank called", by="k1")
    assert beat.closed == [opening.intent]
    assert bank.records()[-2].extras == {"by": "k1", "who": "ada", "why": "the bank called"}


def test_long_receipts_are_linked(bank):
    [opening] = bank.charge().opened
    bank.receive(opening, value={"id": "x" * 9_000})
    assert bank.last()[1]["value"] == {"id": "x" * 9_000}


def test_a_receipt_over_the_limit_is_invalid(bank):
    [opening] = bank.charge().opened
    bank.receive(opening, value={"id": "x" * RECEIPT_BYTES_MAX})
    assert bank.last()[1]["code"] == "kernel.receipt_invalid"


def test_receipts_survive_a_restore_between_intent_and_receipt(bank):
    [opening] = bank.charge().opened
    bank.restore_in_place()
    bank.receive(opening)
    assert bank.last()[1]["status"] == "ok"


def test_a_halted_cell_still_has_its_intents_settled(make_bank):
    bank = make_bank()
    [opening] = bank.charge().opened
    bank.ask(("nothing.like_this", {}))
    beat = bank.receive(opening)
    assert isinstance(beat.outcomes[0], Admitted)
    assert bank.book.counts == {}


# Exhausted intents


def test_an_exhausted_intent_leaves_a_dead_letter_that_can_be_tried_again(bank):
    [opening] = bank.charge(5).opened
    beat = bank.receive(opening, "failed", code="bank.down", text="503", exhausted=True, attempts=3)
    letter = beat.outcomes[0].height
    again = bank.world.control("effect.retry", letter=letter)
    [second] = again.opened
    assert second.intent != opening.intent
    assert second.key == opening.key
    assert second.params == opening.params
    bank.receive(second)
    assert [event["status"] for _, event in bank.heard()[1:]] == ["failed", "ok"]
    refused = bank.world.control("effect.retry", letter=letter).outcomes[0]
    assert refused.error.code == "kernel.no_letter"


def test_a_letter_of_a_linked_request_can_be_tried_again_after_a_restore(bank):
    [opening] = bank.charge(5, pad="x" * 3_000).opened
    letter = bank.receive(opening, "failed", exhausted=True).outcomes[0].height
    bank.restore_in_place()
    [second] = bank.world.control("effect.retry", letter=letter).opened
    assert second.params == opening.params


# Idempotency keys


def test_a_second_intent_with_the_same_key_gets_the_first_ones_receipt(bank):
    [first] = bank.charge(1, key="k").opened
    bank.receive(first)
    beat = bank.charge(1, key="k", order="o2")
    assert beat.opened == []
    bank.world.settle()
    event = bank.last("o2")[1]
    assert (event["status"], event["value"], event["key"]) == ("ok", {"id": "c-1"}, "k")
    assert event["intent_id"] != intent_text(first.intent)


def test_intents_with_the_key_of_an_open_one_wait_for_its_receipt(bank):
    [first] = bank.charge(1, key="k").opened
    assert bank.charge(1, key="k", order="o2").opened == []
    assert bank.charge(1, key="k", order="o1").opened == []
    bank.restore_in_place()
    bank.receive(first, "failed", code="bank.down", text="503")
    bank.world.settle()
    assert bank.last("o2")[1]["status"] == "failed"
    assert [row[1].get("status") for row in bank.heard("o1")[2:]] == ["failed", "failed"]
    assert bank.world.entry("bank/Order", b"o2").extras is None


def test_a_key_is_forgotten_after_the_window(bank):
    [first] = bank.charge(1, key="k").opened
    bank.receive(first)
    bank.world.advance(8 * 86_400 * 1_000_000_000)
    [second] = bank.charge(1, key="k").opened
    assert second.intent != first.intent


def test_a_waiting_intent_can_be_cancelled_alone(bank):
    [first] = bank.charge(1, key="k").opened
    bank.charge(1, key="k", order="o2")
    [height] = bank.world.entry("bank/Order", b"o2").get("intents")
    bank.world.control("effect.cancel", intent=height)
    assert bank.last("o2")[1]["status"] == "cancelled"
    bank.receive(first)
    assert len(bank.heard("o2")) == 2


def test_a_receipt_that_was_never_durable_elsewhere_is_refused_without_a_record(bank):
    count = len(bank.records())
    beat = bank.world.beat([ReceiptItem(b"\1" * 32, 3, "ok", None, durable=False)])
    assert beat.outcomes[0].height == 0
    assert len(bank.records()) == count


def test_receipts_and_events_of_one_beat_are_each_admitted(bank):
    """Those that take a closer look, too: a failed one, and one for an intent that is not open."""
    first, second = bank.ask(("bank.charge", {"amount": 1}), ("bank.charge", {"amount": 1})).opened
    tick = EventItem("bank/Tick@1", encode({"order": "b"}))
    outcomes = bank.world.beat([
        ReceiptItem(first.intent, first.height, "failed", None), tick,
        ReceiptItem(first.intent, first.height, "failed", None), tick,
        ReceiptItem(second.intent, second.height, "ok", encode({"id": "x"})), tick,
    ]).outcomes  # fmt: skip
    admitted = [isinstance(outcome, Admitted) for outcome in outcomes]
    assert admitted == [True, True, False, True, True, True]
