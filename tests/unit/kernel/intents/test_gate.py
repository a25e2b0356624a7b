"""Grants and policies: who may reach what, and how often."""

from __future__ import annotations

import pytest

from cellule.kernel.decide.intents.gate import text_fits
from cellule.kernel.journal.codes import VerdictCode
from cellule.kernel.journal.records import DecisionRecord
from tests.support.kernel_bank import PROGRAMS, SCHEMAS, Bank, document
from tests.support.kernel_world import START_NS, KernelWorld

HOUR = 3_600 * 1_000_000_000
GRANTED = {"cap_slots": {"pay": "stripe"}}


def grant(**limits):
    return {"stripe": {"effects": ["bank.charge"], **limits}}


def denied(bank, **ask):
    beat = bank.charge(**ask)
    assert beat.opened == []
    bank.world.settle()
    event = bank.last()[1]
    assert event["status"] == "denied"
    return event["code"]


@pytest.mark.parametrize(
    ("limits", "params", "code"),
    [
        ({"hosts": ["api.stripe.com"]}, {"url": "https://evil.example/"}, "kernel.grant_host"),
        ({"hosts": ["api.stripe.com"]}, {"url": "https://api.stripe.com.evil.example/"}, "kernel.grant_host"),
        ({"hosts": ["api.stripe.com"]}, {"url": "https://api.stripe.com@evil.example/"}, "kernel.grant_host"),
        ({"hosts": ["api.stripe.com"]}, {}, "kernel.grant_host"),
        ({"hosts": ["*.stripe.com"]}, {"url": "https://stripe.com/"}, "kernel.grant_host"),
        ({"hosts": ["api.stripe.com"]}, {"url": "https://api.stripe.com:444/"}, "kernel.grant_host"),
        ({"hosts": ["api.stripe.com:444"]}, {"url": "https://api.stripe.com/"}, "kernel.grant_host"),
        ({"methods": ["GET"]}, {"method": "post"}, "kernel.grant_method"),
        ({"allow": {"pad": ["abc*"]}}, {"pad": "xabc"}, "kernel.grant_param"),
        ({"allow": {"pad": ["abc*"]}}, {}, "kernel.grant_param"),
        ({"bytes_max": 20}, {"pad": "x" * 50}, "kernel.grant_size"),
        ({"expires_ns": START_NS}, {}, "kernel.grant_expired"),
    ],
)
def test_what_a_grant_does_not_give_is_denied(make_bank, limits, params, code):
    bank = make_bank(order=GRANTED, capabilities=grant(**limits))
    assert denied(bank, **params) == code


@pytest.mark.parametrize(
    ("limits", "params"),
    [
        ({"hosts": ["api.stripe.com"]}, {"url": "https://API.stripe.com./v1"}),
        ({"hosts": ["*.stripe.com"]}, {"url": "https://a.b.stripe.com/"}),
        ({"hosts": ["*.stripe.com:*"]}, {"url": "https://a.b.stripe.com:8443/"}),
        ({"hosts": ["xn--bcher-kva.example"]}, {"url": "https://b\u00fccher.example/"}),
        ({"hosts": ["api.stripe.com:443"]}, {"url": "https://api.stripe.com/"}),
        ({"methods": ["POST"]}, {"method": "POST"}),
        ({"allow": {"pad": ["abc*"]}}, {"pad": "abcdef"}),
        ({"expires_ns": START_NS + 1}, {}),
    ],
)
def test_what_a_grant_gives_is_dispatched_with_it(make_bank, limits, params):
    bank = make_bank(order=GRANTED, capabilities=grant(**limits))
    [opening] = bank.charge(slot="pay", **params).opened
    assert opening.grant["name"] == "stripe"


def test_a_budget_is_spent_by_period_and_survives_a_restore(make_bank):
    bank = make_bank(order=GRANTED, capabilities=grant(budget={"count": 2, "period_ns": HOUR}))
    assert bank.charge().opened
    assert bank.charge().opened
    bank.restore_in_place()
    assert denied(bank) == "kernel.grant_budget"
    bank.world.advance(HOUR)
    assert bank.charge().opened


