"""What callers give beside an event or a verb: refused by name before it is sent, on owner and guest."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, tzinfo
from enum import IntEnum, StrEnum
from uuid import UUID

import pytest

from cellule.errors import Rejected
from cellule.host.limits import (
    CONTROL_BYTES_MAX,
    CORRELATION_CHARS_MAX,
    ID_BYTES_MAX,
    WHO_CHARS_MAX,
    WHY_CHARS_MAX,
)
from cellule.kernel.journal.records import ControlRecord, EventRecord
from cellule.store import keys
from cellule.testing import World
from cellule.values.cid import cid_of
from cellule.values.link import Link
from tests.support.virtual_tests import in_virtual_time

LONE = "a\ud800"


class Nowhere(tzinfo):
    def utcoffset(self, when):
        return None


class Lost(tzinfo):
    def utcoffset(self, when):
        raise ZeroDivisionError("nowhere")


def _own(*_):
    raise ZeroDivisionError("its own")


class OwnBytes(bytes):
    __slots__ = ()
    __len__ = __bytes__ = __iter__ = __getitem__ = __repr__ = _own


class OwnNumber(int):
    __slots__ = ()
    __float__ = __int__ = __index__ = __lt__ = __le__ = __gt__ = __ge__ = __repr__ = _own


class DriversUuid(UUID):
    """As drivers of databases give them."""

    def __str__(self):
        return "of a driver"


class BrokenUuid(UUID):
    bytes = property(_own)
    __str__ = __repr__ = _own


class OwnTime(datetime):
    __sub__ = __rsub__ = __str__ = __repr__ = __format__ = _own


SENDING = {
    "an id that is a number": ({"id": 5}, "host.argument", "`id`"),
    "an id that is true": ({"id": True}, "host.argument", "`id`"),
    "an id that is a list": ({"id": ["a"]}, "host.argument", "`id`"),
    "an id with a lone surrogate": ({"id": LONE}, "host.argument", "`id`"),
    "an id of megabytes": ({"id": "x" * 9_000_000}, "host.argument", "`id`"),
    "an id one byte too long": ({"id": b"x" * (ID_BYTES_MAX + 1)}, "host.argument", "`id`"),
    "an id whose bytes are too many": ({"id": "é" * (ID_BYTES_MAX // 2 + 1)}, "host.argument", "`id`"),
    "an empty id": ({"id": ""}, "host.empty_id", "id"),
    "no bytes as an id": ({"id": b""}, "host.empty_id", "id"),
    "a version as text": ({"expected_version": "3"}, "host.argument", "`expected_version`"),
    "a version that is true": ({"expected_version": True}, "host.argument", "`expected_version`"),
    "a version that is a fraction": ({"expected_version": 1.0}, "host.argument", "`expected_version`"),
    "a negative version": ({"expected_version": -1}, "host.argument", "`expected_version`"),
    "a version beyond all numbers": ({"expected_version": 1 << 64}, "host.argument", "`expected_version`"),
    "half an etag": ({"expected_version": "3@"}, "host.argument", "`expected_version`"),
    "an etag with a sign": ({"expected_version": "-3@1"}, "host.argument", "`expected_version`"),
    "an etag in other digits": ({"expected_version": "\u0663@1"}, "host.argument", "`expected_version`"),
    "a correlation that is a number": ({"correlation": 5}, "host.argument", "`correlation`"),
    "a correlation with a lone surrogate": ({"correlation": LONE}, "host.argument", "`correlation`"),
    "an empty correlation": ({"correlation": ""}, "host.argument", "`correlation`"),
    "a long correlation": (
        {"correlation": "x" * (CORRELATION_CHARS_MAX + 1)}, "host.argument", "`correlation`",
    ),
    "a time without a zone": (
        {"id": "a", "issued": datetime(2026, 1, 1)}, "host.argument", "`issued`",  # noqa: DTZ001 - the mistake
    ),
    "a time as a number": ({"id": "a", "issued": 5}, "host.argument", "`issued`"),
    "a time of no id": ({"issued": datetime(2026, 1, 1, tzinfo=UTC)}, "host.issued_without_id", "id"),
    "a key of the wrong type": ({"key": 5}, "app.key_value", "key"),
    "a timeout as text": ({"timeout": "5"}, "host.timeout", "timeout"),
    "a timeout that is true": ({"timeout": True}, "host.timeout", "timeout"),
    "a timeout without end": ({"timeout": float("inf")}, "host.timeout", "timeout"),
    "a timeout that is no number": ({"timeout": float("nan")}, "host.timeout", "timeout"),
    "a timeout beyond all numbers": ({"timeout": 10**400}, "host.timeout", "timeout"),
    "a time whose zone gives no offset": (
        {"id": "a", "issued": datetime(2026, 1, 1, tzinfo=Nowhere())}, "host.argument", "`issued`",
    ),
    "a reply that is no class": ({"reply": 5}, "host.argument", "`reply`"),
    "a wait that is a number": ({"wait": 5}, "host.wait", "wait"),
}  # fmt: skip
STEERING = {
    "nobody": ({"who": ""}, "host.no_who", "who"),
    "a number as who": ({"who": 5}, "host.argument", "`who`"),
    "who with a lone surrogate": ({"who": LONE}, "host.argument", "`who`"),
    "who is too long": ({"who": "x" * (WHO_CHARS_MAX + 1)}, "host.argument", "`who`"),
    "a number as why": ({"why": 5}, "host.argument", "`why`"),
    "nothing as why": ({"why": None}, "host.argument", "`why`"),
    "why with a lone surrogate": ({"why": LONE}, "host.argument", "`why`"),
    "why is too long": ({"why": "x" * (WHY_CHARS_MAX + 1)}, "host.argument", "`why`"),
    "an id that is a number": ({"id": 5}, "host.argument", "`id`"),
    "an empty id": ({"id": ""}, "host.empty_id", "id"),
}
VERBS = {
    "an unknown verb": ("dance", {}, "host.verb", "dance"),
    "a verb that is a number": (5, {}, "host.verb", "5"),
    "an argument that is no value": ("cell.resume", {"module": {1, 2}}, "host.argument", "`module`"),
    "an argument with a lone surrogate": ("cell.resume", {"module": LONE}, "host.argument", "`module`"),
    "an argument of megabytes": (
        "cell.resume", {"module": "x" * (CONTROL_BYTES_MAX + 1)}, "host.argument", "`module`",
    ),
}  # fmt: skip


async def inbox_rows(node, world):
    within = keys.inbox_range(world.info.universe, world.id)
    return (await node.node.engine.scan(*within, limit=10)).items


async def record_at(world, height, kind):
    found = [(at, record) async for frame in world.frames() for at, record in frame.of(kind)]
    return dict(found)[height]


async def check_refused(node, world, call, code, named):
    """The call is refused by name, and neither the journal nor the inbox has changed."""
    before = await world.head()
    with pytest.raises(Rejected) as caught:
        await call()
    assert caught.value.code == code
    assert named in str(caught.value)
    str(caught.value).encode()  # printable, whatever was given
    assert await world.head() == before
    assert not await inbox_rows(node, world)


@pytest.mark.parametrize("place", ["owner", "guest"])
@in_virtual_time
async def test_what_is_wrong_beside_an_event_is_refused_before_it_is_sent(opened, tally, place):
    async with opened() as node, opened(owner=False) as other:
        await (await node.world("w")).send(tally.Add("a", 1))
        world = await (node if place == "owner" else other).world("w")
        for more, code, named in SENDING.values():
            await check_refused(
                node, world, lambda more=more: world.send(tally.Add("a", 1), **more), code, named
            )
        applied = await world.send(
            tally.Add("a", 1), id="x" * ID_BYTES_MAX, correlation="c", expected_version=1
        )
        assert applied.steps[0].version == 2


@in_virtual_time
async def test_a_wrong_argument_fails_nobody_else(node, tally):
    """An id with a lone surrogate, or of megabytes, once failed every send of its beat."""
    world = await node.world("w")
    sends = [world.send(tally.Add(f"a{number}", 1)) for number in range(20)]
    wrong = [world.send(tally.Add("b", 1), id=each) for each in (5, LONE, "x" * 9_000_000)]
    outcomes = await asyncio.gather(*sends, *wrong, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes[20:]] == [Rejected] * 3
    assert all(outcome.steps[0].version == 1 for outcome in outcomes[:20])


@in_virtual_time
async def test_send_nowait_checks_the_same(node, tally):
    world = await node.world("w")
    for more, code, named in SENDING.values():
        if not {"wait", "timeout", "reply"} & set(more):
            await check_refused(
                node, world, lambda more=more: world.send_nowait(tally.Add("a", 1), **more), code, named
            )


@pytest.mark.parametrize("place", ["owner", "guest"])
@in_virtual_time
async def test_what_is_wrong_beside_a_verb_is_refused_before_it_is_sent(opened, tally, place):
    async with opened() as node, opened(owner=False) as other:
        await (await node.world("w")).send(tally.Add("a", 1))
        world = await (node if place == "owner" else other).world("w")
        calls = (
            lambda **more: world.control("pause", **more), lambda **more: world.approve(1, **more),
            lambda **more: world.deny(1, **more), lambda **more: world.cancel(1, **more),
            lambda **more: world.retry(1, **more),
        )  # fmt: skip
        for more, code, named in STEERING.values():
            for call in calls:
                given = {"who": "ada", "why": "because", **more}
                await check_refused(node, world, lambda call=call, given=given: call(**given), code, named)
        for verb, more, code, named in VERBS.values():
            asked = {"verb": verb, "who": "ada", "why": "", **more}
            await check_refused(node, world, lambda asked=asked: world.control(**asked), code, named)


@pytest.mark.parametrize("place", ["owner", "guest"])
@in_virtual_time
async def test_other_calls_that_operate_check_their_arguments_too(opened, tally, place):
    async with opened() as node, opened(owner=False) as other:
        await (await node.world("w")).send(tally.Add("a", 1))
        world = await (node if place == "owner" else other).world("w")
        done = {"who": "ada", "why": "because"}
        wrong = (
            (lambda: world.snapshot(who=5), "host.argument", "`who`"),
            (lambda: world.snapshot(why=LONE), "host.argument", "`why`"),
            (lambda: world.pause_schedule(5, **done), "host.argument", "`name`"),
            (lambda: world.resume_schedule("tick", who="ada", why=5), "host.argument", "`why`"),
            (lambda: world.preview_schedule(None), "host.argument", "`name`"),
            (lambda: world.inject_receipt(1, "ok", 1, who=5, why=""), "host.argument", "`who`"),
            (lambda: world.inject_receipt(1, "failed", code=5, **done), "host.argument", "`code`"),
            (lambda: world.inject_receipt(1, "failed", text=LONE, **done), "host.argument", "`text`"),
            (lambda: world.approve("nonsense", **done), "host.effect_id", "nonsense"),
            (lambda: world.approve(True, **done), "host.argument", "`intent`"),
            (lambda: world.wait_applied(5), "host.argument", "`id`"),
            (lambda: world.find_event(LONE), "host.argument", "`id`"),
        )
        for call, code, named in wrong:
            await check_refused(node, world, call, code, named)


@in_virtual_time
async def test_a_guest_deploys_no_manifest_that_is_not_stored(opened, tally):
    """It was durable in the inbox before anyone looked, and the world ended at every restart."""
    async with opened() as node, opened(owner=False) as other:
        await node.world("w")
        world = await other.world("w")
        gone = Link(cid_of(b"\xa0"))
        await check_refused(
            node, world, lambda: world.control("deploy", who="ada", why="new", manifest=gone),
            "host.link_missing", "`manifest`",
        )  # fmt: skip


@in_virtual_time
async def test_subclasses_arrive_as_what_they_are(node, tally):
    class Name(StrEnum):
        ONE = "one"

    class Number(IntEnum):
        ZERO = 0

    world = await node.world("w")
    sent = await world.send(
        tally.Add("a", 1), id=Name.ONE, correlation=Name.ONE, expected_version=Number.ZERO
    )  # fmt: skip
    record = await record_at(world, sent.height, EventRecord)
    assert (type(record.id), type(record.extras["correlation"])) == (str, str)
    assert type(record.extras["expected"]) is int
    done = await world.control("pause", who=Name.ONE, why=Name.ONE)
    assert type((await record_at(world, done.height, ControlRecord)).who) is str
    await world.control("resume", who="ada", why="")


@pytest.mark.parametrize("place", ["owner", "guest"])
@in_virtual_time
async def test_values_with_methods_of_their_own_arrive_as_what_they_are(opened, tally, place):
    """The world met their methods, could not take the item, and was restored without it."""
    async with opened() as node, opened(owner=False) as other:
        await node.world("w")
        world = await (node if place == "owner" else other).world("w")
        drivers = DriversUuid(int=7)
        first = await world.send(tally.Add("a", 1), id=drivers, key=OwnBytes(b"a"), timeout=OwnNumber(60))
        record = await record_at(world, first.height, EventRecord)
        assert record.id == UUID(int=7).bytes
        again = await world.send(
            tally.Add("a", 1), id=UUID(int=7), key=b"a", expected_version=OwnNumber(0)
        )  # fmt: skip
        assert (again.duplicate, again.height) == (True, first.height)
        sent = await world.send(
            tally.Add("a", 1), id=OwnBytes(b"x"), issued=OwnTime(2100, 1, 1, tzinfo=UTC)
        )  # fmt: skip
        assert (await record_at(world, sent.height, EventRecord)).id == b"x"
        assert (await world.cell(tally.account, "a").state()).total == 2
        with pytest.raises(Rejected):
            world.cell(tally.account, OwnBytes(b"a"))
        assert await world.height_at(OwnTime(2100, 1, 1, tzinfo=UTC)) == (await world.head()).height
        await check_refused(
            node, world, lambda: world.send(tally.Add("a", 1), id=BrokenUuid(int=1)), "host.argument", "`id`"
        )
        for zone in (Nowhere(), Lost()):
            await check_refused(
                node, world, lambda zone=zone: world.height_at(datetime(2026, 1, 1, tzinfo=zone)),
                "host.naive_time", "no time zone",
            )  # fmt: skip


@pytest.mark.parametrize("place", ["owner", "guest"])
@in_virtual_time
async def test_a_uuid_and_its_text_are_one_id(opened, tally, place):
    async with opened() as node, opened(owner=False) as other:
        await node.world("w")
        world = await (node if place == "owner" else other).world("w")
        given = UUID("0192f3a0-0000-7000-8000-0000000000ff")
        first = await world.send(tally.Add("a", 1), id=given)
        for same in (str(given), str(given).upper(), given.bytes):
            again = await world.send(tally.Add("a", 1), id=same)
            assert (again.duplicate, again.height) == (True, first.height)
            assert await world.find_event(same) == first.height
        assert not (await world.send(tally.Add("a", 1), id=given.hex)).duplicate  # a text of its own
        assert (await world.cell(tally.account, "a").state()).total == 2


def test_the_world_of_tests_checks_the_same(tally):
    world = World(tally.app)
    for more, code, named in SENDING.values():
        if set(more) <= {"id", "expected_version", "issued"}:
            with pytest.raises(Rejected) as caught:
                world.send(tally.Add("a", 1), **more)
            assert (caught.value.code, named in str(caught.value)) == (code, True)
    world.assert_replays()
