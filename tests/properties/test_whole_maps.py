"""Laws of whole maps: one map does what cells do, and moving it changes nothing but the place."""

from __future__ import annotations

from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from cellule.kernel.decide import spills
from cellule.kernel.items import ControlItem, RefusedItem
from cellule.kernel.manifest.load import load_manifest
from cellule.values import Link, decode
from tests.support.kernel_world import KernelWorld
from tests.unit.kernel.test_spills import PROGRAMS, SECOND, edition, paid

NAMES = ("a", "b", "c")
SENDS = st.lists(st.builds(paid, st.sampled_from(NAMES), st.sampled_from((1, 9, 13))), min_size=1, max_size=4)
DEEDS = st.lists(st.one_of(SENDS, st.just(SECOND // 2), st.just(2 * SECOND)), min_size=1, max_size=8)


def do(world: KernelWorld, deed: Any) -> None:
    if isinstance(deed, int):
        world.advance(deed)
    else:
        world.beat(deed)


def told(world: KernelWorld, *, whole: bool) -> dict[str, Any]:
    """What each order is."""
    if whole:
        return dict(world.state("shop/Order") or {})
    found = {name: world.state("shop/Order", name.encode()) for name in NAMES}
    return {name: state for name, state in found.items() if state is not None}


def life(
    deeds: list[Any], moved: int | None, *, whole: bool, fast: bool, at_once: int = 1_000
) -> tuple[Any, KernelWorld]:  # fmt: skip
    """The end of a life; `moved` is the deed before which the map becomes cells, `at_once` in each beat."""
    with mock.patch.multiple(spills, SPILL_CELLS_PER_BEAT=at_once, SPILL_MESSAGES_PER_BEAT=at_once):
        return lived(deeds, moved, whole=whole, fast=fast)


def lived(deeds: list[Any], moved: int | None, *, whole: bool, fast: bool) -> tuple[Any, KernelWorld]:
    """The same, as many in each beat as the kernel says."""
    world = KernelWorld(edition(whole=whole, failure="skip"), PROGRAMS, fast=fast)
    for at, deed in enumerate(deeds):
        if at == moved:
            loaded = load_manifest(edition(whole=False, failure="skip"))
            world.cas[loaded.cid] = loaded.data
            (outcome,) = world.beat(
                [ControlItem("cell.spill", "a", "", {"manifest": Link(loaded.cid)})]
            ).outcomes
            if isinstance(outcome, RefusedItem):
                assert outcome.error.code == "kernel.nothing_to_spill"
                world.control("deploy", manifest=Link(loaded.cid))
        do(world, deed)
    world.advance(3 * SECOND)
    is_whole = whole and (moved is None or moved >= len(deeds))
    world.assert_replays()
    return told(world, whole=is_whole), world


@settings(max_examples=25, deadline=None)
@given(DEEDS, st.integers(0, 7), st.sampled_from((1, 2, 1_000)))
def test_a_map_cells_and_a_map_that_becomes_cells_end_alike(deeds, moved, at_once):
    cells, _ = life(deeds, None, whole=False, fast=True)
    whole, _ = life(deeds, None, whole=True, fast=True)
    both, _ = life(deeds, moved % len(deeds), whole=True, fast=True, at_once=at_once)
    assert whole == cells == both


@settings(max_examples=15, deadline=None)
@given(DEEDS, st.integers(0, 7), st.sampled_from((1, 1_000)))
def test_the_short_ways_and_the_general_one_write_the_same_bytes(deeds, moved, at_once):
    _, fast = life(deeds, moved % len(deeds), whole=True, fast=True, at_once=at_once)
    _, general = life(deeds, moved % len(deeds), whole=True, fast=False, at_once=at_once)
    assert fast.frames == general.frames
    assert decode(fast.frames[-1])
