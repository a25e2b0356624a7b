"""What `check` says of a snapshot whose parts about intents do not fit each other, one rule at a time."""

from __future__ import annotations

import pytest

from cellule.kernel.index.keys import pair_key
from cellule.kernel.need import Nodes
from cellule.kernel.prove.check_intents import BookRows, wrong_book
from cellule.kernel.state.intent_book import Book
from cellule.kernel.state.intent_id import idempotency_hash, params_digest
from cellule.kernel.state.rows import KnownKey, KnownReceipt, OpenIntent, ScheduleRow, TimerRow

ORDER = "bank/Order"
PARAMS = [b"\xa0"]
DIGEST = params_digest(PARAMS)
PLACE = idempotency_hash(ORDER, "bank.charge", "k")
DUE = pair_key(5, 1)
DUE_LATER = pair_key(7, 1)
RECEIPT = KnownReceipt(0, "bank/Charged@1", PARAMS)


def intent(status, **extras):
    return OpenIntent(b"id", ORDER, b"o1", 1, "bank.charge", status, {"params": PARAMS, **extras})


def timer(what, number=1):
    return TimerRow(what, ORDER, b"o1", number)


def known(height=1, receipt=None, waiters=(), params=DIGEST, since_ns=9):
    return KnownKey(height, since_ns, receipt, list(waiters), params)


def wrong(intents=None, timers=None, keys=None, ages=None, **book):
    """What is wrong with these rows; what the book counts is right unless it is given."""
    intents = intents or {}
    made = Book(Nodes(0))
    for height, each in intents.items():
        made.add(height, each)
    for name, value in book.items():
        setattr(made, name, value)
    keys = keys or {}
    if ages is None:
        ages = {pair_key(each.since_ns, each.height): place for place, each in keys.items()}
    return wrong_book(made, BookRows(intents, timers or {}, keys, ages))


KEYED = intent("open", key="k")
WAITS = intent("waiting", key="k", same=1)
SOUND = {
    "nothing": {},
    "one that an adapter has": {"intents": {1: intent("open")}},
    "a module at its limit": {"intents": {1: intent("open")}, "over": {ORDER}},
    "a timer": {"intents": {1: intent("timer", due=DUE)}, "timers": {DUE: timer("intent")}},
    "one that waits outside": {"intents": {1: intent("outside", due=DUE)}, "timers": {DUE: timer("outside")}},
    "an approval without an end": {"intents": {1: intent("parked")}},
    "an approval with one": {"intents": {1: intent("parked", due=DUE)}, "timers": {DUE: timer("approval")}},
    "the timer of a cell": {"timers": {DUE: timer("ttl")}},
    "a key": {"intents": {1: KEYED}, "keys": {PLACE: known()}},
    "an open key that is old": {"intents": {1: KEYED}, "keys": {PLACE: known()}, "ages": {}},
    "a key that one waits for": {"intents": {1: KEYED, 2: WAITS}, "keys": {PLACE: known(waiters=[2])}},
    "a key with its receipt": {"keys": {PLACE: known(receipt=RECEIPT)}},
    "a key whose waiters are answered later": {
        "intents": {2: WAITS}, "keys": {PLACE: known(receipt=RECEIPT, waiters=[2])},
        "timers": {DUE: TimerRow("answer", ORDER, PLACE, 0)},
    },
    "an armed schedule": {
        "schedules": {"tick": ScheduleRow(b"", 5, False)},
        "timers": {DUE: TimerRow("schedule", "tick", b"", 0)},
    },
    "an armed schedule with a run that waits": {
        "schedules": {"tick": ScheduleRow(b"", 5, False, 3)},
        "timers": {DUE: TimerRow("schedule", "tick", b"", 0)},
    },
    "a schedule that is never due": {"schedules": {"tick": ScheduleRow(b"", 0, False)}},
    "a paused schedule": {"schedules": {"tick": ScheduleRow(b"", 0, True)}},
}  # fmt: skip


@pytest.mark.parametrize("case", SOUND)
def test_a_book_that_fits_is_sound(case):
    assert wrong(**SOUND[case]) is None


