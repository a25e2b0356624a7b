"""Values whose classes raise, or that are nested without end: refused in our words wherever they are given.

A message about such a value asked the value for its text, its hash or whether it is equal, and raised what
its class raises.
"""

from __future__ import annotations

import pytest

import cellule
from cellule.errors import CelluleError, Rejected
from cellule.host.branches.what_if import WhatIf
from tests.support.virtual_tests import in_virtual_time


class Wild:
    def __repr__(self):
        raise ZeroDivisionError("its own")

    __str__ = __hash__ = __eq__ = __len__ = __iter__ = __repr__


class WildList(list):
    __slots__ = ()
    __repr__ = __len__ = __iter__ = Wild.__repr__


class UnnamedClass(type):
    def __repr__(cls):
        raise ZeroDivisionError("its own")

    @property
    def __name__(cls):
        raise ZeroDivisionError("its own")


class WildClass(UnnamedClass):
    __hash__ = __eq__ = UnnamedClass.__repr__


def nested(wrap):
    value = ()
    for _ in range(50_000):
        value = wrap(value)
    return value


HOSTILE = {
    "an object": Wild(),
    "a list": WildList(),
    "a class": WildClass("Wild", (), {}),
    "of a class without a name": UnnamedClass("Unnamed", (), {})(),
    "inside a list": [Wild()],
    "inside a map": {"a": Wild()},
    "a deep list": nested(lambda value: [value]),
    "a deep tuple": nested(lambda value: (value,)),
    "a deep map": nested(lambda value: {"a": value}),
    "half a character": "\ud800",
}


def calls(node, world, tally, value):
    """Every place where a caller gives a key, a module, an event, or what goes with it."""
    operator, cells = world.operator("ann"), world.cells
    return {
        "key": lambda: world.cell(tally.account, value).state(),
        "key of an event": lambda: world.send(tally.Add("a", 1), key=value),
        "field": lambda: world.send(tally.Add(value, 1)),
        "module": lambda: world.cell(value, "a").state(),
        "module of cells": lambda: cells(value),
        "after": lambda: cells(tally.account, after=value),
        "where": lambda: cells(tally.account, where=value),
        "module of a reason": lambda: world.wait_reason(value, b"a"),
        "key of a verb": lambda: operator.drop(tally.account, value, why="x"),
        "module of a verb": lambda: operator.drop(value, "a", why="x"),
        "event": lambda: world.send(value),
        "events": lambda: world.send_many([value]),
        "what if": lambda: node.what_if("w", [value]),
        "id": lambda: world.send(tally.Add("a", 1), id=value),
        "wait": lambda: world.send(tally.Add("a", 1), wait=value),
        "verb": lambda: world.control(value, who="ann", why="x"),
        "universe": lambda: node.world("w", universe=value),
        "world": lambda: node.world(value),
    }


async def check_refused(call):
    with pytest.raises(Rejected) as caught:
        await call()
    str(caught.value).encode()
    assert "ZeroDivisionError" not in str(caught.value)


@pytest.mark.parametrize("kind", HOSTILE)
@in_virtual_time
async def test_a_hostile_value_is_refused_wherever_it_is_given(node, tally, kind):
    world = await node.world("w")
    await world.send(tally.Add("a", 1))
    before = await world.head()
    for name, call in calls(node, world, tally, HOSTILE[kind]).items():
        try:
            await check_refused(call)
        except BaseException as error:
            error.add_note(f"given as: {name}")
            raise
    assert await world.head() == before


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_value_is_refused_where_a_store_is_opened(kind):
    value = HOSTILE[kind]
    opening = [
        lambda: cellule.open(value),
        lambda: cellule.open("memory:", value),
        lambda: cellule.open("memory:", objects=value),
        lambda: cellule.open("memory:", deploy=value),
        lambda: cellule.open("memory:", options=value),
        *(lambda name=name: cellule.Options(**{name: value}) for name in OPTIONS),
    ]
    for call in opening:
        with pytest.raises(Rejected) as caught:
            call()
        str(caught.value).encode()


OPTIONS = ("adapters", "clock", "entropy", "secrets", "scratch", "budget", "store", "create")


@pytest.mark.parametrize("name", ["adapters", "clock", "entropy"])
@pytest.mark.parametrize("value", [5, None, "", object(), {}])
def test_parts_of_the_options_are_refused_by_name(name, value):
    """A number as `adapters` was a TypeError at `open`, and one as `clock` ended the node."""
    with pytest.raises(Rejected) as caught:
        cellule.Options(**{name: value})
    assert (caught.value.code, caught.value.fields["name"]) == ("host.argument", name)


@pytest.mark.parametrize("given", [5, None, "ab", {}, object(), WildList()])
@in_virtual_time
async def test_what_is_no_list_of_events_is_refused_by_name(node, tally, given):
    world = await node.world("w")
    await world.send(tally.Add("a", 1))
    for call in (lambda: world.send_many(given), lambda: node.what_if("w", given)):
        with pytest.raises(Rejected) as caught:
            await call()
        assert (caught.value.code, caught.value.fields["name"]) == ("host.argument", "events")
    assert [type(each) for each in await world.send_many(iter([tally.Add("a", 1)]))]
    assert isinstance(await node.what_if("w", iter([tally.Add("a", 1)])), WhatIf)


@in_virtual_time
async def test_an_empty_name_is_refused_as_the_argument_that_it_is(node):
    """It was told as a ref of 0 bytes."""
    calls = {
        "name": [lambda: node.world(""), lambda: node.create_world(""), lambda: node.create_universe("")],
        "universe": [lambda: node.world("w", universe=""), lambda: node.worlds("")],
        "source": [lambda: node.what_if("")],
    }
    for name, each in calls.items():
        for call in each:
            with pytest.raises(Rejected) as caught:
                await call()
            assert (caught.value.code, caught.value.fields["name"]) == ("host.argument", name)


def test_an_error_can_be_printed_whatever_it_tells():
    error = CelluleError("a.b", "there is no {name}", name="a\ud800\u00e4")
    assert str(error) == "there is no a\\ud800\u00e4"
