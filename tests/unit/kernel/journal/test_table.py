"""The table of record kinds: what it draws, proves, reads and writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from cellule.errors import Corrupted
from cellule.kernel.journal.codes import Kind
from cellule.kernel.journal.fields import RetentionTimer, ScheduleTimer
from cellule.kernel.journal.frame import ENTROPY_BYTES, Header, decode_frame, encode_frame
from cellule.kernel.journal.records import (
    RECORDS,
    ControlRecord,
    EventRecord,
    Record,
    StepRecord,
    TimerRecord,
    UpcastRecord,
)
from cellule.kernel.journal.table import KINDS, RESERVED, Row, drawing, kind_name, write_row

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/formats/frames.md").read_text()

SAMPLES: list[Record] = [
    EventRecord(0, "order-1", "shop/Placed@1", [b"\xa0"], [("shop/order", b"o1")], {"dedupe": True}),
    StepRecord(1, "shop/order", b"o1", 2, 0, 0, 1, 0, [b"\xa0"], {"reply": [b"\x01"]}),
    StepRecord(1, "shop/order", b"o1", 2, 0, 0, 2, 2, None, {}),
    TimerRecord(2, None, 500, RetentionTimer("idle", "shop/order", b"o1", 2)),
    TimerRecord(2, bytes(16), 0, ScheduleTimer("nightly", bytes(16), 1)),
    TimerRecord(2, bytes(16), 7, ScheduleTimer("nightly", bytes(16), False, 0, 5)),
    TimerRecord(2, bytes(16), 0, None),
    ControlRecord(0, "pause", "ada", "lunch", {}),
    UpcastRecord(1, "shop/order", b"o1", "shop/Order@1", "shop/Order@2"),
]


def rows_of(records: Iterable[Record]) -> tuple[list[Row], list[str]]:
    table: dict[str, int] = {}
    rows = [write_row(record, lambda name: table.setdefault(name, len(table))) for record in records]
    return rows, list(table)


def encoded(*records: Record, names: list[str] | None = None) -> bytes:
    rows, table = rows_of(records)
    header = Header(1, 10, 9 + len(rows), 5, bytes(ENTROPY_BYTES), 1, 1, None)
    return encode_frame(header, table if names is None else names, rows, linked=False)


def test_every_kind_is_in_the_table_and_reserved_ones_have_no_record() -> None:
    assert list(RECORDS) == list(Kind)
    assert set(KINDS) | RESERVED == {int(kind) for kind in Kind}
    assert not RESERVED


def test_the_format_page_draws_the_table() -> None:
    assert drawing() in PAGE


def test_the_format_page_explains_every_extra_field_of_each_kind_and_no_other() -> None:
    explained = set(re.findall(r"`extras\.(\w+)`", PAGE))
    assert explained == {field for kind in KINDS.values() for field in kind.extras}


@pytest.mark.parametrize("record", SAMPLES, ids=kind_name)
def test_a_record_that_is_written_is_read_again(record: Record) -> None:
    frame = decode_frame(encoded(record), prove=True)
    assert frame.records == [record]
    assert type(frame.at(10)) is type(record)


def test_records_are_found_by_their_heights_and_by_their_kind() -> None:
    frame = decode_frame(encoded(*SAMPLES))
    assert [height for height, _ in frame.numbered()] == list(range(10, 10 + len(SAMPLES)))
    assert [height for height, _ in frame.of(StepRecord)] == [11, 12]
    assert frame.at(16) == SAMPLES[6]


def test_names_enter_the_frame_in_the_order_of_fields() -> None:
    assert decode_frame(encoded(SAMPLES[0])).names == ["shop/Placed@1", "shop/order"]


@pytest.mark.parametrize("names", [[], ["shop/Placed@1"]])
def test_a_name_that_is_not_in_the_frame_is_damage(names: list[str]) -> None:
    frame = encoded(SAMPLES[0], names=names)
    with pytest.raises(Corrupted, match="height 10"):
        decode_frame(frame, prove=True)
    with pytest.raises(Corrupted, match="height 10"):
        _ = decode_frame(frame).records


@pytest.mark.parametrize("position", [-1, True, None, "shop/order"])
def test_a_name_that_is_no_position_is_damage(position: Any) -> None:
    rows = [[int(Kind.STEP), 1, position, b"o1", 2, 0, 0, 1, 0, [b"\xa0"], None]]
    header = Header(1, 10, 10, 5, bytes(ENTROPY_BYTES), 1, 1, None)
    frame = encode_frame(header, ["shop/order"], rows, linked=False)
    with pytest.raises(Corrupted):
        _ = decode_frame(frame).records


@pytest.mark.parametrize("file", ["frames.json", "intents.json"])
def test_the_frozen_frames_are_read_and_written_without_a_difference(file: str) -> None:
    golden = json.loads((ROOT / "tests/golden" / file).read_text())
    frames = [bytes.fromhex(each["hex"]) for each in golden["frames"]]
    assert frames
    for data in frames:
        frame = decode_frame(data, prove=True)
        rows, table = rows_of(frame.records)
        assert table == frame.names
        assert encode_frame(frame.header, frame.names, rows, linked=True) == data


def test_a_record_of_another_kind_than_expected_is_damage_with_its_place() -> None:
    frame = decode_frame(encoded(*SAMPLES))
    assert frame.expect(11, StepRecord) == SAMPLES[1]
    with pytest.raises(Corrupted, match=r"height 11\): it is of kind step, not event"):
        frame.expect(11, EventRecord)
