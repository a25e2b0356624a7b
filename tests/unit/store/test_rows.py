from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.store.engine import counter_value
from cellule.store.rows import add_counter, open_row, open_rows, seal_counter, seal_row, wrap64

KEY = b"\x02key\0"
COUNTER_KEY = b"\x01bell\0"
MOST = (1 << 63) - 1


@pytest.mark.parametrize("value", [b"", b"\0", b"four", bytes(90_000)])
def test_a_sealed_value_opens_again(value):
    assert open_row(KEY, seal_row(KEY, value)) == value


def test_every_flipped_bit_of_a_row_is_found():
    stored = seal_row(KEY, b"some value")
    for bit in range(len(stored) * 8):
        damaged = bytearray(stored)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Corrupted) as caught:
            open_row(KEY, bytes(damaged))
        assert caught.value.code == "store.row_damaged"
        assert caught.value.fields["key"] == KEY


def test_every_shortened_row_is_found():
    stored = seal_row(KEY, b"some value")
    for size in range(len(stored)):
        with pytest.raises(Corrupted):
            open_row(KEY, stored[:size])


def test_a_row_under_another_key_is_found():
    with pytest.raises(Corrupted):
        open_row(b"\x02kez\0", seal_row(KEY, b"some value"))


def test_the_message_names_the_key_in_hex():
    with pytest.raises(Corrupted, match="0x026b657900"):
        open_row(KEY, b"")


def test_many_rows_open_in_their_order():
    rows = [(bytes([2, n]), seal_row(bytes([2, n]), b"%d" % n)) for n in (3, 1, 2)]
    rows.append((COUNTER_KEY, seal_counter(-5)))
    assert open_rows(rows) == [
        (b"\x02\x03", b"3"),
        (b"\x02\x01", b"1"),
        (b"\x02\x02", b"2"),
        (COUNTER_KEY, seal_counter(-5)),
    ]


def test_a_damaged_row_among_many_is_found():
    rows = [(b"\x02a", seal_row(b"\x02a", b"v")), (b"\x02b", seal_row(b"\x02c", b"v"))]
    with pytest.raises(Corrupted) as caught:
        open_rows(rows)
    assert caught.value.fields["key"] == b"\x02b"


@pytest.mark.parametrize(
    ("number", "wrapped"),
    [(0, 0), (MOST, MOST), (MOST + 1, -MOST - 1), (-MOST - 2, MOST), (1 << 64, 0), (-(1 << 64) - 1, -1)],
)
def test_numbers_wrap_at_64_bits(number, wrapped):
    assert wrap64(number) == wrapped


def test_counters_add_from_zero_and_wrap():
    assert add_counter(COUNTER_KEY, None, 5) == seal_counter(5)
    assert add_counter(COUNTER_KEY, seal_counter(5), -7) == seal_counter(-2)
    assert counter_value(add_counter(COUNTER_KEY, seal_counter(MOST), 1)) == -MOST - 1


@pytest.mark.parametrize("stored", [b"", bytes(7), bytes(9), bytes(12)])
def test_a_counter_of_another_length_is_found(stored):
    with pytest.raises(Corrupted) as caught:
        open_row(COUNTER_KEY, stored)
    assert caught.value.code == "store.counter_damaged"
    with pytest.raises(Corrupted):
        add_counter(COUNTER_KEY, stored, 1)
