"""Months pass at once here, and no bank is asked."""

from __future__ import annotations

from typing import Any

import billing
import pytest
from billing import (
    Account,
    Cancelled,
    CardChanged,
    Charged,
    RefundAsked,
    Refunded,
    Subscribed,
    account,
    charge,
    refund,
)

from cellule import Failed, Refused


@pytest.fixture
def cellule_app() -> Any:
    return billing.app


@pytest.fixture
def bank(world: Any) -> Any:
    """A bank that takes every card but the bad ones."""
    booked = 0

    def answer(params: billing.Charge) -> Charged:
        nonlocal booked
        if params.card.startswith("bad"):
            raise Failed("card.declined", f"card {params.card} was declined")
        booked += 1
        return Charged(f"ch-{booked}", params.month, params.cents)

    world.on(charge, answer)
    world.on(refund, lambda params: Refunded(params.charge_id, params.cents))
    return world


def state(world: Any) -> Account:
    found: Account = world.state(account, "ada")
    return found


def test_every_month_is_charged_once(bank: Any) -> None:
    bank.send(Subscribed("ada", "good", 900))
    assert state(bank).status == "active"
    bank.advance(days=95)
    assert [each.month for each in state(bank).invoices] == [1, 2, 3, 4]
    assert [asked.params.month for asked in bank.effects.of(charge)] == [1, 2, 3, 4]


def test_a_card_that_fails_is_tried_for_two_weeks_then_the_account_is_suspended(bank: Any) -> None:
    bank.send(Subscribed("ada", "bad", 900))
    assert (state(bank).status, state(bank).why) == ("past due", "card bad was declined")
    bank.advance(days=14, hours=23)
    assert (state(bank).status, state(bank).tries) == ("past due", 3)
    bank.advance(hours=2)
    assert (state(bank).status, state(bank).tries) == ("suspended", 4)
    bank.advance(days=90)
    assert len(bank.effects.of(charge)) == 4


def test_a_new_card_is_tried_at_once_and_the_month_begins_then(bank: Any) -> None:
    bank.send(Subscribed("ada", "bad", 900))
    bank.advance(days=1)
    bank.send(CardChanged("ada", "good"))
    assert state(bank).status == "active"
    bank.advance(days=3)  # the reminder of the bad card was cancelled
    assert [each.month for each in state(bank).invoices] == [1]
    bank.advance(days=27)
    assert [each.month for each in state(bank).invoices] == [1, 2]


def test_a_suspended_account_is_active_again_with_a_card_that_works(bank: Any) -> None:
    bank.send(Subscribed("ada", "bad", 900))
    bank.advance(days=20)
    assert state(bank).status == "suspended"
    bank.send(CardChanged("ada", "bad as well"))
    assert state(bank).status == "suspended"
    bank.send(CardChanged("ada", "good"))
    assert state(bank).status == "active"
    bank.advance(days=30)
    assert [each.month for each in state(bank).invoices] == [1, 2]


def test_a_charge_whose_answer_was_lost_is_no_second_charge(world: Any) -> None:
    world.send(Subscribed("ada", "good", 900))
    world.time_out(world.intents.of(charge)[0])
    assert state(world).status == "past due"
    world.advance(days=3)
    [again] = world.intents.of(charge)
    assert (again.params.customer, again.params.month) == ("ada", 1)  # the bank's key is made of these
    world.complete(again, Charged("ch-1", 1, 900))
    world.redrive(*world.letters)
    world.complete(world.intents.of(charge)[0], Charged("ch-1", 1, 900))
    assert [(each.month, each.charge_id) for each in state(world).invoices] == [(1, "ch-1")]
    assert state(world).status == "active"


def test_a_refund_that_is_sent_once_more_is_kept_in_mind(world: Any) -> None:
    world.on(charge, lambda params: Charged("ch-1", params.month, params.cents))
    world.send(Subscribed("ada", "good", 900))
    world.send(RefundAsked("ada", "ch-1", 500))
    world.fail(world.intents.of(refund)[0], "bank.away", "no answer for a day", exhausted=True)
    assert state(world).invoices[0].refunded == 0
    world.redrive(*world.letters)
    world.complete(world.intents.of(refund)[0], Refunded("ch-1", 500))
    assert state(world).invoices[0].refunded == 500


def test_a_cancelled_account_is_charged_no_more_and_may_come_back(bank: Any) -> None:
    bank.send(Subscribed("ada", "good", 900))
    bank.send(Cancelled("ada"))
    bank.advance(days=90)
    assert len(state(bank).invoices) == 1
    bank.send(Subscribed("ada", "good", 500))
    assert [(each.month, each.cents) for each in state(bank).invoices] == [(1, 900), (2, 500)]


def test_a_small_refund_is_given_at_once(bank: Any) -> None:
    bank.send(Subscribed("ada", "good", 900))
    assert bank.send(RefundAsked("ada", "ch-1", 900)).reply == "asked"
    assert state(bank).invoices[0].refunded == 900
    assert state(bank).refunds == {}


def test_a_large_refund_waits_for_a_person(bank: Any) -> None:
    bank.send(Subscribed("ada", "good", 5_000))
    bank.send(RefundAsked("ada", "ch-1", 4_000))
    [asked] = bank.intents.of(refund)
    assert asked.status == "parked"
    bank.deny(asked, why="she used it all month")
    assert (state(bank).invoices[0].refunded, state(bank).refunds) == (0, {})
    bank.send(RefundAsked("ada", "ch-1", 3_000))
    [asked] = bank.intents.of(refund)
    bank.approve(asked, why="fair enough")
    assert state(bank).invoices[0].refunded == 3_000


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (Subscribed("ada", "good", 1), "exists"),
        (Subscribed("bob", "good", 0), "amount"),
        (Cancelled("bob"), "unknown"),
        (RefundAsked("ada", "ch-9", 1), "unknown"),
        (RefundAsked("ada", "ch-1", 901), "amount"),
    ],
)
def test_what_makes_no_sense_is_refused_and_the_account_goes_on(bank: Any, event: Any, code: str) -> None:
    bank.send(Subscribed("ada", "good", 900))
    with pytest.raises(Refused) as refusal:
        bank.send(event)
    assert refusal.value.code == code
    bank.send(Cancelled("ada"))
    assert state(bank).status == "cancelled"
