"""An idempotency key stands for one request of one module: what it asks is decided first, then the key."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.journal.codes import DENY, SAME
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import DecisionRecord, ReceiptRecord
from cellule.kernel.limits import DEDUPE_WINDOW_NS
from cellule.kernel.need import Nodes, drive
from cellule.kernel.prove.check import check_snapshot
from cellule.kernel.state.intent_book import Book
from cellule.kernel.state.intent_id import idempotency_hash, params_digest
from cellule.kernel.state.rows import KnownReceipt
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.kernel_bank import CHARGE, HOUR, PROGRAMS, SECOND, Bank, document
from tests.support.kernel_world import KernelWorld

POLICY = {"rules": [{"name": "orders only", "when": 'module.name != "bank/Order@1"', "then": "deny"}]}


def decisions(bank):
    return [record for record in bank.records() if isinstance(record, DecisionRecord)]


def tell(bank, amount=1, *, order="c", key="k", slot=None):
    return bank.ask((CHARGE, {"amount": amount}, slot, key), schema="bank/Tell@1", order=order)


def test_a_module_that_is_denied_gets_no_receipt_of_another_by_its_key(make_bank):
    """Once the key came first: the clerk, who may not charge, got the order's receipt with its value."""
    bank = make_bank(clerk={}, policy=POLICY)
    [opening] = bank.charge(key="k").opened
    bank.receive(opening, value={"id": "secret"})
    tell(bank)
    bank.world.settle()
    schema, event = bank.last("c", "bank/Clerk")
    assert (schema, event["status"], event["code"]) == (
        "effect.bank/charge@1",
        "denied",
        "kernel.policy_denied",
    )
    assert "value" not in event


def test_a_cell_whose_grant_is_withdrawn_gets_no_receipt_of_the_time_before(make_bank, bank_document):
    till = {"till": {"effects": [CHARGE]}}
    bank = make_bank(order={"cap_slots": {"pay": "till"}}, capabilities=till)
    [opening] = bank.charge(key="k", slot="pay").opened
    bank.receive(opening)
    ended = {"till": {"effects": [CHARGE], "expires_ns": 1}}
    bank.world.deploy(bank_document(order={"cap_slots": {"pay": "till"}}, capabilities=ended))
    bank.charge(key="k", slot="pay")
    bank.world.settle()
    assert bank.last()[1]["code"] == "kernel.grant_expired"


def test_two_modules_may_use_one_key(make_bank):
    bank = make_bank(clerk={})
    [first] = bank.charge(key="k").opened
    [second] = tell(bank).opened
    bank.receive(first, value={"id": "one"})
    bank.receive(second, value={"id": "two"})
    assert bank.last()[1]["value"] == {"id": "one"}
    assert bank.last("c", "bank/Clerk")[1]["value"] == {"id": "two"}


@pytest.mark.parametrize("settled", [True, False])
def test_the_same_key_with_other_params_is_denied(bank, settled):
    """Once the second one silently got the first one's receipt: 30 were charged, 99,999 reported as paid."""
    [opening] = bank.charge(30, key="k", order="a").opened
    if settled:
        bank.receive(opening)
    assert bank.charge(99_999, key="k", order="b").opened == []
    bank.world.settle()
    event = bank.last("b")[1]
    assert (event["status"], event["code"]) == ("denied", "kernel.key_reused")
    assert "'k'" in event["text"]
    assert str(opening.height) in event["text"]


def test_the_same_key_with_the_same_params_gets_the_first_receipt(bank):
    long = {"pad": "x" * 2_000}  # a link in records
    [opening] = bank.charge(30, key="k", order="a", **long).opened
    bank.charge(30, key="k", order="b", **long)
    bank.receive(opening, value={"id": "one"})
    bank.charge(30, key="k", order="c", **long)
    bank.world.settle()
    assert [bank.last(name)[1]["value"] for name in "abc"] == [{"id": "one"}] * 3
    bank.charge(30, key="k", order="d", pad="y" * 2_000)
    bank.world.settle()
    assert bank.last("d")[1]["code"] == "kernel.key_reused"


def test_a_reused_key_is_denied_after_a_restore_too(bank):
    bank.charge(30, key="k", order="a")
    bank.restore_in_place()
    bank.charge(31, key="k", order="b")
    bank.world.settle()
    assert bank.last("b")[1]["code"] == "kernel.key_reused"


