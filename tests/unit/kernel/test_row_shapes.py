"""What snapshots hold has its shape: one wrong field is enough to tell."""

from __future__ import annotations

import pytest

from cellule.kernel.state.branch import is_answer
from cellule.kernel.state.snapshot_schema import (
    is_bucket,
    is_call,
    is_cell,
    is_dead_letter,
    is_failed_intent,
    is_heights,
    is_held,
    is_intent,
    is_message,
    is_move,
    is_open,
    is_remembered_key,
    is_schedule,
    is_spent,
    is_spent_by,
    is_stopped,
    is_timer,
    wrong_part,
)
from cellule.values.cbor import decode
from cellule.values.cid import cid_of
from cellule.values.link import Link

MORE = {"params": [b"x"], "since_ns": 1}
INTENT = [bytes(32), "bank/Order", b"o1", 4, "bank.charge", "open", MORE]
KEY = [4, 1, None, [5, 9], bytes(16)]
MESSAGE = [4, 0, "bank/Ask@1", [b"x"], 0, None]
CALL = ["bank/Order", b"o1", 4, "token", "bank/Told@1"]
FAILED = {"born": 1, "height": 4, "kind": "bank.charge", "params": [b"x"]}
LETTER = ["bank/Order", b"o1", "bank.down", "503", MESSAGE]
RECEIPT = [0, "effect.bank/charge@1", [b"x"]]


def with_field(row, position, value):
    return [*row[:position], value, *row[position + 1 :]]


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, bytes(31)), (0, "x" * 32), (1, b"bank/Order"), (2, "o1"), (3, -1), (3, "4"), (4, None),
        (5, "lost"), (5, b"open"), (6, []), (6, {"params": [b"x"]}), (6, {"since_ns": 1}),
        (6, {**MORE, "unknown": 1}), (6, {**MORE, "since_ns": -1}), (6, {**MORE, "key": 7}),
    ],
)  # fmt: skip
def test_an_open_intent_with_one_wrong_field_is_none(position, value):
    assert is_intent(INTENT)
    assert not is_intent(with_field(INTENT, position, value))


@pytest.mark.parametrize("row", [INTENT[:-1], [*INTENT, 1], tuple(INTENT), None])
def test_an_open_intent_is_a_list_of_seven(row):
    assert not is_intent(row)


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, -1), (0, None), (1, -1), (1, "1"), (2, []), (2, 7), (2, RECEIPT[:2]), (2, tuple(RECEIPT)),
        (2, with_field(RECEIPT, 0, -1)), (2, with_field(RECEIPT, 1, b"x")), (2, with_field(RECEIPT, 2, 7)),
        (3, None), (3, ["5"]), (4, bytes(15)), (4, "x" * 16),
    ],
)  # fmt: skip
def test_a_remembered_key_with_one_wrong_field_is_none(position, value):
    assert is_remembered_key(KEY)
    assert is_remembered_key(with_field(KEY, 2, RECEIPT))
    assert not is_remembered_key(with_field(KEY, position, value))


@pytest.mark.parametrize("row", [KEY[:-1], [*KEY, 1], None])
def test_a_remembered_key_is_a_list_of_five(row):
    assert not is_remembered_key(row)


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, -1), (0, "4"), (1, -1), (1, None), (2, b"bank/Ask@1"), (3, b"x"), (3, 7), (4, -1), (4, "0"),
        (5, -1), (5, [1]), (5, [1, None, bytes(15)]), (5, [-1, None, None]), (5, [1, -1, None]),
        (5, [1, None, "x" * 16]), (5, (1, None, None)), (5, [3, "entry"]), (5, [-3, b"entry"]),
        (5, [3, b"entry", 1]), (5, CALL[:-1]),
    ],
)  # fmt: skip
def test_a_message_with_one_wrong_field_is_none(position, value):
    assert is_message(MESSAGE)
    assert is_message(with_field(MESSAGE, 5, 3))
    assert is_message(with_field(MESSAGE, 5, [3, 1, bytes(16)]))
    assert is_message(with_field(MESSAGE, 5, [3, b"entry"]))
    assert is_message(with_field(MESSAGE, 5, CALL))
    assert not is_message(with_field(MESSAGE, position, value))


