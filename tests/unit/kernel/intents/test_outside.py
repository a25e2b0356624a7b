"""An adapter has done its part, and somebody outside completes the intent, or its time is over."""

from __future__ import annotations

import pytest

from cellule.errors import Rejected
from cellule.kernel.items import Admitted, ReceiptItem
from cellule.kernel.journal.codes import VerdictCode
from cellule.kernel.journal.records import DecisionRecord, RefusedRecord
from cellule.kernel.state.intent_id import Token, intent_token, parse_token
from cellule.values.cbor import encode
from tests.support.kernel_bank import HOUR, MINUTE, PROGRAMS, Bank, document
from tests.support.kernel_world import KernelWorld


def hold(bank, opening, after_ns=HOUR, **more):
    value = encode(after_ns) if isinstance(after_ns, int) else after_ns
    item = ReceiptItem(opening.intent, opening.height, "outside", value, by="k1", attempts=1, **more)
    return bank.world.beat([item])


def test_an_intent_waits_for_somebody_outside_and_is_completed(bank):
    [opening] = bank.charge().opened
    assert isinstance(hold(bank, opening).outcomes[0], Admitted)
    assert bank.intents() == [opening.height]
    decision = [record for record in bank.records() if isinstance(record, DecisionRecord)][-1]
    assert (decision.verdict, decision.extras["attempts"]) == (VerdictCode.OUTSIDE, 1)
    bank.restore_in_place()
    bank.world.advance(MINUTE)
    bank.receive(opening, value={"id": "later"}, who="outside", why="the webhook came")
    assert bank.last()[1]["value"] == {"id": "later"}
    bank.world.advance(2 * HOUR)
    assert bank.last()[1]["status"] == "ok"


def test_nobody_completes_it_in_time(bank):
    [opening] = bank.charge().opened
    hold(bank, opening)
    bank.world.advance(2 * HOUR)
    event = bank.last()[1]
    assert (event["status"], event["code"]) == ("timeout", "effects.not_completed")
    late = bank.receive(opening, who="outside", why="too late").outcomes[0]
    assert late.error.code == "kernel.receipt_late"
    refused = [record for record in bank.records() if isinstance(record, RefusedRecord)]
    assert [record.code for record in refused] == ["kernel.receipt_late"]


def test_one_that_was_not_completed_is_a_dead_letter_and_can_be_tried_again(bank):
    [opening] = bank.charge(key="k").opened
    hold(bank, opening, MINUTE)
    bank.world.advance(HOUR)
    receipt = len(bank.records())
    letter = next(
        at for at in range(receipt, 0, -1) if "exhausted" in getattr(bank.records()[at - 1], "extras", {})
    )
    [again] = bank.world.control("effect.retry", letter=letter).opened
    assert again.key == "k"


def test_a_second_completion_is_refused_and_recorded(bank):
    [opening] = bank.charge().opened
    hold(bank, opening)
    bank.receive(opening, who="outside", why="first")
    again = bank.receive(opening, who="outside", why="again").outcomes[0]
    assert again.error.code == "kernel.receipt_late"
    assert again.height


def test_a_completion_of_another_world_is_refused_and_recorded(make_bank):
    one, two = make_bank(), Bank(KernelWorld(document(), PROGRAMS, seed=7))
    [here], [there] = one.charge().opened, two.charge().opened
    hold(one, here)
    foreign = one.receive(there._replace(height=here.height), who="outside", why="lost").outcomes[0]
    assert foreign.error.code == "kernel.receipt_foreign"
    assert one.intents() == [here.height]


def test_only_an_adapter_that_has_the_intent_hands_it_over(bank):
    [opening] = bank.charge().opened
    person = hold(bank, opening, who="ada", why="because").outcomes[0]
    assert person.error.code == "kernel.receipt_status"
    hold(bank, opening)
    assert hold(bank, opening).outcomes[0].error.code == "kernel.receipt_late"


def test_an_intent_outside_holds_no_module_back(make_bank):
    """The limit is of intents that adapters have; one that waits outside is none of them."""
    bank = make_bank(order={"open_max": 1})
    [first] = bank.charge(order="a").opened
    assert bank.charge(order="b").opened == []
    beats = [hold(bank, first), *bank.world.settle()]
    assert [opening.cell for beat in beats for opening in beat.opened] == [b"b"]
    assert bank.book.counts == {"bank/Order": 1}


def test_its_cell_or_a_person_cancels_it(bank):
    [one], [two] = bank.charge(key="k", order="a").opened, bank.charge(order="b").opened
    hold(bank, one)
    hold(bank, two)
    bank.ask(cancel=["k"], order="a")
    bank.world.control("effect.cancel", intent=two.height)
    bank.world.settle()
    assert [bank.last(name)[1]["status"] for name in "ab"] == ["cancelled", "cancelled"]
    bank.world.advance(2 * HOUR)
    assert bank.book.timers == 0


@pytest.mark.parametrize("after", [b"\xff", None, encode("soon"), encode(-1)])
def test_a_time_that_is_none_ends_at_once(bank, after):
    [opening] = bank.charge().opened
    hold(bank, opening, after)
    bank.world.settle()
    assert bank.last()[1]["status"] == "timeout"


def test_both_ways_write_the_same():
    def run(is_fast):
        bank = Bank(KernelWorld(document(), PROGRAMS, fast=is_fast))
        [one], [two] = bank.charge(order="a").opened, bank.charge(order="b").opened
        hold(bank, one)
        hold(bank, two)
        bank.receive(one)
        bank.world.advance(2 * HOUR)
        return bank.world.frames

    assert run(True) == run(False)


def test_a_token_names_the_world_the_height_and_the_intent():
    world, digest = bytes(range(16)), bytes(range(32))
    token = intent_token(world, 77, digest)
    assert parse_token(token) == Token(world, 77, digest)


@pytest.mark.parametrize("given", ["", "x", "a" * 74, "not base64!", None, 5, "ü" * 75])
def test_what_is_no_token_is_said_so(given):
    with pytest.raises(Rejected) as refused:
        parse_token(given)
    assert refused.value.code == "effects.token"