def test_a_retry_of_a_pinned_cell_has_the_grant_that_its_own_module_has(make_bank, bank_document):
    bank = make_bank(order={**GRANTED, "upgrade": "pin"}, capabilities=grant())
    [opening] = bank.charge(slot="pay").opened
    letter = bank.receive(opening, "failed", exhausted=True).outcomes[0].height
    bank.world.deploy(bank_document(order={"upgrade": "pin"}, capabilities=grant()))
    [again] = bank.world.control("effect.retry", letter=letter).opened
    assert again.grant["name"] == "stripe"


def by_budget(by, count=1):
    return grant(budget={"count": count, "period_ns": HOUR, "by": by})


def test_a_budget_by_cell_counts_for_each_cell(make_bank):
    bank = make_bank(order=GRANTED, capabilities=by_budget("cell", 2))
    for name in "ab":
        assert all(bank.charge(order=name).opened for _ in range(2))
    bank.restore_in_place()
    for name in "ab":
        assert bank.charge(order=name).opened == []
        bank.world.settle()
        assert bank.last(name)[1]["code"] == "kernel.grant_budget"
    assert bank.charge(order="c").opened
    bank.world.advance(HOUR)
    assert bank.charge(order="a").opened
    assert len(bank.book.spent_by["stripe"][1]) == 1  # those of the hour before are gone


def test_a_budget_by_a_field_counts_for_each_value(make_bank):
    bank = make_bank(order=GRANTED, capabilities=by_budget("pad"))
    assert bank.charge(pad="tenant 1", order="a").opened
    assert bank.charge(pad="tenant 2", order="a").opened
    assert denied(bank, pad="tenant 1") == "kernel.grant_budget"
    assert denied(bank) == "kernel.grant_budget"  # it has no such field to count by
    [decision, *_] = [record for record in bank.records() if isinstance(record, DecisionRecord)]
    assert len(decision.extras["spender"]) == 16


def test_a_request_that_a_policy_denies_spends_nothing_and_names_no_spender(make_bank):
    policy = {
        "rules": [{"name": "no", "when": "effect.params.amount > 10", "then": "deny", "reason": "much"}]
    }
    bank = make_bank(order=GRANTED, capabilities=by_budget("pad"), policy=policy)
    bank.charge(11, pad="tenant 1")
    [decision] = [record for record in bank.records() if isinstance(record, DecisionRecord)]
    assert {"spender", "period"}.isdisjoint(decision.extras)
    assert bank.charge(1, pad="tenant 1").opened


