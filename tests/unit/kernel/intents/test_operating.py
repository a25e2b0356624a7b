"""Approvals, cancels, and modules that have as many open intents as they may."""

from __future__ import annotations

import pytest

SECOND = 1_000_000_000
ASK_FIRST = {"rules": [{
    "name": "ask", "when": "effect.params.amount > 10", "then": "require_approval", "reason": "over 10",
    "expires_ns": 3_600 * SECOND,
}]}  # fmt: skip


@pytest.fixture
def parked(make_bank):
    bank = make_bank(policy=ASK_FIRST)
    bank.charge(50)
    [height] = bank.world.entry("bank/Order", b"o1").get("intents")
    return bank, height


def test_an_approved_intent_is_dispatched(parked):
    bank, height = parked
    bank.restore_in_place()
    [opening] = bank.world.control("effect.approve", intent=height).opened
    assert opening.height == height
    assert bank.book.parked == 0
    bank.receive(opening)
    assert bank.last()[1]["status"] == "ok"


def test_a_denied_intent_tells_its_cell_why(parked):
    bank, height = parked
    bank.world.control("effect.deny", intent=height)
    event = bank.last()[1]
    assert (event["status"], event["code"], event["text"]) == ("denied", "kernel.approval_denied", "because")


def test_an_approval_that_nobody_gives_expires(parked):
    bank, _ = parked
    bank.world.advance(3_601 * SECOND)
    assert bank.last()[1]["code"] == "kernel.approval_expired"
    assert bank.book.parked == 0


def test_an_approval_in_time_is_not_undone_by_its_timer(parked):
    bank, height = parked
    [opening] = bank.world.control("effect.approve", intent=height).opened
    bank.world.advance(7_200 * SECOND)
    bank.receive(opening)
    assert [event["status"] for _, event in bank.heard()[1:]] == ["ok"]


@pytest.mark.parametrize("verb", ["effect.approve", "effect.deny"])
def test_only_parked_intents_are_approved_or_denied(bank, verb):
    [opening] = bank.charge().opened
    assert (
        bank.world.control(verb, intent=opening.height).outcomes[0].error.code == "kernel.intent_not_parked"
    )
    assert bank.world.control(verb, intent=1).outcomes[0].error.code == "kernel.intent_not_open"
    assert bank.world.control(verb).outcomes[0].error.code == "kernel.argument"


