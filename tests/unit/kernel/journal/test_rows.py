"""Rows of the hot path are those that the table makes of the same records."""

from __future__ import annotations

import pytest

from cellule.kernel.journal.codes import ALLOW, AT_ONCE, OK
from cellule.kernel.journal.records import (
    DecisionRecord,
    EventRecord,
    IntentRecord,
    ReceiptRecord,
    Record,
    StepRecord,
)
from cellule.kernel.journal.rows import (
    SHORT_MAX,
    EventEncoder,
    decision_row,
    event_row,
    intent_row,
    noted_step_row,
    receipt_row,
    step_parts,
    step_row,
)
from cellule.kernel.journal.table import Row, write_row
from cellule.values.cbor import encode_flat

NAMES = {"shop/order": 0, "shop/Placed@1": 1, "shop.charge": 300}
VALUE = [b"\xa0"]

PAIRS: list[tuple[Row, Record]] = [
    (
        event_row("id", 1, VALUE, [[0, b"o1"]], {"dedupe": True}),
        EventRecord(0, "id", "shop/Placed@1", VALUE, [("shop/order", b"o1")], {"dedupe": True}),
    ),
    (
        step_row(7, 0, b"o1", 2, 3, 4, 5, b"\xa0"),
        StepRecord(7, "shop/order", b"o1", 2, 3, OK, 4, 5, VALUE, {}),
    ),
    (
        noted_step_row(7, 0, b"o1", 2, 3, 4, 5, b"\xa0", b"\x80"),
        StepRecord(7, "shop/order", b"o1", 2, 3, OK, 4, 5, VALUE, {"ann": [b"\x80"]}),
    ),
    (
        noted_step_row(7, 0, b"o1", 2, 3, 4, 5, b"\xa0", None),
        StepRecord(7, "shop/order", b"o1", 2, 3, OK, 4, 5, VALUE, {}),
    ),
    (
        intent_row(8, 1, 0, b"o1", 2, 300, VALUE, None),
        IntentRecord(8, 1, "shop/order", b"o1", 2, "shop.charge", VALUE, {}),
    ),
    (decision_row(9, ALLOW, {"grant": "g"}), DecisionRecord(9, ALLOW, {"grant": "g"})),
    (
        receipt_row(9, 0, b"o1", 2, 0, 1, VALUE, AT_ONCE, {"by": "k"}),
        ReceiptRecord(9, "shop/order", b"o1", 2, 0, "shop/Placed@1", VALUE, AT_ONCE, {"by": "k"}),
    ),
]


@pytest.mark.parametrize(("row", "record"), PAIRS, ids=lambda each: type(each).__name__)
def test_a_row_is_that_of_the_record(row: Row, record: Record) -> None:
    assert row == write_row(record, NAMES.__getitem__)


def test_the_parts_of_a_step_are_found_in_its_row() -> None:
    assert step_parts(step_row(7, 0, b"o1", 2, 3, 4, 5, b"\xa0")) == (7, 0, b"o1", 2, 4)


@pytest.mark.parametrize("size", [0, 1, 23, 24, 255, 256, SHORT_MAX, SHORT_MAX + 1, 70_000])
@pytest.mark.parametrize("key", [b"o", b"k" * 24, b"k" * SHORT_MAX])
def test_an_encoded_event_is_that_of_the_record(size: int, key: bytes) -> None:
    value = b"\x01" * size
    targets = [("shop.charge", key)]  # the longest position of a name
    record = EventRecord(0, None, "shop/Placed@1", [value], targets, {})
    expected = encode_flat(write_row(record, NAMES.__getitem__))
    encoder = EventEncoder(NAMES["shop/Placed@1"], NAMES["shop.charge"])
    assert encoder.encode([value] * 2, [key] * 2) == expected * 2