COUNTS = "the counts of open intents are not those of the intents"
TIMERS = "the timers of intents are not those of the intents"
SCHEDULES = "the timers of schedules are not those of the schedules"
WRONG = {
    "a denied one": ({"intents": {1: intent("denied")}}, "intent 1 is denied and has no receipt"),
    "one too many": ({"intents": {1: intent("open")}, "counts": {ORDER: 2}}, COUNTS),
    "one too few": ({"intents": {1: intent("open"), 2: intent("open")}, "counts": {ORDER: 1}}, COUNTS),
    "of another module": ({"intents": {1: intent("open")}, "counts": {"bank/Clerk": 1}}, COUNTS),
    "no approval": ({"parked": 1}, COUNTS),
    "an approval not counted": ({"intents": {1: intent("parked")}, "parked": 0}, COUNTS),
    "a limit of nobody": ({"over": {ORDER}},
                 "a module without open intents is at its limit of them"),
    "an open one with a timer": (
        {"intents": {1: intent("open", due=DUE)}, "timers": {DUE: timer("approval")}},
        "intent 1 is open, which does not fit its timer",
    ),
    "a timer without a time": (
        {"intents": {1: intent("timer")}}, "intent 1 is timer, which does not fit its timer",
    ),
    "one that waits outside without an end": (
        {"intents": {1: intent("outside")}}, "intent 1 is outside, which does not fit its timer",
    ),
    "a timer that is not armed": ({"intents": {1: intent("timer", due=DUE)}}, TIMERS),
    "a timer of nobody": ({"timers": {DUE: timer("intent")}}, TIMERS),
    "a timer of another kind": (
        {"intents": {1: intent("timer", due=DUE)}, "timers": {DUE: timer("outside")}}, TIMERS,
    ),
    "an end of another kind": (
        {"intents": {1: intent("outside", due=DUE)}, "timers": {DUE: timer("intent")}}, TIMERS,
    ),
    "a timer of another intent": (
        {"intents": {1: intent("timer", due=DUE)}, "timers": {DUE: timer("intent", 2)}}, TIMERS,
    ),
    "a timer for another time": (
        {"intents": {1: intent("timer", due=DUE)}, "timers": {DUE_LATER: timer("intent")}}, TIMERS,
    ),
    "a schedule that is not armed": ({"schedules": {"tick": ScheduleRow(b"", 5, False)}}, SCHEDULES),
    "a schedule that is not there": ({"timers": {DUE: TimerRow("schedule", "tick", b"", 0)}}, SCHEDULES),
    "a schedule armed for another time": (
        {"schedules": {"tick": ScheduleRow(b"", 6, False)},
         "timers": {DUE: TimerRow("schedule", "tick", b"", 0)}}, SCHEDULES,
    ),
    "a paused schedule that is armed": (
        {"schedules": {"tick": ScheduleRow(b"", 5, True)},
         "timers": {DUE: TimerRow("schedule", "tick", b"", 0)}}, "a schedule is paused, and armed or waiting",
    ),
    "a paused schedule with a run that waits": (
        {"schedules": {"tick": ScheduleRow(b"", 0, True, 3)}}, "a schedule is paused, and armed or waiting",
    ),
    "a key of nobody": ({"keys": {PLACE: known()}}, "intent 1 does not stand for its idempotency key"),
    "a key of one that waits": (
        {"intents": {2: WAITS}, "keys": {PLACE: known(2)}}, "intent 2 does not stand for its idempotency key",
    ),
    "a key of one without": (
        {"intents": {1: intent("open")}, "keys": {PLACE: known()}},
        "intent 1 does not stand for its idempotency key",
    ),
    "a key of one with another": (
        {"intents": {1: intent("open", key="other")}, "keys": {PLACE: known()}},
        "intent 1 does not stand for its idempotency key",
    ),
    "a key for other params": (
        {"intents": {1: KEYED}, "keys": {PLACE: known(params=bytes(16))}},
        "intent 1 asks for something else than its idempotency key stands for",
    ),
    "one that waits for what has come": (
        {"intents": {2: WAITS}, "keys": {PLACE: known(receipt=RECEIPT, waiters=[2])}},
        "intent 2 waits for a receipt that has come",
    ),
    "one that waits and is not there": (
        {"intents": {1: KEYED}, "keys": {PLACE: known(waiters=[2])}}, "intent 2 does not wait for intent 1",
    ),
    "one that waits and is open": (
        {"intents": {1: KEYED, 2: KEYED}, "keys": {PLACE: known(waiters=[2])}},
        "intent 2 does not wait for intent 1",
    ),
    "one that waits for another key": (
        {"intents": {1: KEYED, 2: intent("waiting", key="other")}, "keys": {PLACE: known(waiters=[2])}},
        "intent 2 does not wait for intent 1",
    ),
    "one that waits with other params": (
        {"intents": {1: KEYED, 2: intent("waiting", key="k", params=[b"\x80"])},
         "keys": {PLACE: known(waiters=[2])}}, "intent 2 waits for the receipt of other params",
    ),
    "one that waits without a key": (
        {"intents": {1: intent("waiting")}}, "intent 1 waits and has no idempotency key",
    ),
    "a key that nobody remembers": (
        {"intents": {1: KEYED}}, "intent 1 is not known to its idempotency key",
    ),
    "a key that another stands for": (
        {"intents": {1: KEYED, 2: KEYED}, "keys": {PLACE: known()}},
        "intent 2 is not known to its idempotency key",
    ),
    "an open one whose key has its receipt": (
        {"intents": {1: KEYED}, "keys": {PLACE: known(receipt=RECEIPT)}},
        "intent 1 is not known to its idempotency key",
    ),
    "one that waits and is not known": (
        {"intents": {1: KEYED, 2: WAITS}, "keys": {PLACE: known()}},
        "intent 2 is not known to its idempotency key",
    ),
    "the age of no key": (
        {"ages": {DUE: PLACE}}, "an idempotency key is remembered for another time",
    ),
    "the age of another time": (
        {"intents": {1: KEYED}, "keys": {PLACE: known()}, "ages": {pair_key(8, 1): PLACE}},
        "an idempotency key is remembered for another time",
    ),
    "a receipt without an age": (
        {"keys": {PLACE: known(receipt=RECEIPT)}, "ages": {}}, "an idempotency key would never be forgotten",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_named(case):
    rows, what = WRONG[case]
    assert wrong(**rows) == what


@pytest.mark.parametrize("count", [0, 2])
def test_the_timers_that_intents_wait_for_are_counted(count):
    """A book counts them by a name that the rows have, too."""
    made = Book(Nodes(0))
    made.add(1, intent("timer", due=DUE))
    made.timers = count
    assert wrong_book(made, BookRows({1: intent("timer", due=DUE)}, {DUE: timer("intent")}, {}, {})) == COUNTS
