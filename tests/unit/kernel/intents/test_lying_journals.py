"""Journals that lie about intents are corrupted, and each lie is named for what it is.

A story makes a bank's last frame; one of its records is then changed, in a frame that hashes right again.
Every rule by which the records of intents fit each other has its lie here.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from cellule.errors import Corrupted
from cellule.kernel.items import EventItem, ReceiptItem
from cellule.kernel.journal.codes import DENY, HALTED, NEXT_BEAT, OUTSIDE, PARK, SAME, Settled
from cellule.kernel.journal.fields import RetentionTimer
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import (
    ControlRecord,
    DecisionRecord,
    IntentRecord,
    ReceiptRecord,
    RefusedRecord,
    StepRecord,
    TimerRecord,
)
from cellule.values.cbor import encode
from tests.support.frames import encode_records
from tests.support.kernel_bank import HOUR

CHARGE = ("bank.charge", {"amount": 1})
TIMER = ("timer.set", {"after_ns": HOUR})
ANSWER = RetentionTimer("answer", "bank/Order", b"k", 0)
TOLD = RefusedRecord(0, None, "", "", "")  # a record that changes nothing
ASK_OVER_10 = {"rules": [
    {"name": "ask", "when": 'effect.kind != "bank.charge" || effect.params.amount > 10',
     "then": "require_approval", "reason": "over 10", "expires_ns": HOUR},
]}  # fmt: skip
DENY_OVER_10 = {"rules": [
    {"name": "no", "when": 'effect.kind == "bank.charge" && effect.params.amount > 10', "then": "deny"},
]}  # fmt: skip


# Stories: what the last frame tells


def two_charges(bank):
    bank.ask(CHARGE, CHARGE)


def a_charge_with_its_key_open(bank):
    bank.charge(key="k", order="a")
    bank.charge(key="other", order="b")


def a_charge_with_its_key_settled(bank):
    [opening] = bank.charge(key="k", order="a").opened
    bank.receive(opening)
    bank.charge(key="k", order="b")


def the_same_charge(bank):
    bank.charge(key="k", order="a")
    bank.charge(5, key="other", order="a")
    bank.charge(key="k", order="b")


def a_timer(bank):
    bank.ask(TIMER)


def a_denied_charge(bank):
    bank.charge(50)


def an_approval(bank):
    bank.charge(50)
    bank.world.control("effect.approve", intent=bank.intents()[0])


def an_approved_timer(bank):
    bank.ask(TIMER)
    bank.world.control("effect.approve", intent=bank.intents()[0])


def a_denial(bank):
    bank.charge(50)
    bank.world.control("effect.deny", intent=bank.intents()[0])


def an_approval_at_a_limit(bank):
    bank.ask(("bank.charge", {"amount": 50}), CHARGE)
    bank.world.control("effect.approve", intent=bank.intents()[0])


def a_receipt(bank):
    [opening] = bank.charge().opened
    bank.charge(order="b")
    bank.receive(opening)


def a_failure(bank):
    [opening] = bank.charge().opened
    bank.receive(opening, "failed")


def a_timer_that_fires(bank):
    bank.ask(TIMER)
    bank.world.now_ns += HOUR
    bank.world.beat()


def a_cancelled_charge(bank):
    bank.charge(key="k", order="b")
    bank.charge(key="k2")
    items = [("b", ["k"]), ("o1", ["k2"])]
    bank.world.beat(
        [
            EventItem("bank/Ask@1", encode({"order": order, "asks": [], "cancel": keys}))
            for order, keys in items
        ]
    )


def a_charge_held_outside(bank):
    [opening] = bank.charge().opened
    bank.world.beat([ReceiptItem(opening.intent, opening.height, "outside", encode(HOUR))])


def a_retry(bank):
    [opening] = bank.charge().opened
    letter = bank.receive(opening, "failed", exhausted=True).outcomes[0].height
    bank.world.control("effect.retry", letter=letter)


def a_deleted_cell(bank):
    bank.charge()
    bank.ask(delete=True)


# Lies


def _of(kind, nth=0, **changes):
    """Change fields of the n-th record of a kind."""

    def lie(records):
        at = [at for at, record in enumerate(records) if type(record) is kind][nth]
        records[at] = records[at]._replace(**changes)

    return lie


def _extra(kind, nth=0, **extras):
    """Add extras to the n-th record of a kind; None takes one away."""

    def lie(records):
        at = [at for at, record in enumerate(records) if type(record) is kind][nth]
        more = {**records[at].extras, **extras}
        kept = {name: value for name, value in more.items() if value is not None}
        records[at] = records[at]._replace(extras=kept)

    return lie


def _no(kind, nth=0):
    """Put a record that changes nothing in the place of the n-th of a kind; heights stay as they are."""

    def lie(records):
        at = [at for at, record in enumerate(records) if type(record) is kind][nth]
        records[at] = TOLD

    return lie


def _moved(kind, field, by):
    def lie(records):
        at = next(at for at, record in enumerate(records) if type(record) is kind)
        records[at] = records[at]._replace(**{field: getattr(records[at], field) + by})

    return lie


def _both(*lies):
    def lie(records):
        for each in lies:
            each(records)

    return lie


def _step_of_another(records):
    """Two cells cancel what they asked for; the receipts name each other's step."""
    first, second = (at for at, record in enumerate(records) if type(record) is ReceiptRecord)
    steps = [records[at].extras["step"] for at in (first, second)]
    for at, step in zip((first, second), reversed(steps), strict=True):
        records[at] = records[at]._replace(extras={**records[at].extras, "step": step})


