"""Code that asks for something else than it did is found, with the field where it differs."""

from __future__ import annotations

import pytest

from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import IntentRecord
from cellule.values.cbor import encode
from tests.support.kernel_world import Did, FunctionPrograms

ASKED = [
    ("bank.charge", encode({"amount": 1, "pad": "x"}), None, "k"),
    ("bank.charge", encode({"amount": 2}), "pay", None),
]


def other(at, **changes):
    kind, params, slot, key = ASKED[at]
    fields = {"kind": kind, "params": params, "slot": slot, "key": key, **changes}
    return [*ASKED[:at], tuple(fields.values()), *ASKED[at + 1 :]]


TIMER = other(1, kind="timer.set", params=encode({"after_ns": 1}))
CASES = {
    "kind": (TIMER, "effects[1].kind", "bank.charge", "timer.set"),
    "params": (other(0, params=encode({"amount": 9, "pad": "x"})), "effects[0].params.amount", 1, 9),
    "a field of params": (other(0, params=encode({"amount": 1})), "effects[0].params.pad", "x", None),
    "slot": (other(1, slot=None), "effects[1].slot", "pay", None),
    "key": (other(0, key="j"), "effects[0].key", "k", "j"),
    "no key": (other(0, key=None), "effects[0].key", "k", None),
    "fewer": (
        ASKED[:1], "effects[1]",
        {"kind": "bank.charge", "params": {"amount": 2}, "slot": "pay", "key": None}, None,
    ),
    "more": (
        [*ASKED, ("bank.charge", encode({"amount": 3}), None, None)], "effects[2]", None,
        {"kind": "bank.charge", "params": {"amount": 3}, "slot": None, "key": None},
    ),
}  # fmt: skip


@pytest.fixture
def asking(make_world, bank_document):
    """A world whose order has asked twice; `asks` changes what it would ask now."""
    now = list(ASKED)
    programs = FunctionPrograms({"bank/Order": lambda *_: Did({"heard": []}, effects=list(now))})
    document = bank_document(
        order={"cap_slots": {"pay": "till"}}, capabilities={"till": {"effects": ["bank.charge"]}}
    )
    world = make_world(document, programs)
    world.send("bank/Tick@1", {"order": "a"})

    def asks(effects):
        now[:] = effects
        found = world.verify()
        now[:] = ASKED
        return found

    return asks


@pytest.mark.parametrize("case", CASES)
def test_the_first_request_that_differs_is_named_with_both_values(asking, case):
    effects, field, recorded, computed = CASES[case]
    difference = asking(effects)
    assert (difference.field, difference.recorded, difference.computed) == (field, recorded, computed)
    assert difference.cell == ("bank/Order", b"a")


def test_long_params_are_compared_by_their_identity(make_world, bank_document):
    now = ["x"]
    programs = FunctionPrograms({"bank/Order": lambda *_: Did(
        {"heard": []}, effects=[("bank.charge", encode({"amount": 1, "pad": now[0] * 5_000}), None, None)]
    )})  # fmt: skip
    world = make_world(bank_document(), programs)
    world.send("bank/Tick@1", {"order": "a"})
    now[0] = "y"
    assert world.verify().field == "effects[0].params"
    now[0] = "x"
    assert world.verify() is None


def test_what_was_decided_is_not_asked_again(make_bank):
    """A policy that would decide otherwise today is no difference: decisions are records."""
    bank = make_bank(policy={"rules": [], "default": "deny"})
    bank.charge()
    bank.world.settle()
    kinds = [type(record) for frame in bank.world.frames for record in decode_frame(frame).records]
    assert IntentRecord in kinds
    assert bank.world.verify() is None
