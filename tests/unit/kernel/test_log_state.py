"""Logs are joined without decoding their entries: what comes out is the list that encoding would give."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.key_ring import KeyRing
from cellule.kernel.need import Nodes, drive
from cellule.kernel.state.log_state import append, joined, opened, split
from cellule.values.cbor import encode
from cellule.values.limits import BYTES_MAX

COUNTS = [0, 1, 23, 24, 255, 256, 65_535, 65_536]  # where the head of a list grows


@pytest.mark.parametrize("count", COUNTS)
def test_a_list_is_split_into_its_count_and_the_bytes_of_its_items(count):
    assert split(encode(list(range(count)))) == (count, b"".join(encode(each) for each in range(count)))


@pytest.mark.parametrize("count", COUNTS)
def test_lists_are_joined_as_encoding_would_write_them(count):
    entries = [{"n": number} for number in range(count)]
    assert append(encode(entries), encode(["last"])) == encode([*entries, "last"])
    assert joined([encode([]), encode(entries), encode([])]) == encode(entries)


@pytest.mark.parametrize("data", [b"", encode({}), encode("x"), encode(7), b"\x9c", b"\x9f\x01\xff"])
def test_what_is_no_canonical_list_is_no_log(data):
    with pytest.raises(Corrupted, match="not a list"):
        split(data)


def test_a_log_may_be_longer_than_a_value_where_cells_can_be_erased_too():
    """A history of 8 MB could not be read as one value: its workflow halted, and halted again."""
    log = joined([encode(["x" * 900_000])] * 10)
    assert len(log) > BYTES_MAX
    assert drive(opened(log, KeyRing()), Nodes(0), lambda _: {}) == log
