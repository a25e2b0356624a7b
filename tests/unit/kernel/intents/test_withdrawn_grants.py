"""What was allowed under a grant leaves only while there is a grant that gives it."""

from __future__ import annotations

import pytest

from tests.support.kernel_bank import CHARGE, Bank

NEEDY = {CHARGE: {"params": "bank/Charge@1", "receipt": "bank/Charged@1", "needs_grant": True}}
ASK = {"rules": [{"name": "ask", "when": "true", "then": "require_approval"}]}


def granted(name, **limits):
    """A manifest whose orders hold one grant."""
    return {
        "order": {"cap_slots": {"pay": name}}, "capabilities": {name: {"effects": [CHARGE], **limits}}
    }  # fmt: skip


WITHDRAWN = {
    "another name": granted("purse"),
    "narrowed": granted("till", hosts=["other.example"]),
    "over": granted("till", expires_ns=1),
}


@pytest.mark.parametrize("way", WITHDRAWN)
def test_a_fork_that_keeps_what_is_open_dispatches_nothing_that_is_not_granted_any_more(
    make_bank, bank_document, way
):
    """Its row had no grant at all: the adapter had no hosts to keep to."""
    bank = make_bank(**granted("till"))
    bank.charge(slot="pay", url="https://api.example/x")
    bank.world.deploy(bank_document(**WITHDRAWN[way]))
    child = Bank(bank.world.fork(7, "keep", live=True))
    child.world.settle()
    assert child.world.first.opened == []
    [height] = child.intents()
    refused = child.world.control("effect.approve", intent=height).outcomes[0].error
    assert refused.code in ("kernel.grant_gone", "kernel.grant_host", "kernel.grant_expired")
    child.world.deploy(bank_document(**granted("till", hosts=["api.example"])))
    [opening] = child.world.control("effect.approve", intent=height).opened
    assert opening.grant["hosts"] == ["api.example"]


def test_what_needs_a_grant_since_it_was_parked_is_not_approved(make_bank, bank_document):
    """It left without one, as it was asked for."""
    bank = make_bank(policy=ASK)
    bank.charge()
    bank.world.deploy(bank_document(policy=ASK, effects=NEEDY))
    refused = bank.world.control("effect.approve", intent=bank.intents()[0]).outcomes[0].error
    assert refused.code == "kernel.grant_missing"
    bank.world.deploy(bank_document(policy=ASK))
    assert bank.world.control("effect.approve", intent=bank.intents()[0]).opened
