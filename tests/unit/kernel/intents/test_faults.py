"""What once went wrong with intents, each told by its docstring; and bad input that must change nothing."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.items import EventItem, ReceiptItem, RefusedItem
from cellule.kernel.journal.codes import Settled
from cellule.kernel.journal.records import ControlRecord, EmittedRecord, ReceiptRecord
from cellule.values.cbor import encode
from tests.support.frames import with_change

SECOND = 1_000_000_000
HOUR = 3_600 * SECOND
NEEDY = {"bank.charge": {"params": "bank/Charge@1", "receipt": "bank/Charged@1", "needs_grant": True}}
TILL = {"till": {"effects": ["bank.charge", "timer.set"]}}


def ask_first(**more):
    return {"rules": [{"name": "ask", "when": "true", "then": "require_approval", "reason": "all", **more}]}


def refusal(beat):
    [outcome] = beat.outcomes
    assert isinstance(outcome, RefusedItem)
    return outcome.error.code


# Approvals


def test_an_approved_timer_is_armed_and_not_dispatched(make_bank):
    """It was handed to adapters, none of which performs `timer.set`."""
    bank = make_bank(policy=ask_first(expires_ns=HOUR))
    bank.ask(("timer.set", {"after_ns": SECOND}))
    [height] = bank.intents()
    assert bank.world.control("effect.approve", intent=height).opened == []
    bank.restore_in_place()
    assert (bank.book.parked, bank.book.timers) == (0, 1)
    bank.world.advance(2 * SECOND)
    assert bank.last()[0] == "sys/TimerFired@1"
    bank.world.advance(2 * HOUR)
    assert len(bank.heard()) == 2


def test_what_has_lost_its_grant_cannot_be_approved(make_bank, bank_document):
    """It was dispatched without any grant, and so without limits."""
    slots = {"cap_slots": {"pay": "till"}}
    bank = make_bank(order=slots, capabilities=TILL, policy=ask_first())
    bank.charge(slot="pay")
    [height] = bank.intents()
    bank.world.deploy(bank_document(policy=ask_first()))
    assert refusal(bank.world.control("effect.approve", intent=height)) == "kernel.grant_gone"
    ended = {"till": {**TILL["till"], "expires_ns": 1}}
    bank.world.deploy(bank_document(order=slots, capabilities=ended, policy=ask_first()))
    assert refusal(bank.world.control("effect.approve", intent=height)) == "kernel.grant_expired"
    assert bank.book.parked == 1
    bank.world.deploy(bank_document(order=slots, capabilities=TILL, policy=ask_first()))
    [opening] = bank.world.control("effect.approve", intent=height).opened
    assert opening.grant["name"] == "till"


def test_what_its_grant_does_not_give_any_more_is_not_asked_for_again(make_bank, bank_document):
    """A person lets a dead letter happen again: what was decided is decided anew."""
    slots = {"cap_slots": {"pay": "till"}}
    bank = make_bank(order=slots, capabilities=TILL)
    [opening] = bank.charge(slot="pay").opened
    letter = bank.receive(opening, "failed", exhausted=True).outcomes[0].height
    ended = {"till": {**TILL["till"], "expires_ns": 1}}
    bank.world.deploy(bank_document(order=slots, capabilities=ended))
    assert refusal(bank.world.control("effect.retry", letter=letter)) == "kernel.grant_expired"
    bank.world.deploy(bank_document(order=slots, capabilities=TILL))
    [again] = bank.world.control("effect.retry", letter=letter).opened
    assert again.grant["name"] == "till"


def test_those_who_wait_for_an_approval_that_ends_are_told_with_it(make_bank):
    """Their receipts were replayed after what the beat before had emitted, and written before it."""
    bank = make_bank(policy=ask_first(expires_ns=HOUR))
    for name in "ab":
        bank.charge(key="k", order=name)
    bank.world.now_ns += HOUR
    denied = {"order": "a", "asks": [["bank.charge", {"amount": 1}, None, "k"]]}
    bank.world.control("pause")
    bank.world.beat([EventItem("bank/Ask@1", encode(denied))])
    bank.world.control("resume")
    bank.world.settle()
    assert [row[1]["status"] for row in bank.heard("b")[1:]] == ["denied"]
    assert any("fired" in record.extras for record in bank.records() if isinstance(record, ReceiptRecord))


# Dead letters


@pytest.fixture
def letter(make_bank):
    bank = make_bank(order={"cap_slots": {"pay": "till"}}, capabilities=TILL, effects=NEEDY)
    [opening] = bank.charge(slot="pay", key="k").opened
    return bank, bank.receive(opening, "failed", exhausted=True).outcomes[0].height


def test_a_retry_that_is_refused_is_refused_whole(letter, bank_document):
    """Its letter was gone, its Control recorded and its intent without a decision."""
    bank, height = letter
    bank.world.deploy(bank_document(effects=NEEDY))
    assert refusal(bank.world.control("effect.retry", letter=height)) == "kernel.slot_unknown"
    assert [record.verb for record in bank.records() if isinstance(record, ControlRecord)] == ["deploy"]
    bank.world.deploy(bank_document(order={"cap_slots": {"pay": "till"}}, capabilities=TILL, effects=NEEDY))
    assert bank.world.control("effect.retry", letter=height).opened


def test_a_letter_waits_while_its_key_is_with_the_outside(letter):
    """The intent that was out lost those who waited for its receipt."""
    bank, height = letter
    bank.world.advance(8 * 24 * HOUR)
    [second] = bank.charge(slot="pay", key="k", order="b").opened
    bank.charge(slot="pay", key="k", order="c")
    assert refusal(bank.world.control("effect.retry", letter=height)) == "kernel.key_open"
    bank.receive(second)
    bank.world.settle()
    assert bank.last("c")[1]["status"] == "ok"
    assert bank.world.control("effect.retry", letter=height).opened


def test_a_letter_of_an_effect_that_is_gone_is_kept(letter, bank_document):
    bank, height = letter
    quiet = {"effects_emitted": [], "event": ["bank/Ask@1", "bank/Tick@1"]}
    bank.world.deploy(bank_document(order=quiet, effects={}))
    assert refusal(bank.world.control("effect.retry", letter=height)) == "kernel.effect_unknown"


def test_only_a_failure_leaves_a_dead_letter(bank):
    first, second = bank.ask(("bank.charge", {"amount": 1}), ("bank.charge", {"amount": 1})).opened
    bank.receive(first, exhausted=True)
    bank.receive(second, "failed", exhausted=True)
    assert [
        record.extras.get("exhausted")
        for record in bank.records()
        if isinstance(record, ReceiptRecord) and record.extras
    ] == [True]


def test_a_journal_that_retries_what_is_no_letter_is_corrupted(letter):
    bank, height = letter
    bank.world.control("effect.retry", letter=height)
    frame = bank.world.frames[-1]

    def lie(fields):
        fields["arguments"]["letter"] = height - 1

    with pytest.raises(Corrupted, match="there is no such dead letter of an effect"):
        bank.world.restored(frames=[*bank.world.frames[:-1], with_change(frame, 0, lie)])


# Limits


def test_a_paused_beat_that_writes_nothing_leaves_no_trace(make_bank):
    """A module at its limit kept an empty list of held cells, which the journal does not know."""
    bank = make_bank(order={"open_max": 1, "event": ["bank/Ask@1", "bank/Tick@1", "sys/StepFailed@1"]})
    bank.charge(order="a")
    bank.world.control("pause")
    ledger = bank.world.world.ledger
    from cellule.kernel.state.cells import EVENT_MESSAGE, Message

    message = Message(1, EVENT_MESSAGE, "bank/Tick@1", encode({"order": "z"}), 0, None)
    ledger.pending.append((message, [("bank/Order", b"z")]))
    assert bank.world.beat().frame is None
    assert ledger.held == {}
    ledger.pending.clear()


def test_a_deploy_that_raises_the_limit_lets_held_cells_run(make_bank, bank_document):
    """They waited for a receipt although their module was below its new limit."""
    bank = make_bank(order={"open_max": 1})
    for name in "abc":
        bank.charge(order=name)
    assert bank.heard("c") == []
    beat = bank.world.deploy(bank_document(order={"open_max": 3}))
    assert len(beat.opened) == 2
    assert bank.book.over == {"bank/Order"}
    assert bank.world.world.ledger.held == {}


def test_held_cells_of_two_modules_come_back_in_the_same_order_after_a_restore(
    make_bank, bank_document, monkeypatch
):
    """They came back in the order in which the modules had reached their limits, which a snapshot forgets."""
    monkeypatch.setattr("cellule.kernel.state.ledger.HELD_RELEASE_MAX", 1)
    bank = make_bank(order={"open_max": 1}, clerk={"open_max": 1})
    for schema in ("bank/Ask@1", "bank/Tell@1"):
        for name in "abcd":
            bank.ask(("bank.charge", {"amount": 1}), schema=schema, order=name)
    assert list(bank.world.world.ledger.held) == ["bank/Order", "bank/Clerk"]
    bank.world.snapshot()
    bank.world.deploy(bank_document(order={"open_max": 9}, clerk={"open_max": 9}))
    bank.world.settle()
    assert bank.world.world.ledger.held == {}


def test_what_the_kernel_writes_is_no_argument(bank):
    assert refusal(bank.world.control("deploy", under=["bank/Order"])) == "kernel.argument"


def test_a_cell_with_too_many_intents_cannot_wait_for_more(make_bank, monkeypatch):
    for module in ("gate", "open"):
        monkeypatch.setattr(f"cellule.kernel.decide.intents.{module}.CELL_INTENTS_MAX", 2)
    bank = make_bank()
    bank.charge(key="k", order="a")
    bank.ask(*[("bank.charge", {"amount": 1}, None, "k")] * 3, order="b")
    bank.world.settle()
    assert bank.last("b")[1]["code"] == "kernel.cell_intents"
    assert len(bank.intents("b")) == 2


def test_too_many_that_wait_for_one_key_are_denied(make_bank, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.intents.open.WAITERS_MAX", 1)
    bank = make_bank()
    for name in "abc":
        bank.charge(key="k", order=name)
    bank.world.settle()
    assert bank.last("c")[1]["code"] == "kernel.waiters"


def test_a_cascade_of_receipts_is_stopped_and_told(make_bank, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.intents.settle.DEPTH_MAX", 3)
    bank = make_bank(policy={"rules": [], "default": "deny"})
    bank.ask(("bank.charge", {"amount": 1}), again=50)
    bank.world.settle()
    assert len(bank.heard()) == 4
    [stopped] = [record for record in bank.records() if isinstance(record, EmittedRecord)]
    assert isinstance(bank.records()[stopped.cause - 1], ReceiptRecord)


def test_whoever_subscribed_hears_of_a_stopped_cascade_of_receipts(make_bank, bank_document, monkeypatch):
    monkeypatch.setattr("cellule.kernel.decide.intents.settle.DEPTH_MAX", 3)
    changes = bank_document(clerk={})
    heard = [*changes["modules"]["bank/Clerk@1"]["event"], "sys/CascadeStopped@1"]
    route = {"event": "sys/CascadeStopped@1", "module": "bank/Clerk@1", "key_field": "module"}
    routing = {"subscriptions": [*changes["routing"]["subscriptions"], route]}
    bank = make_bank(clerk={"event": heard}, routing=routing, policy={"rules": [], "default": "deny"})
    bank.ask(("bank.charge", {"amount": 1}), again=50)
    bank.world.settle()
    schema, event = bank.last("bank/Order", "bank/Clerk")
    assert (schema, event["key"], event["depth"]) == ("sys/CascadeStopped@1", b"o1", 4)


# Receipts


def test_those_who_wait_for_an_unfit_receipt_hear_of_it_by_their_own_names(make_bank):
    """Those who waited got the first one's event, with its cell's name."""
    bank = make_bank(clerk={})
    asked = ("bank.charge", {"amount": 1}, None, "k")
    [opening] = bank.ask(asked, schema="bank/Tell@1", order="a").opened
    bank.ask(asked, schema="bank/Tell@1", order="b")
    bank.receive(opening, value={"id": 7})
    bank.ask(asked, schema="bank/Tell@1", order="c")
    bank.world.settle()
    for name in "abc":
        schema, event = bank.last(name, "bank/Clerk")
        assert schema == "sys/EffectReceiptRejected@1"
        assert (event["module"], event["key"]) == ("bank/Clerk", name.encode())


def test_a_timer_with_an_idempotency_key_fires_for_all_who_set_it(bank):
    for name in "ab":
        bank.ask(("timer.set", {"after_ns": SECOND, "key": "t"}, None, "k"), order=name)
    bank.world.advance(2 * SECOND)
    assert [bank.last(name)[0] for name in "ab"] == ["sys/TimerFired@1"] * 2
    assert bank.last("a")[1]["intent_id"] != bank.last("b")[1]["intent_id"]


@pytest.mark.parametrize("height", [-1, 0, 10**6, 1 << 70, "3", None])
def test_a_receipt_for_an_impossible_height_is_refused(bank, height):
    """It left the world poisoned."""
    [opening] = bank.charge().opened
    beat = bank.world.beat([ReceiptItem(opening.intent, height, "ok", encode({"id": "x"}))])
    assert refusal(beat) == "kernel.receipt_late"
    assert bank.receive(opening).outcomes[0].height


def test_texts_that_cannot_be_written_are_replaced(bank):
    [opening] = bank.charge().opened
    bank.receive(opening, "failed", code="bank.\udc80", text="bad \udcff byte")
    assert bank.last()[1]["text"] == "bad ? byte"


# Requests


@pytest.mark.parametrize(
    "effect",
    [
        "http.request",
        ("bank.charge", b"\xa0"),
        ("bank.charge", {}, None, None),
        (7, b"", None, None),
        ("bank.charge", b"\xa0", 7, None),
        ("bank.charge", b"\xa0", None, 7),
    ],
)
def test_a_request_of_the_wrong_shape_fails_the_step(make_bank, make_world, bank_document, effect):
    """It left the world poisoned."""
    from tests.support.kernel_world import Did, FunctionPrograms

    programs = FunctionPrograms({"bank/Order": lambda *_: Did({"heard": []}, effects=[effect])})
    world = make_world(bank_document(), programs)
    [step] = world.send("bank/Tick@1", {"order": "a"}).steps
    assert step.code == "kernel.effect_shape"


def test_an_idempotency_key_that_cannot_be_written_fails_the_step(make_world, bank_document):
    """It left the world poisoned."""
    from tests.support.kernel_world import Did, FunctionPrograms

    effect = ("bank.charge", encode({"amount": 1}), None, "\udc80")
    programs = FunctionPrograms({"bank/Order": lambda *_: Did({"heard": []}, effects=[effect])})
    world = make_world(bank_document(), programs)
    [step] = world.send("bank/Tick@1", {"order": "a"}).steps
    assert step.code == "kernel.effect_key"


def test_a_control_whose_words_cannot_be_written_is_refused(bank):
    from cellule.kernel.items import ControlItem

    assert refusal(bank.world.beat([ControlItem("pause", "ada", "\udc80", {})])).startswith("values.")


def test_a_person_may_settle_what_waits_for_an_approval(make_bank):
    bank = make_bank(policy=ask_first(expires_ns=HOUR))
    bank.charge()
    [height] = bank.intents()
    entry = next_value(bank.book.find(height))
    bank.world.beat([ReceiptItem(entry.id, height, "ok", encode({"id": "x"}), who="ada", why="by hand")])
    assert bank.last()[1]["status"] == "ok"
    assert [record.status for record in bank.records() if isinstance(record, ReceiptRecord)] == [Settled.OK]
    assert bank.world.beat().wake is None


def next_value(generator):
    with pytest.raises(StopIteration) as stop:
        next(generator)
    return stop.value.value


def test_a_dead_letter_of_an_effect_is_redriven_and_dismissed_like_one_of_an_event(letter):
    bank, height = letter
    [again] = bank.world.control("letter.redrive", letter=height).opened
    at = bank.receive(again, "failed", exhausted=True).outcomes[0].height
    assert not bank.world.control("letter.dismiss", letter=at).opened
    assert refusal(bank.world.control("letter.redrive", letter=at)) == "kernel.no_letter"
    assert bank.world.world.ledger.dead_letters.is_empty


def test_deleting_a_cell_by_hand_abandons_what_it_asked_for(make_bank):
    bank = make_bank()
    [opening] = bank.charge().opened
    beat = bank.world.control("cell.delete", module="bank/Order", key=opening.cell)
    assert beat.closed == [opening.intent]
    assert bank.book.counts == {}
    assert refusal(bank.receive(opening)) == "kernel.receipt_late"
