"""Cells with open intents say what they wait for: on a live world, and in a snapshot."""

from __future__ import annotations

import pytest

from cellule.kernel.need import Nodes, drive
from cellule.kernel.state.wait_reasons import (
    APPROVAL,
    OVER_BUDGET,
    REASONS_MAX,
    RECEIPT,
    TIMER,
    reasons_in,
)
from cellule.values.cbor import decode, encode
from cellule.values.cid import cid_of
from cellule.values.link import Link
from cellule.values.schema.text_forms import time_text
from tests.support.kernel_world import START_NS
from tests.support.stuck import find_stuck, find_waiting

SECOND = 1_000_000_000
ASK = {"rules": [{"name": "ask", "when": "true", "then": "require_approval", "reason": "all of them"}]}


def live(bank, order="o1"):
    ledger = bank.world.world.ledger
    return drive(reasons_in(ledger, "bank/Order", order.encode()), ledger.nodes, bank.world.fetch)


def saved(bank, **changes):
    return {**decode(bank.world.cas[bank.world.snapshot()]), **changes}


def listed(bank, snapshot=None):
    nodes = Nodes(0)
    found = drive(find_waiting(snapshot or saved(bank), nodes), nodes, bank.world.fetch)
    return {cell.key.decode(): cell.reasons for cell in found}


def stuck(bank, snapshot):
    nodes = Nodes(0)
    return sorted(cell.key for cell in drive(find_stuck(snapshot, nodes), nodes, bank.world.fetch))


def test_a_cell_waits_for_the_receipt_of_its_intent_since_a_time(bank):
    bank.world.now_ns += 5 * SECOND
    [opening] = bank.charge().opened
    [reason] = live(bank)
    assert (reason.what, reason.since, reason.time_ns) == (
        RECEIPT,
        opening.height,
        START_NS + 5 * SECOND,
    )
    assert str(reason) == f"bank.charge: receipt since {time_text(START_NS + 5 * SECOND)}"
    assert listed(bank) == {"o1": (reason,)}


def test_a_cell_waits_for_its_timer_at_a_time(bank):
    bank.ask(("timer.set", {"after_ns": SECOND}))
    [reason] = live(bank)
    assert (reason.what, reason.time_ns) == (TIMER, START_NS + SECOND)
    assert str(reason) == f"timer.set: timer at {time_text(START_NS + SECOND)}"
    assert listed(bank) == {"o1": (reason,)}


def test_a_cell_waits_for_an_approval_with_the_rules_reason(make_bank):
    bank = make_bank(policy=ASK)
    bank.charge()
    [reason] = live(bank)
    assert (reason.what, reason.time_ns, reason.text) == (APPROVAL, START_NS, "all of them")
    assert reason.words == f"approval since {time_text(START_NS)} by rule ask: all of them"
    assert listed(bank) == {"o1": (reason,)}


def test_a_cell_waits_for_the_receipt_of_another_intent_with_its_key(bank):
    [opening] = bank.charge(key="k", order="a").opened
    bank.charge(key="k", order="b")
    [reason] = live(bank, "b")
    assert f"the intent at height {opening.height}," in reason.text
    assert listed(bank)["b"] == (reason,)


def test_all_reasons_of_a_cell_are_told_up_to_a_limit(bank):
    bank.ask(("bank.charge", {"amount": 1}), ("timer.set", {"after_ns": SECOND}))
    assert [reason.what for reason in live(bank)] == [RECEIPT, TIMER]
    bank.ask(*[("bank.charge", {"amount": 1})] * 20)
    assert len(live(bank)) == REASONS_MAX


def test_held_cells_wait_over_budget_and_others_for_their_own_reasons(make_bank):
    bank = make_bank(order={"open_max": 1})
    bank.charge(order="a")
    bank.charge(order="b")
    assert [reason.what for reason in live(bank, "b")] == [OVER_BUDGET]
    bank.ask(("nothing.like_this", {}), order="c")
    assert live(bank, "nobody") is None
    assert {key: reasons[0].what for key, reasons in listed(bank).items()} == {
        "a": RECEIPT, "b": OVER_BUDGET, "c": OVER_BUDGET,
    }  # fmt: skip
    bank.world.control("pause")
    assert [reason.what for reason in live(bank, "b")] == ["the world is paused"]


def test_a_halted_cell_with_open_intents_is_halted_first(bank):
    bank.charge()
    bank.ask(("nothing.like_this", {}))
    [reason] = live(bank)
    assert (reason.what, reason.code) == ("halted", "kernel.effect_undeclared")


@pytest.mark.parametrize("part", ["intents", "timers"])
def test_an_intent_that_would_never_be_settled_is_found(bank, part):
    bank.ask(("timer.set", {"after_ns": SECOND}))
    whole = saved(bank)
    assert stuck(bank, whole) == []
    assert stuck(bank, {**whole, part: None}) == [b"o1"]


def test_one_that_waits_for_an_intent_that_is_not_there_is_found(bank):
    bank.charge(key="k", order="a")
    bank.charge(key="k", order="b")
    whole = saved(bank)
    level, keys, [first, second] = decode(bank.world.cas[whole["intents"][0].cid])
    assert first[5] == "open"
    data = encode([level, keys[1:], [second]])
    bank.world.cas[cid_of(data)] = data
    assert stuck(bank, {**whole, "intents": [Link(cid_of(data)), 1]}) == [b"a", b"b"]


def test_held_cells_of_a_module_that_no_receipt_lets_go_are_found(make_bank):
    bank = make_bank(order={"open_max": 1})
    bank.charge(order="a")
    bank.charge(order="b")
    whole = saved(bank)
    budgets = whole["budgets"]
    level, keys, [[count, over]] = decode(bank.world.cas[budgets["open"][0].cid])
    assert over
    data = encode([level, keys, [[count, False]]])
    bank.world.cas[cid_of(data)] = data
    assert stuck(bank, {**whole, "budgets": {**budgets, "open": [Link(cid_of(data)), 1]}}) == [b"b"]
