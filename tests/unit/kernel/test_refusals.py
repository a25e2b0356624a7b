"""A step that refuses its message: recorded with reason and code, consumed, and no failure."""

from __future__ import annotations

import pytest

from cellule.errors import REFUSED_CODE
from cellule.kernel.items import EventItem
from cellule.kernel.journal.codes import HALTED, OK, REFUSED
from cellule.kernel.journal.frame import decode_frame
from cellule.kernel.journal.records import EmittedRecord, StepRecord
from cellule.kernel.limits import ERROR_TEXT_MAX, REFUSAL_CODE_MAX
from cellule.kernel.program import StepFault, StepRefusal, refusal
from cellule.values import encode
from tests.support.kernel_world import Did, FunctionPrograms


def picky(state, schema, event, ctx):
    if schema == "shop/Failed@1":
        raise refusal(event["why"], "shop.no")
    return Did({"total": 1, "paid": False, "seen": (state or {"seen": 0})["seen"] + 1})


PICKY = FunctionPrograms({"shop/Order": picky})
FAILED = "shop/Failed@1"


def refused(world, order="o1", why="closed"):
    beat = world.send(FAILED, {"order": order, "why": why})
    [step] = beat.steps
    return step, beat


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("policy", ["halt", "skip"])
def test_a_refusal_consumes_its_message_and_changes_nothing_whatever_the_policy(
    make_world, shop, fast, policy
):
    world = make_world(shop(Order={"failure": policy}), PICKY, fast=fast)
    world.send("shop/Paid@1", {"order": "o1"})
    before = world.entry("shop/Order", b"o1")
    step, beat = refused(world)
    assert (step.status, step.code, step.text, step.version) == (REFUSED, "shop.no", "closed", 1)
    after = world.entry("shop/Order", b"o1")
    assert after == before.changed(last=step.height)
    records = [each for each in decode_frame(beat.frame).records if not isinstance(each, StepRecord)]
    assert not any(isinstance(each, EmittedRecord) for each in records)
    assert world.world.ledger.dead_letters.is_empty
    assert world.send("shop/Paid@1", {"order": "o1"}).steps[0].version == 2


def test_a_refused_first_event_makes_no_cell(make_world):
    world = make_world(None, PICKY)
    step, _ = refused(world)
    assert (step.status, step.version) == (REFUSED, 0)
    assert world.entry("shop/Order", b"o1") is None
    assert world.send("shop/Paid@1", {"order": "o1"}).steps[0].status == OK


def test_both_ways_write_the_same_bytes_for_refusals_among_other_events(make_world):
    def lived(fast):
        world = make_world(None, PICKY, fast=fast)
        items = [
            EventItem(FAILED, encode({"order": f"o{at % 3}", "why": "no"}))
            if at % 4 == 1
            else EventItem("shop/Paid@1", encode({"order": f"o{at % 3}"}))
            for at in range(12)
        ]
        return [world.beat(items).frame, world.beat(items[:1]).frame, world.beat(items[1:2]).frame]

    assert lived(True) == lived(False)


def test_verify_tells_a_refusal_that_has_another_reason_now(make_world):
    world = make_world(None, PICKY)
    refused(world)

    def other(state, schema, event, ctx):
        raise refusal("another reason", "shop.no")

    world.programs.steps, kept = {**world.programs.steps, "shop/Order": other}, world.programs.steps
    difference = world.verify()
    world.programs.steps = kept
    assert (difference.field, difference.recorded, difference.computed) == (
        "reason", "closed", "another reason",
    )  # fmt: skip


def test_a_refusal_while_handling_a_failure_is_recorded(make_world):
    def stats(state, schema, event, ctx):
        raise refusal("not interested", REFUSED_CODE)

    def order(state, schema, event, ctx):
        raise StepFault("shop.broken", "broken")

    world = make_world(None, FunctionPrograms({"shop/Stats": stats, "shop/Order": order}))
    beat = world.send(FAILED, {"order": "o1", "why": ""})
    assert [step.status for step in beat.steps] == [HALTED]
    assert [(step.status, step.text) for step in world.beat([]).steps] == [(REFUSED, "not interested")]


def test_a_long_reason_is_cut_and_lone_surrogates_are_replaced():
    found = refusal("x" * (ERROR_TEXT_MAX + 1), "")
    assert isinstance(found, StepRefusal)
    assert (len(found.text), found.text[-4:], found.code) == (ERROR_TEXT_MAX, "x...", REFUSED_CODE)
    assert refusal("a\ud800", "c").text == "a?"


@pytest.mark.parametrize(("reason", "code"), [(5, "c"), ("no", None), ("no", "c" * (REFUSAL_CODE_MAX + 1))])
def test_what_is_no_refusal_is_a_failure(reason, code):
    found = refusal(reason, code)
    assert not isinstance(found, StepRefusal)
    assert found.code == "kernel.refusal_invalid"
