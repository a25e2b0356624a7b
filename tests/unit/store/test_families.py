from __future__ import annotations

from uuid import UUID

import pytest

from cellule.errors import Rejected
from cellule.store import keys
from cellule.store.engine import Stamp
from cellule.store.families import (
    Family,
    check_one_family,
    family,
    universe_prefix,
    world_prefix,
    world_ranges,
)

U, W = UUID(int=1), UUID(int=2)
LAST = UUID(int=(1 << 128) - 1)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (keys.format_version(), Family.META),
        (keys.universe_name("cas"), Family.META),
        (keys.universe_meta(U), Family.META),
        (keys.ref(U, "journal"), Family.META),
        (keys.cas_generation(U), Family.META),
        (keys.cas(U, b"c"), Family.CAS),
        (keys.cas_chunk(U, bytes(16), 0), Family.CAS),
        (keys.world_head(U, W), Family.META),
        (keys.snapshot(U, W, 1), Family.META),
        (keys.segment(U, W, 1), Family.META),
        (keys.journal(U, W, 1), Family.JOURNAL),
        (keys.journal_part(LAST, LAST, 1, 1), Family.JOURNAL),
        (keys.inbox(U, W, Stamp(bytes(12))), Family.QUEUE),
        (keys.effect(0, 0, 0, b"i"), Family.QUEUE),
        (keys.effect_at(b"i"), Family.QUEUE),
        (keys.wake(0, 0, U, W), Family.QUEUE),
        (keys.ready(0, U, W), Family.QUEUE),
        (keys.session(U), Family.QUEUE),
        (keys.store_owner(), Family.META),
        (keys.bell(0), Family.COUNTER),
        (b"", Family.META),
        (b"\0", Family.META),
        (b"\x02w", Family.META),
        (b"\x02w\0\x30", Family.META),
        (b"\x02waker\0", Family.META),
        (b"\xff", Family.META),
        (b"plain", Family.META),
    ],
)
def test_each_key_has_its_family(key, kind):
    assert family(key) is kind


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (b"", b"\xff"),
        (b"", b"\x01\0"),
        (b"\x01", b"\x02\0"),
        (b"\x02", b"\x02f"),
        (b"\x02e", b"\x03"),
        (keys.bell(0), keys.format_version()),
        (keys.effect_at(b"i"), keys.ready(0, U, W)),
        (b"\x02u\0", b"\x02u\x01"),
        (universe_prefix(U), universe_prefix(U) + b"\xff"),
        (universe_prefix(U), universe_prefix(W)),
        (keys.universe_meta(U), keys.universe_meta(W)),
        (world_prefix(U, W), world_prefix(U, W) + b"\xff"),
        (world_prefix(U, W)[:-1], world_prefix(U, W)),
        (keys.world_head(U, W), keys.world_meta(U, W)),
        (keys.journal(U, W, 1), keys.world_meta(U, W)),
        (keys.snapshot(U, W, 1), keys.snapshot(U, LAST, 1)),
    ],
)
def test_a_range_over_two_families_is_refused(begin, end):
    with pytest.raises(Rejected) as caught:
        check_one_family(begin, end)
    assert caught.value.code == "store.range_families"


@pytest.mark.parametrize(
    ("begin", "end", "kind"),
    [
        (b"", b"\x01", Family.META),
        (b"\x01", b"\x02", Family.COUNTER),
        (b"\x02f", b"\x02g", Family.META),
        (b"\x02effects\0", b"\x02effects\x01", Family.QUEUE),
        (b"\x02x", b"\xff" * 900, Family.META),
        (b"a", b"b", Family.META),
        (b"b", b"a", Family.META),
        (b"\xff", b"", Family.META),
        (*keys.journal_range(LAST, LAST), Family.JOURNAL),
        (*keys.cas_range(LAST), Family.CAS),
        (keys.world_baseline(U, W), keys.world_head(U, W) + b"\0", Family.META),
    ],
)
def test_a_range_inside_one_family_is_accepted(begin, end, kind):
    assert check_one_family(begin, end) is kind


@pytest.mark.parametrize(("universe", "world"), [(U, W), (LAST, LAST), (UUID(int=0), LAST)])
def test_the_ranges_of_a_world_hold_all_its_rows_once(universe, world):
    rows = [
        keys.world_meta(universe, world),
        keys.world_epoch(universe, world),
        keys.world_head(universe, world),
        keys.world_desired(universe, world),
        keys.world_baseline(universe, world),
        keys.journal(universe, world, 1),
        keys.segment(universe, world, 1),
        keys.snapshot(universe, world, 1),
        keys.inbox(universe, world, Stamp(b"\xff" * 12)),
    ]
    ranges = world_ranges(universe, world)
    for key in rows:
        assert sum(begin <= key < end for begin, end in ranges) == 1
    for begin, end in ranges:
        kind = check_one_family(begin, end)
        assert all(family(key) is kind for key in rows if begin <= key < end)
    assert ranges[0][0] == world_prefix(universe, world)
    assert not any(begin <= keys.world_meta(W, U) < end for begin, end in ranges)