def test_a_key_that_was_denied_is_free(make_bank):
    """A denied request is none: the key stands for nothing yet."""
    bank = make_bank(policy={"rules": [
        {"name": "no", "when": "has(effect.params.amount) && effect.params.amount > 100", "then": "deny"}
    ]})  # fmt: skip
    assert bank.charge(500, key="k").opened == []
    [opening] = bank.charge(5, key="k").opened
    assert opening.key == "k"


def test_a_repeated_request_costs_neither_budget_nor_approval(make_bank):
    """It asks nothing of the outside, so nothing is counted; it is judged all the same."""
    till = {"till": {"effects": [CHARGE], "budget": {"count": 1, "period_ns": HOUR}}}
    bank = make_bank(
        order={"cap_slots": {"pay": "till"}},
        capabilities=till,
        policy={"rules": [{"name": "ask", "when": "true", "then": "require_approval", "expires_ns": HOUR}]},
    )
    bank.charge(key="k", slot="pay")
    [opening] = bank.world.control("effect.approve", intent=bank.intents()[-1]).opened
    bank.charge(key="k", slot="pay", order="b")
    bank.receive(opening, value={"id": "one"})
    bank.charge(key="k", slot="pay", order="c")
    bank.world.settle()
    assert [bank.last(name)[1]["value"] for name in ("b", "c")] == [{"id": "one"}] * 2
    same = [each for each in decisions(bank) if each.verdict == SAME]
    assert [(each.extras["rule"], each.extras["grant"]) for each in same] == [("ask", "till")] * 2
    bank.charge(2, key="other", slot="pay")
    bank.world.settle()
    assert bank.last()[1]["code"] == "kernel.grant_budget"


TAKEN_BACK = {
    "by its cell": lambda bank, opening: bank.ask(cancel=["k"]),
    "by a person": lambda bank, opening: bank.world.control("effect.cancel", intent=opening.height),
    "with its cell": lambda bank, opening: bank.world.control("cell.delete", module="bank/Order", key=b"o1"),
}


@pytest.mark.parametrize("way", TAKEN_BACK)
def test_a_request_that_was_taken_back_is_made_anew_with_its_key(bank, way):
    """A cell that cancelled and asked anew got `cancelled` for a week, and so did its next incarnation."""
    [first] = bank.charge(key="k").opened
    TAKEN_BACK[way](bank, first)
    bank.world.settle()
    [again] = bank.charge(key="k").opened
    assert (again.key, again.params) == (first.key, first.params)
    assert again.intent != first.intent
    bank.restore_in_place()
    assert bank.receive(first).outcomes[0].error.code == "kernel.receipt_late"
    bank.receive(again, value={"id": "two"})
    assert bank.last()[1]["value"] == {"id": "two"}
    bank.charge(key="k")
    bank.world.settle()
    assert bank.last()[1]["value"] == {"id": "two"}


def test_one_step_may_cancel_a_request_and_make_it_anew(bank):
    [first] = bank.charge(key="k").opened
    beat = bank.ask((CHARGE, {"amount": 1}, None, "k"), cancel=["k"])
    assert beat.closed == [first.intent]
    [again] = beat.opened
    assert again.intent != first.intent


def test_a_request_that_was_taken_back_keeps_its_key_from_other_params(bank):
    """Whatever it did outside was done under this key."""
    bank.charge(30, key="k")
    bank.ask(cancel=["k"])
    assert bank.charge(31, key="k").opened == []
    bank.world.settle()
    assert bank.last()[1]["code"] == "kernel.key_reused"


def test_a_timer_with_a_key_that_stands_for_another_time_is_denied(bank):
    bank.ask(("timer.set", {"after_ns": SECOND}, None, "k"), order="a")
    bank.ask(("timer.set", {"after_ns": 2 * SECOND}, None, "k"), order="b")
    bank.world.settle()
    assert bank.last("b")[1]["code"] == "kernel.key_reused"