@pytest.mark.parametrize(
    ("position", "value"), [(0, b"x"), (1, "o1"), (2, None), (3, b"503"), (4, MESSAGE[:-1]), (4, {})]
)
def test_a_dead_letter_with_one_wrong_field_is_none(position, value):
    assert is_dead_letter(LETTER)
    assert is_dead_letter(with_field(LETTER, 4, FAILED))
    assert not is_dead_letter(with_field(LETTER, position, value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("born", -1), ("height", -1), ("height", None), ("kind", b"x"), ("params", b"x"), ("key", 1),
        ("slot", 1), ("limits", 1), ("limits", {"attempts": -1}), ("unknown", 1),
    ],
)  # fmt: skip
def test_a_failed_intent_with_one_wrong_field_is_none(name, value):
    assert is_failed_intent({**FAILED, "key": "k", "slot": "pay", "limits": {"attempts": 1}})
    assert not is_failed_intent({**FAILED, name: value})


@pytest.mark.parametrize("name", FAILED)
def test_a_failed_intent_has_all_its_fields(name):
    assert not is_failed_intent({each: FAILED[each] for each in FAILED if each != name})


@pytest.mark.parametrize("row", [LETTER[:-1], [*LETTER, 1], tuple(LETTER), None])
def test_a_dead_letter_is_a_list_of_five(row):
    assert not is_dead_letter(row)


@pytest.mark.parametrize("row", [MESSAGE[:-1], [*MESSAGE, 1], tuple(MESSAGE), None])
def test_a_message_is_a_list_of_six(row):
    assert not is_message(row)


def test_an_index_without_rows_is_none_and_not_one_of_no_rows(world):
    saved = decode(world.cas[world.snapshot()])
    link = Link(cid_of(b"x"))
    assert wrong_part({**saved, "timers": [link, 1]}) is None
    assert wrong_part({**saved, "timers": [link, 0]}) == "timers"


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("height", -1), ("beat", "1"), ("now_ns", None), ("paused", 0), ("frame", bytes(31)),
        ("frame", "x" * 32), ("eras", []), ("eras", [1]), ("modules", []), ("modules", {"shop/Order": 1}),
    ],
)  # fmt: skip
def test_the_wrong_part_of_a_snapshot_is_named(world, part, value):
    world.send("shop/Paid@1", {"order": "o1"})
    saved = decode(world.cas[world.snapshot()])
    assert wrong_part(saved) is None
    assert wrong_part({**saved, part: value}) == part


SCHEDULE = [b"f", 5, False, 0]


@pytest.mark.parametrize(
    ("position", "value"), [(0, "f"), (0, None), (1, -1), (1, "5"), (2, 0), (2, None), (3, -1), (3, None)]
)
def test_a_schedule_with_one_wrong_field_is_none(position, value):
    assert is_schedule(SCHEDULE)
    assert not is_schedule(with_field(SCHEDULE, position, value))


@pytest.mark.parametrize("row", [SCHEDULE[:-1], [*SCHEDULE, 1], tuple(SCHEDULE), None, {}])
def test_a_schedule_is_a_list_of_four(row):
    assert not is_schedule(row)


