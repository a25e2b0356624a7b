"""The limits that a request sets for itself: from its step to its row, also by retry or approval."""

from __future__ import annotations

import pytest

LIMITS = {"attempts": 3, "backoff_ns": 7, "deadline_ns": 9, "priority": 1, "timeout_ns": 5}
ASK_FIRST = {"rules": [{
    "name": "ask", "when": "effect.params.amount > 10 && effect.priority == 1", "then": "require_approval",
}]}  # fmt: skip


def limits_of(opening):
    return {name: getattr(opening, name) for name in LIMITS}


def charge(amount=1, limits=LIMITS):
    return "bank.charge", {"amount": amount}, None, None, limits


def test_a_request_is_opened_with_its_own_limits(make_bank):
    bank = make_bank()
    own, other = bank.ask(charge(), ("bank.charge", {"amount": 2})).opened
    assert limits_of(own) == LIMITS
    assert (other.attempts, other.priority, other.deadline_ns, other.backoff_ns) == (3, 5, 0, None)


def test_a_retry_has_the_limits_of_the_first_request(make_bank):
    bank = make_bank()
    [first] = bank.ask(charge()).opened
    letter = bank.receive(first, "failed", exhausted=True).outcomes[0].height
    bank.restore_in_place()
    [again] = bank.world.control("effect.retry", letter=letter).opened
    assert limits_of(again) == LIMITS
    assert (again.key, again.intent == first.intent) == (first.key, False)


def test_a_policy_sees_the_priority_of_the_request_and_an_approval_keeps_the_limits(make_bank):
    bank = make_bank(policy=ASK_FIRST)
    assert bank.ask(charge(50, {"priority": 2})).opened
    assert bank.ask(charge(50)).opened == []
    bank.restore_in_place()
    [opening] = bank.world.control("effect.approve", intent=bank.intents()[-1]).opened
    assert limits_of(opening) == LIMITS


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"attempts": 0}, "attempts is a whole number from 1 to 10000, not 0"),
        ({"priority": 10}, "priority is a whole number from 0 to 9"),
        ({"speed": 1}, "'speed' is no limit of a request"),
        ({}, "a map of names"),
        ({"timeout_ns": 1 << 63}, "timeout_ns"),
    ],
)
def test_limits_that_cannot_be_fail_the_step(make_bank, limits, words):
    bank = make_bank()
    [step] = bank.ask(charge(1, limits)).steps
    assert step.code == "kernel.effect_limits"
    assert words in step.text


def test_a_timer_has_no_limits(make_bank):
    bank = make_bank()
    [step] = bank.ask(("timer.set", {"after_ns": 1}, None, None, {"attempts": 2})).steps
    assert (step.code, "performed by the kernel" in step.text) == ("kernel.effect_limits", True)
