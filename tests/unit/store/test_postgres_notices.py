"""Notices between processes, and the watches they wake."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellule.errors import Unavailable
from cellule.store.engine import Batch, Stamp
from cellule.store.engines.postgres.notify import HASHES_MAX, decode_notice, encode_notice
from cellule.store.engines.postgres.watch import Watches, hash_of, written_hashes

SENDER = "0123abcd"


@given(st.lists(st.integers(0, (1 << 32) - 1), max_size=50))
def test_a_notice_is_read_as_it_was_written(hashes):
    assert decode_notice(encode_notice(SENDER, hashes)) == (SENDER, tuple(hashes))


def test_a_notice_of_any_key_is_read_as_such():
    assert decode_notice(encode_notice(SENDER, None)) == (SENDER, None)


def test_the_largest_notice_fits_the_limit_of_the_server():
    assert len(encode_notice(SENDER, [0xFFFFFFFF] * HASHES_MAX).encode()) < 8_000


@given(st.text(max_size=30))
def test_foreign_text_on_the_channel_tells_of_any_key_or_of_some(text):
    sender, hashes = decode_notice(text)
    assert sender == text[:8]
    assert hashes is None or all(0 <= one < 1 << 32 for one in hashes)


def test_the_written_keys_are_those_set_cleared_added_and_ordered():
    batch = Batch(expect={b"e": b""}, set={b"s": b""}, clear=[b"c"], add={b"\x01n": 1}, ordered=[(b"o", b"")])
    stamp = Stamp(bytes(12))
    assert written_hashes(batch, [stamp]) == {hash_of(key) for key in (b"s", b"c", b"\x01n", b"o" + stamp)}
    assert written_hashes(Batch(clear_range=[(b"a", b"b")]), []) is None


async def test_waking_some_keys_leaves_the_other_watches_waiting():
    watches = Watches()
    first, second, other = watches.add(b"a", None), watches.add(b"a", b"1"), watches.add(b"b", None)
    watches.wake([hash_of(b"a"), hash_of(b"nobody")])
    await asyncio.gather(first.woken, second.woken)
    assert not other.woken.done()
    watches.wake_all()
    await other.woken


async def test_a_removed_watch_is_forgotten_and_its_neighbours_are_not():
    watches = Watches()
    first, second = watches.add(b"a", None), watches.add(b"a", None)
    watches.remove(first)
    assert watches.all() == [second]
    watches.remove(second)
    assert watches.all() == []


async def test_failing_watches_raise_and_those_already_woken_do_not():
    watches = Watches()
    waiting, woken = watches.add(b"a", None), watches.add(b"b", None)
    woken.wake()
    watches.fail_all(Unavailable("store.closed", "closed"))
    await woken.woken
    with pytest.raises(Unavailable):
        await waiting.woken