LINK = Link(cid_of(b"x"))
SOUND = {
    is_timer: [["ttl", "bank/Order", b"o1", 3]],
    is_stopped: [["bank/Order", b"o1", "halted"]],
    is_open: [[1, False], [1, True], [0, True]],
    is_spent: [[1, 2], [0, 0]],
    is_spent_by: [["till", bytes(16), 1, 2]],
    is_heights: [[], [1, 2]],
    is_cell: [["bank/Order", b"o1"]],
    is_held: [LINK, [b"x"], [b"x", [LINK]]],
    is_call: [CALL],
    is_move: [[4, b""], [4, b"last"], [0, b"o1"]],
    is_bucket: [
        {"ids": b"", "heights": b"", "checks": b""},
        {"ids": bytes(32), "heights": bytes(16), "checks": bytes(8)},
    ],
}
WRONG = {
    is_timer: [
        None, ("ttl", "bank/Order", b"o1", 3), ["ttl", "bank/Order", b"o1"],
        ["ttl", "bank/Order", b"o1", 3, 1],
        ["lost", "bank/Order", b"o1", 3], ["ttl", b"bank/Order", b"o1", 3], ["ttl", "bank/Order", "o1", 3],
        ["ttl", "bank/Order", b"o1", -1], ["bank/Order", "ttl", b"o1", 3], ["ttl", "ttl", b"o1", b"o1"],
    ],
    is_stopped: [
        None, ("bank/Order", b"o1", "halted"), ["bank/Order", b"o1"], ["bank/Order", b"o1", "halted", 1],
        [b"bank/Order", b"o1", "halted"], ["bank/Order", "o1", "halted"], ["bank/Order", b"o1", b"halted"],
        ["bank/Order", b"o1", None], {},
    ],
    is_open: [None, (1, False), [1], [1, False, 1], [-1, False], ["1", True], [1, 1], [0, False], [1, None]],
    is_spent: [None, (1, 2), [1], [1, 2, 3], [-1, 2], [1, -2], ["1", 2]],
    is_spent_by: [
        None, ("till", bytes(16), 1, 2), ["till", bytes(16), 1], ["till", bytes(16), 1, 2, 3],
        [b"till", bytes(16), 1, 2], ["till", bytes(15), 1, 2], ["till", "x" * 16, 1, 2],
        ["till", bytes(16), -1, 2], ["till", bytes(16), 1, -2],
    ],
    is_heights: [None, (1, 2), [-1], ["1"], [True]],
    is_cell: [None, ("a", b"b"), ["a"], ["a", b"b", 1], [b"a", b"b"], ["a", "b"]],
    is_call: [
        None, tuple(CALL), CALL[:-1], [*CALL, 1], with_field(CALL, 0, b"bank/Order"),
        with_field(CALL, 1, "o1"), with_field(CALL, 2, -1), with_field(CALL, 2, True),
        with_field(CALL, 2, None), with_field(CALL, 3, b"token"), with_field(CALL, 4, None),
    ],
    is_move: [None, (4, b""), [4], [4, b"", 1], [-1, b""], [True, b""], ["4", b""], [4, ""], [4, None]],
    is_held: [None, b"x", [], ["x"], [b"x", 7], 7, {}, (b"x",)],
    is_bucket: [
        None, [], {}, {"ids": b"", "heights": b""}, {"ids": b"", "heights": b"", "checks": b"", "more": b""},
        {"ids": "", "heights": b"", "checks": b""}, {"ids": bytes(15), "heights": b"", "checks": b""},
        {"ids": bytes(32), "heights": bytes(15), "checks": bytes(8)},
        {"ids": bytes(32), "heights": bytes(16), "checks": bytes(7)},
        {"ids": bytes(17), "heights": bytes(8), "checks": bytes(4)},
        {"ids": bytes(32), "heights": bytes(17), "checks": bytes(8)},
        {"ids": bytes(32), "heights": bytes(16), "checks": bytes(9)},
    ],
}  # fmt: skip


@pytest.mark.parametrize("fits", SOUND)
def test_rows_have_their_shape_and_no_other(fits):
    assert [row for row in SOUND[fits] if not fits(row)] == []
    assert [row for row in WRONG[fits] if fits(row)] == []


