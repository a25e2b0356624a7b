"""The edges of an agenda's rules: codes of 32 bits, what one impulse may write, and beats without one."""

from __future__ import annotations

import pytest

from cellule.errors import Corrupted
from cellule.kernel.state.heartbeat_rows import unpack_impulse
from tests.support.enzyme_world import EnzymeWorld

IMPULSE = ["/s", None, [b"\x01"], "", 0, [[1, 2]]]


@pytest.mark.parametrize(
    ("code", "found"),
    [(-(1 << 31), -(1 << 31)), ((1 << 31) - 1, (1 << 31) - 1), (1 << 31, -2), (-(1 << 31) - 1, -2)],
)
def test_a_return_code_has_32_bits(code, found):
    world = EnzymeWorld({"x": lambda call, tree: code})
    world.register("x")
    world.signal("/s")
    world.tick()
    world.tick()
    assert world.agenda() == [(0, found, True, "/s", None)]
    world.assert_replays()


def test_what_all_enzymes_of_one_impulse_write_has_one_limit():
    def long(name):
        return lambda call, tree: (0, [{"do": "write", "path": f"/{name}", "value": "x" * 600_000}])

    world = EnzymeWorld({name: long(name) for name in "ab"})
    world.register("a")
    world.register("b")
    world.signal("/s")
    world.tick()
    world.tick()
    assert [line[:2] for line in world.agenda()] == [(0, 0), (1, -2)]
    world.assert_replays()


def test_a_paused_world_with_a_heartbeat_writes_nothing_while_nothing_happens():
    world = EnzymeWorld({"x": lambda call, tree: 0})
    world.register("x")
    world.tick()
    world.do("pause")
    world.tick(forced=False)
    assert world.beat([]).frame is None
    world.assert_replays()


@pytest.mark.parametrize(
    "row",
    [
        None, {}, tuple(IMPULSE), IMPULSE[:-1], [*IMPULSE, 1], [None, *IMPULSE[1:]], ["s", *IMPULSE[1:]],
        ["/s", 5, *IMPULSE[2:]], ["/s", None, b"\x01", *IMPULSE[3:]], [*IMPULSE[:3], "odd", 0, []],
        [*IMPULSE[:4], -1, []], [*IMPULSE[:5], {}], [*IMPULSE[:5], ()], [*IMPULSE[:5], [[1]]],
        [*IMPULSE[:5], [[1, -2]]], [*IMPULSE[:5], "ab"],
    ],
)  # fmt: skip
def test_an_impulse_with_one_wrong_field_is_none(row):
    assert unpack_impulse(IMPULSE).signal == "/s"
    with pytest.raises(Corrupted):
        unpack_impulse(row)


def test_a_run_emits_as_many_signals_as_its_entry_says():
    def emits(count):
        return lambda call, tree: (0, [{"do": "signal", "signal": "/t", "target": None}] * count)

    world = EnzymeWorld({"a": emits(2), "b": emits(3)})
    world.register("a", signals=2)
    world.register("b", signals=2)
    world.signal("/s")
    world.tick()
    world.tick()
    assert [line[:2] for line in world.agenda()] == [(0, 0), (1, -2)]
    world.assert_replays()