def test_a_budget_counts_a_named_number_of_spenders_apart(make_bank, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.intents.gate.BUDGET_SPENDERS_MAX", 1)
    bank = make_bank(order=GRANTED, capabilities=by_budget("cell", 5))
    assert bank.charge(order="a").opened
    assert bank.charge(order="b").opened == []
    assert bank.charge(order="a").opened


@pytest.mark.parametrize("fast", [True, False])
def test_both_ways_count_alike(fast):
    def run(is_fast):
        document_ = document(order=GRANTED, capabilities=by_budget("cell", 2))
        bank = Bank(KernelWorld(document_, PROGRAMS, fast=is_fast))
        for name in "abaabb":
            bank.charge(order=name, slot="pay")
        bank.world.snapshot()
        return bank.world.frames, bank.world.snapshots[-1]

    assert run(fast) == run(not fast)


def test_a_slot_whose_grant_lacks_the_kind_is_denied(make_bank):
    bank = make_bank(
        order=GRANTED,
        capabilities={"stripe": {"effects": ["timer.set"]}, "other": {"effects": ["bank.charge"]}},
    )
    assert denied(bank, slot="pay") == "kernel.grant_kind"


def test_a_slot_that_the_module_does_not_have_is_denied(bank):
    assert denied(bank, slot="nowhere") == "kernel.slot_unknown"


def test_two_fitting_grants_need_a_slot(make_bank):
    bank = make_bank(
        order={"cap_slots": {"a": "one", "b": "two"}},
        capabilities={"one": {"effects": ["bank.charge"]}, "two": {"effects": ["bank.charge"]}},
    )
    assert denied(bank) == "kernel.grant_unclear"
    assert bank.charge(slot="b").opened[0].grant["name"] == "two"


def test_an_effect_that_needs_a_grant_is_denied_without(make_bank):
    effects = {"bank.charge": {"params": "bank/Charge@1", "receipt": "bank/Charged@1", "needs_grant": True}}
    assert denied(make_bank(effects=effects)) == "kernel.grant_missing"


def test_a_policy_denies_allows_and_asks_in_its_order(make_bank):
    policy = {"rules": [
        {"name": "small", "when": "effect.params.amount < 10", "then": "allow"},
        {"name": "huge", "when": "effect.params.amount > 1000", "then": "deny", "reason": "too much"},
        {"name": "ask", "when": 'effect.kind == "bank.charge"', "then": "require_approval", "reason": "10"},
    ]}  # fmt: skip
    bank = make_bank(policy=policy)
    assert bank.charge(5).opened
    assert denied(bank, amount=5000) == "kernel.policy_denied"
    assert bank.last()[1]["text"] == "too much"
    assert bank.charge(50).opened == []
    assert bank.book.parked == 1


def test_a_rule_that_fails_denies(make_bank):
    policy = {"rules": [{"name": "odd", "when": "effect.params.url == 'x'", "then": "allow"}]}
    assert denied(make_bank(policy=policy)) == "kernel.policy_error"


def test_the_default_may_be_to_deny(make_bank):
    assert denied(make_bank(policy={"rules": [], "default": "deny"})) == "kernel.policy_denied"


def test_reducers_micro_only_lets_reducers_set_timers_only(make_bank):
    bank = make_bank(policy="reducers-micro-only")
    assert denied(bank) == "kernel.policy_denied"
    bank.ask(("timer.set", {"after_ns": 5}))
    assert bank.book.timers == 1


def test_every_decision_is_a_record_with_its_rule(make_bank):
    bank = make_bank(
        policy={"rules": [{"name": "small", "when": "effect.params.amount < 10", "then": "allow"}]}
    )
    bank.charge(1)
    assert (bank.records()[-1].verdict, bank.records()[-1].extras) == (VerdictCode.ALLOW, {"rule": "small"})


@pytest.mark.parametrize(
    ("text", "pattern", "fits"),
    [
        ("abc", "abc", True),
        ("abcd", "abc", False),
        ("abcd", "abc*", True),
        ("ab", "ab*b", False),
        ("axbxc", "a*b*c", True),
        ("a[1]?", "a[1]?", True),
        ("a1x", "a[1]?", False),
        ("", "*", True),
        ("ac", "a*x*c", False),
        ("axc", "a*x*c", True),
        ("abd", "a*b*c*d", False),
    ],
)
def test_texts_fit_patterns(text, pattern, fits):
    assert text_fits(text, pattern) is fits


CARGO = {"record": {"amount": {"int": {}}, "cargo": {"any": {}}}}


@pytest.mark.parametrize(
    ("path", "cargo", "is_given"),
    [
        ("cargo.1", ["x", "ok"], True),
        ("cargo.1", ["ok", "x"], False),
        ("cargo.2", ["ok", "ok"], False),  # there is no third
        ("cargo.2", {"2": "ok"}, True),
        ("cargo.2", {"2": "x"}, False),
        ("cargo.2", {}, False),
        ("cargo.2", "ok ok", False),
        ("cargo.to", ["ok"], False),
        ("cargo.to", {"to": "ok"}, True),
        ("cargo.0.to", [{"to": "ok"}], True),
    ],
)
def test_a_path_of_a_grant_leads_through_lists_by_number_and_through_maps_by_name(
    make_bank, path, cargo, is_given
):
    bank = make_bank(
        order=GRANTED, capabilities=grant(allow={path: ["ok"]}),
        schemas={**SCHEMAS, "bank/Charge@1": CARGO},
    )  # fmt: skip
    if is_given:
        assert bank.charge(cargo=cargo).opened
    else:
        assert denied(bank, cargo=cargo) == "kernel.grant_param"