def test_too_many_approvals_are_refused(make_bank, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.intents.gate.APPROVALS_OPEN_MAX", 1)
    bank = make_bank(policy=ASK_FIRST)
    bank.charge(50)
    bank.charge(60)
    bank.world.settle()
    assert bank.last()[1]["code"] == "kernel.approvals_full"


def test_a_cancelled_intent_stops_its_adapter_and_its_late_receipt_is_refused(bank):
    [opening] = bank.charge().opened
    beat = bank.world.control("effect.cancel", intent=opening.height)
    assert beat.closed == [opening.intent]
    assert bank.last()[1]["status"] == "cancelled"
    assert bank.receive(opening).outcomes[0].error.code == "kernel.receipt_late"


def test_a_cancelled_approval_has_no_row_to_stop(parked):
    bank, height = parked
    assert bank.world.control("effect.cancel", intent=height).closed == []
    assert bank.last()[1]["status"] == "cancelled"


# Dead letters


@pytest.mark.parametrize("verb", ["effect.retry", "letter.redrive"])
def test_no_more_dead_letters_are_tried_again_at_a_time_than_a_cell_may_have_open(bank, monkeypatch, verb):
    """All of them were opened at once: a list of any length in the row of one cell."""
    opened = [bank.charge(key=f"k{number}").opened[0] for number in range(3)]
    letters = [bank.receive(each, "failed", exhausted=True).outcomes[0].height for each in opened]
    monkeypatch.setattr("cellule.kernel.decide.intents.operate.CELL_INTENTS_MAX", 2)
    beats = [bank.world.control(verb, letter=letter) for letter in letters]
    assert [len(beat.opened) for beat in beats] == [1, 1, 0]
    assert beats[2].outcomes[0].error.code == "kernel.cell_intents"
    bank.receive(beats[0].opened[0])
    assert len(bank.world.control(verb, letter=letters[2]).opened) == 1


def test_a_dead_letter_is_not_tried_again_before_all_who_waited_for_it_are_told(bank, monkeypatch):
    """The key was taken from those who still waited, and they would have waited for ever."""
    for place in ("journal.writer", "decide.rounds", "fast.steps"):
        monkeypatch.setattr(f"cellule.kernel.{place}.FRAME_BYTES_CLOSE", 3_000)
    [opening] = bank.charge(key="k", order="first").opened
    for number in range(20):
        bank.charge(key="k", order=f"w{number}")
    bank.world.settle()
    beat = bank.receive(opening, "failed", text="x" * 1_000, exhausted=True)
    letter = beat.outcomes[0].height
    bank.world.control("pause")
    refused = bank.world.control("effect.retry", letter=letter)
    assert refused.outcomes[0].error.code == "kernel.key_open"
    bank.world.control("resume")
    bank.world.settle()
    assert all(bank.last(f"w{number}")[1]["status"] == "failed" for number in range(20))
    assert len(bank.world.control("effect.retry", letter=letter).opened) == 1


# Backpressure


@pytest.fixture
def narrow(make_bank):
    return make_bank(order={"open_max": 2})


def test_events_of_a_module_at_its_limit_wait_and_receipts_let_them_go_on(narrow):
    bank = narrow
    opened = [opening for name in "abcde" for opening in bank.charge(order=name).opened]
    assert len(opened) == 2
    assert bank.book.over == {"bank/Order"}
    assert [bank.heard(name) for name in "cde"] == [[], [], []]
    while opened:
        for beat in [bank.receive(opened.pop(0)), *bank.world.settle()]:
            opened += beat.opened
    assert [bank.last(name)[1]["status"] for name in "abcde"] == ["ok"] * 5
    assert bank.book.over == set()
    assert bank.world.world.ledger.held == {}


def test_held_cells_survive_a_restore(narrow):
    bank = narrow
    opened = [opening for name in "abcd" for opening in bank.charge(order=name).opened]
    bank.restore_in_place()
    assert list(bank.world.world.ledger.held["bank/Order"]) == [b"c", b"d"]
    while opened:
        for beat in [bank.receive(opened.pop(0)), *bank.world.settle()]:
            opened += beat.opened
    assert [bank.last(name)[1]["status"] for name in "abcd"] == ["ok"] * 4


def test_timers_and_controls_pass_a_module_at_its_limit(narrow):
    bank = narrow
    bank.ask(("timer.set", {"after_ns": SECOND}), order="t")
    for name in "abc":
        bank.charge(order=name)
    assert bank.heard("c") == []
    bank.world.advance(2 * SECOND)
    assert bank.last("t")[0] == "sys/TimerFired@1"
    bank.world.control("pause")
    bank.world.control("resume")


def test_cells_in_the_ring_are_held_when_their_module_reaches_the_limit(narrow):
    bank = narrow
    from cellule.kernel.items import EventItem
    from cellule.values.cbor import encode

    asks = [["bank.charge", {"amount": 1}, None, None]]
    items = [EventItem("bank/Ask@1", encode({"order": name, "asks": asks})) for name in "abcdef"]
    beat = bank.world.beat(items)
    assert len(beat.opened) == 2
    assert len(bank.world.world.ledger.held["bank/Order"]) == 4
    assert beat.more is False


def test_released_cells_that_ask_for_nothing_let_the_next_ones_run(make_bank):
    bank = make_bank(order={"open_max": 1})
    [opening] = bank.charge(order="a").opened
    for number in range(30):
        bank.world.send("bank/Tick@1", {"order": f"t{number}"})
    assert bank.heard("t0") == []
    bank.receive(opening)
    bank.world.settle()
    assert all(bank.heard(f"t{number}") for number in range(30))


def test_a_cell_that_is_released_while_its_module_is_at_its_limit_waits_for_its_turn(make_bank):
    bank = make_bank(order={"open_max": 1})
    bank.ask(("nothing.like_this", {}), order="halted")
    [opening] = bank.charge(order="a").opened
    assert bank.book.over == {"bank/Order"}
    beat = bank.world.control("cell.resume", module="bank/Order", key=b"halted")
    assert [type(each).__name__ for each in beat.outcomes] == ["Admitted"]
    assert [step.key for each in [beat, *bank.world.settle()] for step in each.steps] == []
    assert list(bank.world.world.ledger.held["bank/Order"]) == [b"halted"]
    beats = [bank.receive(opening), *bank.world.settle()]
    assert sorted(step.key for each in beats for step in each.steps) == [b"a", b"halted"]


def test_an_approval_brings_a_module_to_its_limit(make_bank):
    rules = [{"name": "ask", "when": "effect.params.amount > 10", "then": "require_approval"}]
    bank = make_bank(order={"open_max": 1}, policy={"rules": rules})
    bank.charge(11, order="a")
    assert bank.book.over == set()  # what waits for a person is with no adapter
    [opening] = bank.world.control("effect.approve", intent=bank.intents("a")[0]).opened
    assert bank.book.over == {"bank/Order"}
    beat = bank.charge(1, order="b")
    assert (beat.steps, beat.opened, bank.heard("b")) == ([], [], [])
    beats = [bank.receive(opening), *bank.world.settle()]
    assert sorted(step.key for each in beats for step in each.steps) == [b"a", b"b"]
    assert [each.cell for beat in beats for each in beat.opened] == [b"b"]


def test_an_approval_below_the_limit_holds_nobody(make_bank):
    rules = [{"name": "ask", "when": "effect.params.amount > 10", "then": "require_approval"}]
    bank = make_bank(order={"open_max": 2}, policy={"rules": rules})
    bank.charge(11, order="a")
    bank.world.control("effect.approve", intent=bank.intents("a")[0])
    assert bank.book.over == set()
    assert len(bank.charge(1, order="b").opened) == 1
    assert bank.book.over == {"bank/Order"}