BUCKET = {"bucket": LINK, "prints": LINK, "count": 1, "since_ns": 1, "until_ns": 2}
OPENED = {"bucket": LINK, "since_ns": 1, "until_ns": 2}
DEDUPE = {"buckets": [BUCKET], "conflicts": LINK, "floor_ns": 0, "open": OPENED}
BUDGETS = {"open": [LINK, 1], "parked": 0, "spent": None, "spent_by": None, "timers": 0}
IDEMPOTENCY = {"ages": [LINK, 1], "keys": [LINK, 2]}
HEARTBEAT = {
    "clock": {}, "numbers": 0, "paused": False, "queued": 0, "bindings": [LINK, 1],
    **dict.fromkeys(("armed", "by_head", "by_name", "counts", "due", "impulses", "registry", "told")),
}  # fmt: skip
PARTS = {
    "dedupe": (DEDUPE, [
        None, [], {**DEDUPE, "more": 1}, {**DEDUPE, "floor_ns": -1}, {**DEDUPE, "conflicts": 1},
        {**DEDUPE, "buckets": None}, {**DEDUPE, "buckets": [{**BUCKET, "bucket": 1}]},
        {**DEDUPE, "buckets": [{**BUCKET, "prints": 1}]}, {**DEDUPE, "buckets": [{**BUCKET, "count": LINK}]},
        {**DEDUPE, "buckets": [OPENED]}, {**DEDUPE, "open": BUCKET}, {**DEDUPE, "open": []},
        {**DEDUPE, "open": {**OPENED, "since_ns": -1}}, {**DEDUPE, "open": {**OPENED, "bucket": 1}},
    ]),
    "budgets": (BUDGETS, [
        None, [], {}, {**BUDGETS, "more": 1}, {**BUDGETS, "parked": -1}, {**BUDGETS, "timers": None},
        {**BUDGETS, "open": [LINK, 0]}, {**BUDGETS, "spent": 1}, {**BUDGETS, "spent_by": [1, 1]},
    ]),
    "idempotency": (IDEMPOTENCY, [
        [], {}, {"ages": None}, {**IDEMPOTENCY, "more": None}, {**IDEMPOTENCY, "ages": [LINK, 0]},
        {**IDEMPOTENCY, "keys": [1, 1]}, {**IDEMPOTENCY, "keys": [LINK]},
    ]),
    "heartbeat": (HEARTBEAT, [
        [], {}, {**HEARTBEAT, "more": 1}, {**HEARTBEAT, "numbers": -1}, {**HEARTBEAT, "queued": None},
        {**HEARTBEAT, "paused": 0}, {**HEARTBEAT, "bindings": [LINK, 0]}, {**HEARTBEAT, "told": 1},
        {**HEARTBEAT, "clock": []},
    ]),
    "modules": ({"shop/Order": [LINK, 0]}, [[], {"shop/Order": None}, {"shop/Order": [LINK, -1]}]),
    "eras": ([[LINK, 0]], [[], None, {}, [[LINK]], [(LINK, 0)], [[LINK, 0, 0]], [[1, 0]]]),
    "frame": (bytes(32), [bytes(31), bytes(33), "x" * 32]),
    "paused": (True, [None, 0, 1]),
    **{name: ([LINK, 1], [[LINK, 0], (LINK, 1), [LINK], 1]) for name in (
        "timers", "stopped", "dead_letters", "intents", "pending", "ready", "held", "schedules",
    )},
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_a_snapshot_has_its_shape_and_no_other(world, part):
    saved = decode(world.cas[world.snapshot()])
    sound, wrong = PARTS[part]
    assert wrong_part({**saved, part: sound}) is None
    assert [value for value in wrong if wrong_part({**saved, part: value}) != part] == []


@pytest.mark.parametrize(
    ("name", "value", "is_sound"),
    [
        ("due", bytes(16), True), ("due", bytes(15), False), ("due", "x" * 16, False), ("same", 1, True),
        ("same", -1, False), ("grant", "till", True), ("grant", 1, False), ("rule", "r", True),
        ("rule", 1, False),
        ("text", "t", True), ("text", b"t", False), ("slot", "s", True), ("slot", 1, False),
        ("key", "k", True),
        ("limits", {"attempts": 1}, True), ("limits", {1: 1}, False), ("limits", 1, False),
        ("params", 1, False),
    ],
)  # fmt: skip
def test_what_an_open_intent_holds_beside_its_fields_has_its_shape(name, value, is_sound):
    assert is_intent(with_field(INTENT, 6, {**MORE, name: value})) is is_sound


ANSWER = [0, [b"x"], "bank.code", "a text", False]


@pytest.mark.parametrize(
    "row",
    [
        None, tuple(ANSWER), "0abcd", ANSWER[:-1], [*ANSWER, 1], with_field(ANSWER, 0, 99),
        with_field(ANSWER, 0, "ok"), with_field(ANSWER, 1, b"x"), with_field(ANSWER, 2, None),
        with_field(ANSWER, 3, 5), with_field(ANSWER, 4, 0),
    ],
)  # fmt: skip
def test_an_answer_of_a_fork_with_one_wrong_field_is_none(row):
    assert is_answer(ANSWER)
    assert not is_answer(row)
