"""Every public call of every handle refuses by name what its signature does not allow, and does nothing.

Before, a wrong argument of a newer method failed wherever it was used first: in a beat, in a row that stays,
or not at all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import IntEnum, StrEnum
from os import PathLike
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import pytest

from cellule.errors import Rejected
from cellule.host.ingress.cell_handle import CellHandle
from cellule.host.ingress.checked_calls import REFUSED, checked_calls, rule_of
from cellule.host.ingress.handles import WorldHandle
from cellule.host.ingress.heartbeat import Heartbeat
from cellule.host.ingress.mailbox import MailboxHandle
from cellule.host.ingress.operations import Operations
from cellule.host.ingress.operator import Operator
from cellule.host.ingress.world_storage import WorldStorage
from cellule.host.limits import ARGUMENT_CHARS_MAX
from cellule.host.service import Cellule
from cellule.host.storage.policy import Retention
from cellule.host.storage.quotas import Quotas
from tests.support.virtual_tests import in_virtual_time

HANDLES = (Cellule, WorldHandle, CellHandle, Heartbeat, MailboxHandle, Operations, Operator, WorldStorage)
# What has rules of its own, with codes of their own: `test_arguments.py`.
APART = {"send", "send_nowait", "send_many", "control"}
APART_NAMES = {"self", "timeout", "module", "condition", "where", "script", "history"}
FREE = {  # what may be anything, or is read by the codecs of the world
    "key", "keys", "start", "end", "value", "default", "payload", "body", "options", "events",
}  # fmt: skip
FREE_IN = {("WorldHandle", "cells", "after")}  # a key


LONG = "x" * (ARGUMENT_CHARS_MAX + 1)


class Wild:
    def __bool__(self):
        raise AssertionError("asked")

    __eq__ = __hash__ = __str__ = __repr__ = __bool__


class Name(StrEnum):
    ONE = "one"


class Number(IntEnum):
    ONE = 1


class Loud(str):  # noqa: SLOT000
    def __str__(self):
        raise SystemExit("no text")

    __repr__ = __format__ = __getitem__ = __str__


def parameters():
    for owner in HANDLES:
        for method, function in vars(owner).items():
            if inspect.isfunction(function) and not method.startswith("_") and method not in APART:
                for name in inspect.signature(function).parameters:
                    if name not in APART_NAMES | FREE and (owner.__name__, method, name) not in FREE_IN:
                        yield owner, method, name


async def call(handle, method, given):
    found = getattr(handle, method)(**given)
    if inspect.isasyncgen(found):
        return await anext(found)
    return await found if inspect.isawaitable(found) else found


async def handles_of(node, tally):
    world = await node.world("w")
    await world.send(tally.Add("a", 1))
    beside = [world.cell(tally.account, "a"), world.heartbeat, world.heartbeat.mailbox("/m"), world.op]
    return [node, world, *beside, world.operator("ann"), await node.storage("w")]


@pytest.mark.parametrize("place", ["owner", "guest"])
@in_virtual_time
async def test_a_wrong_argument_of_any_public_call_is_refused_by_name(opened, tally, place):
    async with opened() as node, opened(owner=False) as other:
        await node.world("w")
        handles = await handles_of(node if place == "owner" else other, tally)
        world = handles[1]
        before, count = await world.head(), 0
        for owner, method, name in parameters():
            [handle] = [each for each in handles if type(each) is owner]
            if method in ("redrive", "dismiss") and name == "letters":
                continue  # by position only
            for wrong in (Wild(), object(), 1j, Loud("\ud800")):
                with pytest.raises(Rejected) as caught:
                    await call(handle, method, {name: wrong})
                assert (caught.value.code, caught.value.fields["name"]) == ("host.argument", name)
                str(caught.value).encode()
                count += 1
        assert count > 300
        assert await world.head() == before


@in_virtual_time
async def test_texts_numbers_and_flags_are_exactly_that(node, tally):
    world, storage = await node.world("w"), await node.storage("w")
    await world.send(tally.Add("a", 1))
    wrong = {
        "limit": [lambda each=each: world.effects(limit=each) for each in (True, "5", 1.5, 1 << 63, None)],
        "after": [lambda each=each: anext(world.tail(each)) for each in ("5", 1.5, True)],
        "first": [lambda: anext(world.frames("1"))],
        "when": [lambda: world.height_at("now"), lambda: world.height_at(None)],
        "force": [lambda each=each: node.delete_world("w", force=each) for each in ("no", 1, None)],
        "live": [lambda: world.fork("x", live="no")],
        "grace_s": [lambda each=each: node.collect_garbage(grace_s=each) for each in (float("nan"), "5")],
        "height": [lambda each=each: storage.hold("audit", each) for each in (1.5, True, "1")],
        "snapshots": [lambda each=each: storage.retain(snapshots=each) for each in (1.5, True, "3")],
        "path": [lambda each=each: node.export_world("w", each) for each in ("a\0b", "", b"a", 5)],
        "redact": [lambda each=each: node.export_world("w", "x", redact=each) for each in ("ssn", [5])],
        "letters": [lambda: world.operator("ann").redrive(1, "2", why="x")],
        "at": [lambda: world.cell(tally.account, "a").state(at="now")],
        "name": [lambda each=each: node.create_ref(each, "w") for each in ("\ud800", b"x", LONG)],
    }  # fmt: skip
    for name, calls in wrong.items():
        for each in calls:
            with pytest.raises(Rejected) as caught:
                await each()
            assert (caught.value.code, caught.value.fields["name"]) == ("host.argument", name)
    assert (await node.worlds())[0].name == "w"


@in_virtual_time
async def test_subclasses_arrive_as_what_they_are(node, tally):
    """The methods of a subclass of text ran inside the world: one that raised ended the node."""
    world = await node.world("w")
    assert await world.heartbeat.list("/", after=Loud("a"), limit=Number.ONE) is not None
    ref = await node.create_ref(Name.ONE, "w")
    assert type(ref.name) is str
    await world.send(tally.Add("a", 1))
    assert (await world.cell(tally.account, "a").state(at=Number.ONE)) is None


@in_virtual_time
async def test_a_question_about_what_is_not_there_leaves_the_world_as_it_is(node, tally):
    """A reason asked for a module that is none was kept among the modules: no snapshot could follow."""
    world = await node.world("w")
    for module in (None, "nothing", 5, []):
        with pytest.raises(Rejected):
            await world.wait_reason(module, b"a")
        with pytest.raises(Rejected):
            world.cell(module, "a")
    with pytest.raises(Rejected):
        await world.wait_reason("account", [b"a"])
    await world.send(tally.Add("a", 1))
    assert (await world.snapshot())[0] > 0


@pytest.mark.parametrize("count", [1.5, True, "3", 0, None])
def test_what_is_kept_is_a_whole_number(count):
    """A fraction was stored, and from then on no snapshot of the world could be saved."""
    with pytest.raises(Rejected) as caught:
        Retention(snapshots=count)
    assert caught.value.code == "host.retention_snapshots"


@pytest.mark.parametrize("name", ["worlds", "snapshots", "stored_bytes", "cells", "events_per_s"])
@pytest.mark.parametrize("most", [1.5, True, "3", -1, [[]]])
def test_a_quota_is_a_whole_number(name, most):
    with pytest.raises(Rejected) as caught:
        Quotas(**{name: most})
    assert caught.value.code == "host.quota_value"


def test_a_rule_takes_what_its_type_says_and_no_more():
    cases = {
        (str, "a", "a"), (str, b"a", REFUSED), (str, "\ud800", REFUSED), (str, Name.ONE, "one"),
        (int, 5, 5), (int, True, REFUSED), (int, 5.0, REFUSED), (int, 1 << 63, REFUSED),
        (float, 5, 5), (float, float("inf"), REFUSED), (float, True, REFUSED),
        (bool, False, False), (bool, 0, REFUSED), (bytes, b"a", b"a"), (bytes, "a", REFUSED),
        (Literal["keep", "drop"], "keep", "keep"), (Literal["keep", "drop"], "x", REFUSED),
        (int | datetime, 5, 5), (int | datetime, "5", REFUSED), (UUID, "x", REFUSED),
        (str | PathLike[str], "a", "a"), (str | PathLike[str], "a\0", REFUSED),
        (str | PathLike[str], Path("a"), Path("a")), (Callable[[int], None], 5, REFUSED),
        (Mapping[str, int], 5, REFUSED), (Sequence[str], "ab", REFUSED), (Iterable[str], 5, REFUSED),
    }  # fmt: skip
    for annotation, given, wanted in cases:
        assert rule_of(annotation).accept(given) == wanted
    assert rule_of(Iterable[str]).accept(iter(["a", Name.ONE])) == ["a", "one"]
    for free in (Any, object, str | Any, Sequence[Any]):
        assert rule_of(free) is None


def test_positions_names_and_more_of_them_are_checked_alike():
    @checked_calls("apart")
    class Desk:
        def put(self, what: str, *more: int, how: bool = True, **rest: Any) -> tuple[Any, ...]:
            return what, more, how, rest

        def apart(self, what: int) -> int:
            return what

    desk = Desk()
    assert desk.put("a", 1, Number.ONE, how=False, x=5) == ("a", (1, 1), False, {"x": 5})
    assert desk.apart("5") == "5"
    for given, named, name in ((("a", "b"), {}, "more"), ((5,), {}, "what"), (("a",), {"how": 1}, "how")):
        with pytest.raises(Rejected) as caught:
            desk.put(*given, **named)
        assert caught.value.fields["name"] == name
    with pytest.raises(TypeError):
        desk.put()
