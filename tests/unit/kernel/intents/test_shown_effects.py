"""An effect that shows its life as an operation: which signals tell of it, and what they say."""

from __future__ import annotations

import pytest

from cellule.kernel.items import ReceiptItem
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.heartbeat_records import SignalRecord
from cellule.kernel.state.intent_id import intent_text
from cellule.values.cbor import decode, encode
from cellule.values.envelope import value_of
from tests.support.kernel_bank import CHARGE, HOUR, Bank

ASK_FIRST = {"rules": [
    {"name": "ask", "when": "effect.params.amount > 10", "then": "require_approval", "reason": "over 10"},
]}  # fmt: skip


@pytest.fixture
def shown(make_bank):
    """A bank whose charges are shown."""
    return make_bank(
        policy=ASK_FIRST,
        effects={CHARGE: {
            "params": "bank/Charge@1", "receipt": "bank/Charged@1", "attempts": 3, "operation": True,
        }},
    )  # fmt: skip


def told(bank):
    """All signals so far, with what they say beside the path that they are for."""
    records = [each for frame in bank.world.frames for _, each in decode_frame(frame).of(SignalRecord)]
    said = [(each.signal, decode(value_of(each.extras["payload"])), each.depth) for each in records]
    assert len({payload.pop("for") for _, payload, _ in said}) == 1
    return said


def test_one_that_is_done_begins_and_ends(shown):
    [opening] = shown.charge().opened
    [(begin, about, _)] = told(shown)
    assert (begin, about["verb"]) == ("/op/begin", "effect/bank.charge")
    assert about["payload"]["kind"] == CHARGE
    assert about["payload"]["height"] == opening.height
    assert "cell" in about["payload"]
    shown.receive(opening, attempts=2)
    assert told(shown)[1:] == [("/op/end", {"status": "sts:ok", "summary": "attempts: 2"}, 0)]
    first = next(each for frame in shown.world.frames for _, each in decode_frame(frame).of(SignalRecord))
    assert decode(value_of(first.extras["payload"]))["for"] == f"/effects/{intent_text(opening.intent)}"


def test_a_receipt_that_counts_no_attempts_tells_of_none(shown):
    [opening] = shown.charge().opened
    shown.receive(opening)
    assert told(shown)[1:] == [("/op/end", {"status": "sts:ok"}, 0)]


def test_one_that_fails_says_why(shown):
    [opening] = shown.charge().opened
    shown.receive(opening, "failed", text="the bank is shut", attempts=3)
    assert told(shown)[1][1] == {"status": "sts:fail", "summary": "the bank is shut"}


def test_one_that_is_cancelled_is_told_apart(shown):
    [opening] = shown.charge().opened
    shown.world.control("effect.cancel", intent=opening.height)
    assert told(shown)[1][1] == {"status": "sts:cnl", "summary": "because"}


def test_one_that_waits_for_an_approval_says_so_and_goes_on_with_it(shown):
    shown.charge(50)
    [height] = shown.intents()
    assert [(signal, said.get("state")) for signal, said, _ in told(shown)] == [
        ("/op/begin", None), ("/op/tell", "ist:wait"),
    ]  # fmt: skip
    assert told(shown)[1][1]["note"] == "it needs an approval"
    shown.world.control("effect.approve", intent=height)
    assert told(shown)[2:] == [("/op/tell", {"state": "ist:run"}, 0)]


def test_one_that_a_fork_held_never_waited_for_an_approval_and_goes_on_in_silence(shown):
    child = Bank(shown.world.fork(7, "keep"))
    child.charge()
    [opening] = child.world.control("effect.approve", intent=child.intents()[0]).opened
    assert [signal for signal, *_ in told(child)] == ["/op/begin"]
    child.receive(opening)
    assert [signal for signal, *_ in told(child)] == ["/op/begin", "/op/end"]
    child.world.assert_replays()


def test_one_that_is_denied_ends(shown):
    shown.charge(50)
    shown.world.control("effect.deny", intent=shown.intents()[0])
    assert told(shown)[-1][1]["status"] == "sts:fail"


def test_one_that_somebody_outside_completes_waits_for_that(shown):
    [opening] = shown.charge().opened
    shown.world.beat([ReceiptItem(opening.intent, opening.height, "outside", encode(HOUR))])
    assert told(shown)[1][:2] == (
        "/op/tell", {"state": "ist:wait", "note": "somebody outside completes it"},
    )  # fmt: skip


def test_other_effects_show_nothing(bank):
    [opening] = bank.charge().opened
    bank.receive(opening)
    assert not [each for frame in bank.world.frames for _, each in decode_frame(frame).of(SignalRecord)]