def _first_decided_again(records):
    """The second of two requests becomes another decision on the first."""
    asked, decided, second, again = (
        at for at, record in enumerate(records) if type(record) in (IntentRecord, DecisionRecord)
    )
    assert asked < decided
    records[second] = TOLD
    records[again] = records[decided]._replace(extras={"control": 1})


LIMITED = {"order": {"open_max": 1}}
ASKING = {"policy": ASK_OVER_10}
DENYING = {"policy": DENY_OVER_10}
LATER = "cannot be decided again"
LIES = {
    # Intents
    "of another step": ({}, two_charges, _moved(IntentRecord, "cause", -1), "is not the one that follows"),
    "out of turn": ({}, two_charges, _of(IntentRecord, 1, position=2), "is not the one that follows"),
    "the same place twice": (
        {}, two_charges, _of(IntentRecord, 1, position=0), "is not the one that follows"),
    "of another cell": ({}, two_charges, _of(IntentRecord, key=b"o2"), "not of the cell that steps"),
    "of another life": ({}, two_charges, _moved(IntentRecord, "born", 1), "not of the cell that steps"),
    "of a step that failed": ({}, two_charges, _of(StepRecord, status=HALTED), "not of the cell that steps"),
    "another than its letter's": ({}, a_retry, _of(IntentRecord, params=[encode({"amount": 2})]),
                                  "does not ask what its dead letter says"),
    "of another life than its letter's": ({}, a_retry, _moved(IntentRecord, "born", 1),
                                          "does not ask what its dead letter says"),
    "with a key its letter has not": ({}, a_retry, _extra(IntentRecord, key="k"),
                                      "does not ask what its dead letter says"),
    "of no letter": ({}, a_retry, _of(ControlRecord, verb="letter.dismiss"),
                     "follows neither a step nor a retry"),
    # Decisions
    "no decision before the next": ({}, two_charges, _no(DecisionRecord), "is not followed by its decision"),
    "no decision at the end": ({}, two_charges, _no(DecisionRecord, 1), "is not followed by its decision"),
    "the decision on another": ({}, two_charges, _moved(DecisionRecord, "cause", -1), "by the decision on"),
    "a first decision from outside": ({}, two_charges, _of(DecisionRecord, verdict=OUTSIDE), "no verdict 4"),
    "a charge with a time": ({}, two_charges, _extra(DecisionRecord, due_ns=9), "timers have a time"),
    "a timer without": ({}, a_timer, _extra(DecisionRecord, due_ns=None), "timers have a time"),
    "a denied timer with a time": ({}, a_timer, _of(DecisionRecord, verdict=DENY), "timers have a time"),
    "a denied one that reaches a limit": (
        {}, two_charges, _both(_of(DecisionRecord, verdict=DENY), _extra(DecisionRecord, over=True)),
        "brings no module to its limit"),
    "a parked one that reaches a limit": (
        ASKING, a_denied_charge, _extra(DecisionRecord, over=True), "brings no module to its limit"),
    "a timer that reaches a limit": (
        {}, a_timer, _extra(DecisionRecord, over=True), "brings no module to its limit"),
    "a limit that is reached twice": (
        {}, two_charges, _both(_extra(DecisionRecord, over=True), _extra(DecisionRecord, 1, over=True)),
        "bank/Order is at its limit already"),
    "a denied one without a receipt": (
        {}, two_charges, _of(DecisionRecord, verdict=DENY), "has no receipt in the frame that settles it"),
    "the same as nobody": ({}, two_charges, _of(DecisionRecord, verdict=SAME, extras={"same": 1}),
                           "no intent with its idempotency key stands for it"),
    "the same as one with another key": ({}, the_same_charge, _extra(IntentRecord, key="new"),
                                         "no intent with its idempotency key stands for it"),
    "the same as another": ({}, the_same_charge, _extra(DecisionRecord, same=1),
                            "no intent with its idempotency key stands for it"),
    "the same with other params": ({}, the_same_charge, _of(IntentRecord, params=[encode({"amount": 2})]),
                                   "with its idempotency key asks for something else"),
    "the same as one that is settled": ({}, a_charge_with_its_key_settled, _no(ReceiptRecord),
                                        "has no receipt in the frame that settles it"),
    "another with an open key": ({}, a_charge_with_its_key_open, _extra(IntentRecord, key="k"),
                                 "with its idempotency key is open"),
    "a decision on nobody": ({}, two_charges, _no(IntentRecord, 1), "no intent [0-9]+ is open"),
    "a charge that is approved again": (
        {}, two_charges, _first_decided_again, LATER),
    "an approval that parks": (ASKING, an_approval, _of(DecisionRecord, verdict=PARK), LATER),
    "an approval by nobody": (ASKING, an_approval, _extra(DecisionRecord, control=None), LATER),
    "an approval with a time": (ASKING, an_approval, _extra(DecisionRecord, due_ns=9), "timers have a time"),
    "an approved timer without": (
        ASKING, an_approved_timer, _extra(DecisionRecord, due_ns=None), "timers have a time"),
    "an approval at a limit": (
        {**ASKING, **LIMITED}, an_approval_at_a_limit, _extra(DecisionRecord, over=True),
        "is at its limit already"),
    "a denial without a receipt": (
        ASKING, a_denial, _both(_no(ReceiptRecord), _no(StepRecord)), "has no receipt in the frame"),
    "outside without an end": (
        {}, a_charge_held_outside, _extra(DecisionRecord, due_ns=None), "waits for nobody outside"),
    "outside while parked": (
        ASKING, an_approval, _of(DecisionRecord, verdict=OUTSIDE, extras={"due_ns": 1 << 62}),
        "waits for nobody outside"),
    "outside, and below no limit": (
        {}, a_charge_held_outside, _extra(DecisionRecord, under=True), "bank/Order is not at its limit"),
    # Receipts
    "a receipt of nobody": ({}, a_receipt, _moved(ReceiptRecord, "cause", -1), "no intent [0-9]+ is open"),
    "a receipt of another cell": ({}, a_receipt, _of(ReceiptRecord, key=b"b"), "not of the cell recorded"),
    "a receipt of another life": (
        {}, a_receipt, _moved(ReceiptRecord, "born", 1), "not of the cell recorded"),
    "a denied one that went well": (
        DENYING, a_denied_charge, _of(ReceiptRecord, status=Settled.OK), "cannot end with status 0"),
    "the event of another kind": (
        {}, a_receipt, _of(ReceiptRecord, schema="effect.timer/set@1"), "is no receipt of bank.charge"),
    "a charge that fires": (
        {}, a_receipt, _of(ReceiptRecord, schema="sys/TimerFired@1"), "is no receipt of bank.charge"),
    "a timer that fires and fails": (
        {}, a_timer_that_fires, _of(ReceiptRecord, status=Settled.FAILED), "is no receipt of timer.set"),
    "a success that was rejected": (
        {}, a_receipt, _of(ReceiptRecord, schema="sys/EffectReceiptRejected@1"), "is no receipt of"),
    "told to a cell that is gone": (
        {}, a_deleted_cell, _of(ReceiptRecord, delivery=NEXT_BEAT), "the cell that is told is not there"),
    "the timer of nobody": (
        {}, a_timer_that_fires, _extra(ReceiptRecord, fired=bytes(16)), "is not that of the intent"),
    "a charge with a timer": (
        {}, a_receipt, _extra(ReceiptRecord, fired=bytes(16)), "is not that of the intent"),
    "a timer that has not fired": (
        {}, a_timer_that_fires, _extra(ReceiptRecord, fired=None), "the intent's timer has not fired"),
    "a letter of what went well": (
        {}, a_receipt, _extra(ReceiptRecord, exhausted=True), "leaves no dead letter"),
    "a letter of what was denied": (
        ASKING, a_denial, _extra(ReceiptRecord, exhausted=True), "leaves no dead letter"),
    "below no limit": ({}, a_receipt, _extra(ReceiptRecord, under=True), "bank/Order is not at its limit"),
    "a cancellation that went well": (
        {}, a_cancelled_charge, _of(ReceiptRecord, status=Settled.FAILED), "is no step's cancellation"),
    "a cancellation by an event": (
        {}, a_cancelled_charge, lambda records: _extra(
            ReceiptRecord, step=next(each.cause for each in records if type(each) is StepRecord))(records),
        "is no step's cancellation"),
    "a cancellation by another cell": (
        {}, a_cancelled_charge, _step_of_another, "only what it asked for itself"),
    "a deletion that abandons nobody": (
        {}, a_deleted_cell, _no(ReceiptRecord), "has no receipt in the frame"),
    "waiters of nobody put off": (
        {}, two_charges,
        lambda records: records.append(TimerRecord(0, None, 9, ANSWER)),
        "nobody waits for a receipt that has come"),
}  # fmt: skip


def journal_with(world, lie):
    """The frames with a lie in the last one."""
    frame = decode_frame(world.frames[-1])
    records = list(frame.records)
    lie(records)
    assert records != list(frame.records)
    header = replace(frame.header, last=frame.header.first + len(records) - 1)
    return [*world.frames[:-1], encode_records(header, records, frame.names)]


@pytest.mark.parametrize("case", LIES)
def test_a_journal_that_lies_about_an_intent_is_corrupted(make_bank, case):
    changes, story, lie, what = LIES[case]
    bank = make_bank(**changes)
    story(bank)
    world = bank.world
    with pytest.raises(Corrupted, match=what) as found:
        world.restored(frames=journal_with(world, lie))
    assert found.value.code == "kernel.journal_contradicts"
