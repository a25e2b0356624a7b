from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from cellule.errors import Rejected
from cellule.testing import ManualClock, SeededEntropy, VirtualClock, run
from cellule.testing.clock import WALL_ORIGIN_NS

SECOND = 1_000_000_000


def test_the_virtual_clock_follows_the_loop_and_only_its_wall_time_jumps():
    async def main():
        clock = VirtualClock()
        seen = [(clock.now_ns(), clock.monotonic_ns())]
        await asyncio.sleep(2)
        seen.append((clock.now_ns(), clock.monotonic_ns()))
        clock.jump(-10 * SECOND)
        seen.append((clock.now_ns(), clock.monotonic_ns()))
        clock.jump(60 * SECOND)
        await asyncio.sleep(1)
        seen.append((clock.now_ns(), clock.monotonic_ns()))
        return [((wall - WALL_ORIGIN_NS) // SECOND, monotonic // SECOND) for wall, monotonic in seen]

    assert run(main, seed=1).result == [(0, 0), (2, 2), (-8, 2), (53, 3)]


async def test_a_virtual_clock_on_a_real_loop_is_refused():
    with pytest.raises(Rejected) as caught:
        VirtualClock()
    assert caught.value.code == "testing.real_loop"


def test_the_manual_clock_stands_still_until_it_is_moved():
    clock = ManualClock(wall_ns=100)
    clock.advance(5)
    assert (clock.now_ns(), clock.monotonic_ns()) == (105, 5)
    clock.jump(-50)
    assert (clock.now_ns(), clock.monotonic_ns()) == (55, 5)
    with pytest.raises(Rejected) as caught:
        clock.advance(-1)
    assert caught.value.code == "testing.clock_back"
    assert (clock.now_ns(), clock.monotonic_ns()) == (55, 5)


def test_the_same_seed_gives_the_same_bytes_however_they_are_cut():
    whole = SeededEntropy(7).bytes(300)
    parts = SeededEntropy(7)
    assert b"".join(parts.bytes(count) for count in (0, 1, 63, 64, 65, 107)) == whole
    assert SeededEntropy(8).bytes(300) != whole


def test_a_child_depends_on_its_labels_only_and_not_on_what_was_drawn():
    parent = SeededEntropy(7)
    before = parent.child("a").bytes(32)
    parent.bytes(1_000)
    parent.child("b").bytes(10)
    assert parent.child("a").bytes(32) == before
    assert SeededEntropy(7, "a").bytes(32) == before
    different = [
        parent.child("b"),
        parent.child("a").child("a"),
        parent.child("aa"),
        parent.child(""),
        SeededEntropy(7),
    ]
    assert len({entropy.bytes(32) for entropy in different} | {before}) == 6


def test_the_bytes_of_a_seed_never_change():
    assert SeededEntropy(0).bytes(16).hex() == "12106b7290d7bd40f14f2ce464bb2e1e"
    assert SeededEntropy(1, "engine", "a").bytes(16).hex() == "ce25178fc0ca5df9d216dcf07ec96353"


def test_the_bytes_of_a_seed_are_the_same_in_another_process():
    code = "from cellule.testing.entropy import SeededEntropy; print(SeededEntropy(5, 'x').bytes(20).hex())"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert printed == {SeededEntropy(5, "x").bytes(20).hex()}


def test_draws_stay_in_their_bounds_and_reach_all_of_them():
    entropy = SeededEntropy(3)
    assert {entropy.below(5) for _ in range(200)} == {0, 1, 2, 3, 4}
    assert {entropy.choice("abc") for _ in range(100)} == {"a", "b", "c"}
    assert not any(entropy.chance(0) for _ in range(100))
    assert all(entropy.chance(1) for _ in range(100))
    assert 300 < sum(entropy.chance(0.5) for _ in range(1_000)) < 700
    with pytest.raises(Rejected) as caught:
        entropy.below(0)
    assert caught.value.code == "testing.empty_draw"