def test_too_many_approvals_are_denied_without_a_time_when_they_end(make_bank, monkeypatch):
    """Once the decision kept the end of an approval that nobody waits for, and could not be restored."""
    monkeypatch.setattr("cellule.kernel.decide.intents.gate.APPROVALS_OPEN_MAX", 0)
    rules = [{"name": "ask", "when": "true", "then": "require_approval", "expires_ns": HOUR, "reason": "r"}]
    bank = make_bank(policy={"rules": rules})
    bank.charge()
    [decision] = decisions(bank)
    assert (decision.verdict, decision.extras["code"]) == (DENY, "kernel.approvals_full")
    assert "due_ns" not in decision.extras


def test_a_snapshot_whose_key_stands_for_other_params_is_damaged():
    bank = Bank(KernelWorld(document(), PROGRAMS))
    bank.charge(30, key="k")
    place = idempotency_hash("bank/Order", CHARGE, "k")
    nodes = bank.world.world.ledger.nodes
    known = drive(bank.book.keys.get(place), nodes, bank.world.fetch)
    bank.book.keys.put(place, known._replace(params=bytes(16)))
    root = bank.world.snapshot()
    with pytest.raises(Corrupted, match="asks for something else than its idempotency key stands for"):
        drive(check_snapshot(root, nodes), nodes, bank.world.fetch)


def test_params_have_one_digest_inline_and_linked():
    data = b"\xa1aaa1"
    assert params_digest([data]) == params_digest(Link(cid_of(data))) == cid_of(data).digest[:16]


@pytest.mark.parametrize("is_forgetting", [False, True])
def test_a_request_that_is_open_for_weeks_is_never_made_twice(bank, is_forgetting):
    """Keys are forgotten some time after their receipt; before it they stand for a request under way."""
    [opening] = bank.charge(key="k", order="a").opened
    bank.world.now_ns += 4 * DEDUPE_WINDOW_NS
    if is_forgetting:  # whoever brings a new key takes old ones away
        bank.charge(key="another", order="x")
    assert bank.charge(key="k", order="b").opened == []
    bank.restore_in_place()
    assert bank.charge(key="k", order="c").opened == []
    bank.receive(opening, value={"id": "one"})
    assert [bank.last(name)[1]["value"] for name in "abc"] == [{"id": "one"}] * 3


def test_a_key_is_known_for_the_window_after_its_request_and_then_free(bank):
    [opening] = bank.charge(key="k", order="a").opened
    bank.receive(opening)
    bank.world.now_ns += DEDUPE_WINDOW_NS - 1
    assert bank.charge(key="k", order="b").opened == []
    bank.world.now_ns += 1
    [again] = bank.charge(key="k", order="c").opened
    assert again.key == "k"


def test_those_who_wait_for_one_receipt_get_it_in_the_order_they_asked(bank):
    [opening] = bank.charge(key="k", order="first").opened
    names = [b"d", b"a", b"c", b"b"]
    for name in names:
        bank.charge(key="k", order=name.decode())
    beat = bank.receive(opening)
    told = [record for record in decode_frame(beat.frame).records if isinstance(record, ReceiptRecord)]
    assert [record.key for record in told] == [b"first", *names]
    assert [step.key for step in beat.steps] == [b"first", *names]


def test_a_key_whose_receipt_has_come_is_forgotten_once_all_are_answered():
    """Its age stays while somebody waits for it; that of an open one goes, and comes with its receipt."""
    book = Book(Nodes(0))
    nodes = Nodes(0)
    old, new = bytes(16), bytes(15) + b"x"

    def remember(place, height, now_ns):
        drive(book.remember(place, bytes(16), height, now_ns), nodes, lambda cids: {})

    def ages():
        return [place for _, place in drive(book.ages.scan(b"", None, 10), nodes, lambda cids: {})]

    remember(old, 1, 1)
    known = drive(book.keys.get(old), nodes, lambda cids: {})
    book.wait_for(old, known, 2)
    remember(new, 3, DEDUPE_WINDOW_NS + 2)
    assert ages() == [new]
    known = drive(book.keys.get(old), nodes, lambda cids: {})
    book.answered(old, known, KnownReceipt(0, "bank/Charged@1", [b"\xa0"]))
    remember(new, 4, DEDUPE_WINDOW_NS + 3)
    assert ages() == [old, new]
    known = drive(book.keys.get(old), nodes, lambda cids: {})
    book.no_longer_waits(old, known, 2)
    remember(new, 5, DEDUPE_WINDOW_NS + 4)
    assert ages() == [new]
    assert drive(book.keys.get(old), nodes, lambda cids: {}) is None
