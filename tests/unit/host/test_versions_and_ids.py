"""Etags, conflicts that leave their ids unused, verbs that are done once, and attempts that come too late."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import pytest

from cellule.errors import OutcomeUnknown, Rejected, StepFailed, TooOld, VersionConflict
from cellule.host.inbox.inbox import enqueue
from cellule.host.inbox.item_rows import control_row
from cellule.kernel import limits
from cellule.kernel.items import ControlItem
from cellule.kernel.journal.records import ControlRecord, EventRecord, ExpiredRecord, RefusedRecord
from cellule.kernel.state import dedupe
from cellule.testing import VirtualClock, World
from tests.support.virtual_tests import in_virtual_time

PLACES = pytest.mark.parametrize("place", ["owner", "guest"])


async def records(world, kind):
    return [record async for frame in world.frames() for _, record in frame.of(kind)]


async def expired(world):
    """Wait until the first cell has expired."""
    async with aclosing(world.tail(after=0)) as frames:
        async for frame in frames:
            if any(frame.of(ExpiredRecord)):
                return


async def reborn(world, tally):
    """Make cell a, let its retention end it, and make it again: the etag of the first, and of the second."""
    old = (await world.send(tally.Poke("a"))).etag
    await expired(world)
    new = (await world.send(tally.Poke("a"))).etag
    return old, new


# Etags


@PLACES
@in_virtual_time
async def test_an_etag_is_that_of_one_incarnation_and_a_number_is_not(opened, tally, place):
    """Read version 1, delete, make it again, send with 1: it was applied to the other cell."""
    clock = VirtualClock()
    async with opened(clock=clock) as node, opened(clock=clock, owner=False) as other:
        await node.world("w")
        world = await (node if place == "owner" else other).world("w")
        old, new = await reborn(world, tally)
        assert old != new
        assert old.startswith("1@")
        assert (await world.cell(tally.brief, "a").view()).etag == new
        with pytest.raises(VersionConflict) as caught:
            await world.send(tally.Poke("a"), expected_version=old)
        assert f"expected {old} (version@born), the cell is at {new}" in str(caught.value)
        second = await world.send(tally.Poke("a"), expected_version=new)
        assert second.steps[0].version == 2
        await world.send(tally.Poke("a"), expected_version=2)  # a number compares the version only


@in_virtual_time
async def test_every_way_to_an_etag_gives_the_same_one(node, tally):
    world = await node.world("w")
    first = await world.send(tally.Add("a", 1), id="one")  # by id
    again = await world.send(tally.Add("a", 1), id="one")  # read from the journal
    plain = await world.send(tally.Add("b", 1))  # the short way
    sents = await world.send_many([tally.Add("c", 1), tally.Add("d", 1)])
    assert first.etag == again.etag == (await world.cell(tally.account, "a").view()).etag
    assert plain.etag == (await world.cell(tally.account, "b").view()).etag
    for key, sent in zip("cd", sents, strict=True):
        assert sent.steps[0].etag == (await world.cell(tally.account, key).view()).etag
    assert (await world.send(tally.Both("a"))).etag is None  # of two cells


@in_virtual_time
async def test_zero_as_an_etag_says_that_there_is_no_cell(node, tally):
    world = await node.world("w")
    await world.send(tally.Add("a", 1), expected_version="0@0")
    with pytest.raises(VersionConflict):
        await world.send(tally.Add("a", 1), expected_version="0@0")


def test_the_world_of_tests_has_etags(tally):
    world = World(tally.app)
    world.send(tally.Poke("a"))
    old = world.cell(tally.brief, "a").etag
    world.advance(seconds=31)
    assert world.cell(tally.brief, "a").etag == "0@0"
    world.send(tally.Poke("a"))
    assert world.send(tally.Poke("a"), expected_version=old, check=False).conflict
    assert world.send(tally.Poke("a"), expected_version=world.cell(tally.brief, "a").etag).applied
    world.assert_replays()


# Conflicts


@PLACES
@in_virtual_time
async def test_a_conflict_leaves_its_id_unused(opened, tally, place):
    """The same id answered the old conflict for ever, with the right version too."""
    async with opened() as node, opened(owner=False) as other:
        await (await node.world("w")).send(tally.Add("a", 1))
        world = await (node if place == "owner" else other).world("w")
        for _ in range(2):  # with the same expectation the same answer
            with pytest.raises(VersionConflict):
                await world.send(tally.Add("a", 5), id="pay", expected_version=0)
        assert len(await records(world, EventRecord)) == 3  # the world's first, and two
        done = await world.send(tally.Add("a", 5), id="pay", expected_version=1)
        assert (done.duplicate, done.steps[0].version) == (False, 2)
        for expected in (0, 1, 2, None):  # now it is used
            again = await world.send(tally.Add("a", 5), id="pay", expected_version=expected)
            assert (again.duplicate, again.height) == (True, done.height)
        assert (await world.cell(tally.account, "a").state()).total == 6


@in_virtual_time
async def test_a_conflict_leaves_its_id_unused_after_a_restart(opened, tally):
    async with opened() as node:
        world = await node.world("w")
        await world.send(tally.Add("a", 1))
        with pytest.raises(VersionConflict):
            await world.send(tally.Add("a", 5), id="pay", expected_version=0)
        await world.snapshot()
        with pytest.raises(VersionConflict):
            await world.send(tally.Add("a", 6), id="other", expected_version=0)
    async with opened() as node:
        world = await node.world("w")
        await world.send(tally.Add("a", 5), id="pay", expected_version=1)
        await world.send(tally.Add("a", 6), id="other")  # expecting nothing is another expectation
        assert (await world.cell(tally.account, "a").state()).total == 12


@in_virtual_time
async def test_an_attempt_under_way_is_not_joined_by_another(node, tally):
    world = await node.world("w")
    await world.head()
    sends = [await world.send_nowait(tally.Add("a", 1), id="one", expected_version=each) for each in (0, 1)]
    first, second = [await sent.wait("durable") for sent in sends]
    assert (first.duplicate, second.duplicate) == (False, True)
    assert (await world.cell(tally.account, "a").state()).total == 1


def test_of_very_many_conflicts_the_older_half_keeps_its_ids_used(tally, monkeypatch):
    """Nothing is applied twice then: the oldest ids answer their conflicts."""
    monkeypatch.setattr(dedupe, "DEDUPE_CONFLICTS_MAX", 4)
    world = World(tally.app)
    world.send(tally.Add("a", 1))
    for number in range(5):
        assert world.send(tally.Add("a", 1), id=f"c{number}", expected_version=0, check=False).conflict
    assert world.send(tally.Add("a", 1), id="c0", expected_version=1, check=False).conflict
    assert world.send(tally.Add("a", 1), id="c4", expected_version=1).applied
    world.restart()
    assert world.send(tally.Add("a", 1), id="c3", expected_version=2).applied
    world.assert_replays()


# Verbs


@PLACES
@in_virtual_time
async def test_a_verb_with_an_id_is_done_once(opened, tally, place):
    async with opened() as node, opened(owner=False) as other:
        await node.world("w")
        world = await (node if place == "owner" else other).world("w")
        first = await world.control("pause", who="ada", why="tea", id="p1")
        again = await world.control("pause", who="ada", why="tea", id="p1")
        assert (first.duplicate, again.duplicate, again.height) == (False, True, first.height)
        with pytest.raises(Rejected) as caught:
            await world.control("resume", who="ada", why="tea", id="p1")
        assert caught.value.code == "kernel.id_reused"
        with pytest.raises(Rejected) as caught:
            await world.send(tally.Add("a", 1), id="p1")
        assert caught.value.code == "kernel.id_reused"
        await world.control("resume", who="ada", why="tea")
        assert [record.verb for record in await records(world, ControlRecord)] == ["pause", "resume"]


@in_virtual_time
async def test_a_verb_is_done_once_though_its_row_was_put_twice(opened, tally):
    """After an unknown outcome the inbox got a second row, and the pause was journaled twice."""
    async with opened() as node:
        world = await node.world("w")
        row = control_row(ControlItem("pause", "ada", "tea", {}, id=bytes(16)))
        await enqueue(node.node.engine, world.info.universe, world.id, [row, row], bytes(16))
        (await node.node.hosted(world.info)).ring()
        async with aclosing(world.tail(after=0)) as frames:
            async for frame in frames:
                if any(frame.of(ControlRecord)):
                    break
        await world.control("resume", who="ada", why="back")
        assert [record.verb for record in await records(world, ControlRecord)] == ["pause", "resume"]


@in_virtual_time
async def test_a_refusal_is_told_to_the_one_who_asked(opened, tally):
    """Two operators resumed cells at once; both were told that the one cell was not stopped."""
    async with opened() as node, opened(owner=False) as other:
        owner = await node.world("w")
        await owner.send(tally.Add("a", 1))
        with pytest.raises(StepFailed, match="told to fail"):
            await owner.send(tally.Fail("b"))
        world = await other.world("w")
        who = {"who": "ada", "why": "because", "module": "tally/account"}
        wrong, right = await asyncio.gather(
            world.control("cell.resume", key=b"a", **who),
            world.control("cell.resume", key=b"b", **{**who, "who": "bob"}),
            return_exceptions=True,
        )
        assert isinstance(wrong, Rejected)
        assert wrong.code == "kernel.not_stopped"
        assert right.height
        [refused] = await records(owner, RefusedRecord)
        assert refused.id is not None


@in_virtual_time
async def test_a_refused_verb_leaves_its_id_unused(node, tally):
    world = await node.world("w")
    await world.send(tally.Add("a", 1))
    resume = {"who": "ada", "why": "", "id": "r1", "module": "tally/account", "key": b"a"}
    with pytest.raises(Rejected):
        await world.control("cell.resume", **resume)
    with pytest.raises(StepFailed, match="told to fail"):
        await world.send(tally.Fail("a"))
    assert not (await world.control("cell.resume", **resume)).duplicate
    assert (await world.control("cell.resume", **resume)).duplicate


# Attempts that come late


@PLACES
@in_virtual_time
async def test_an_attempt_issued_before_the_oldest_remembered_id_is_too_old(
    opened, tally, place, monkeypatch
):
    """Ids that leave early were applied again: the time of the first attempt was not asked for."""
    for name, value in (("BUCKET_IDS", 2), ("IDS_MAX", 2), ("IDS_MIN", 1), ("KEPT_NS", 0)):
        monkeypatch.setattr(dedupe, f"DEDUPE_{name}", value)
    async with opened() as node, opened(owner=False) as other:
        await node.world("w")
        world = await (node if place == "owner" else other).world("w")
        first = datetime.fromtimestamp(node.node.clock.now_ns() / 1e9, tz=UTC) - timedelta(milliseconds=1)
        await world.send(tally.Add("a", 1), id="one", issued=first)
        for number in range(6):  # so that `one` is forgotten
            await asyncio.sleep(1)
            await world.send(tally.Add("b", 1), id=f"b{number}")
        with pytest.raises(TooOld) as caught:
            await world.send(tally.Add("a", 1), id="one", issued=first)
        assert "look at the cell" in str(caught.value)
        assert (await world.cell(tally.account, "a").state()).total == 1
        now = datetime.fromtimestamp(node.node.clock.now_ns() / 1e9, tz=UTC)
        await world.send(tally.Add("a", 1), id="new", issued=now)
        assert (await world.cell(tally.account, "a").state()).total == 2


def test_too_old_begins_right_before_the_floor(tally, monkeypatch):
    """The id that left last was issued one microsecond before the floor, which is still remembered."""
    for name, value in (("BUCKET_IDS", 1), ("IDS_MAX", 1), ("IDS_MIN", 1), ("KEPT_NS", -1)):
        monkeypatch.setattr(dedupe, f"DEDUPE_{name}", value)
    world = World(tally.app)
    left = world.now
    world.send(tally.Add("a", 1), id="left")
    world.advance(seconds=1)
    floor = world.now
    world.send(tally.Add("a", 1), id="kept")
    assert world.send(tally.Add("a", 1), id="kept", issued=left).duplicate  # known ids have no age
    with pytest.raises(TooOld):
        world.send(tally.Add("a", 1), id="left", issued=floor - timedelta(microseconds=1))
    assert not world.send(tally.Add("a", 1), id="fresh", issued=floor).duplicate
    world.assert_replays()


def test_the_page_tells_how_long_ids_are_remembered():
    """`docs/guides/sending.md` has this arithmetic."""
    week_s = limits.DEDUPE_WINDOW_NS / 1e9
    assert limits.DEDUPE_IDS_MAX / 5_000 == 200
    assert pytest.approx(2 * 3600 + 46 * 60, abs=60) == limits.DEDUPE_IDS_MAX / 100
    assert pytest.approx(28 * 3600, rel=0.01) == limits.DEDUPE_IDS_MAX / 10
    assert limits.DEDUPE_IDS_MAX / week_s == pytest.approx(1.65, rel=0.01)


@in_virtual_time
async def test_an_unknown_outcome_is_the_callers_to_repeat(node, tally):
    """What a caller does after `OutcomeUnknown`: the same verb and id again, without looking."""
    world = await node.world("w")

    async def insist(attempts):
        for _ in range(attempts):
            try:
                done = await world.control("pause", who="ada", why="tea", id="once")
                raise OutcomeUnknown("host.outcome_unknown", "the answer was lost")
            except OutcomeUnknown:
                continue
        return done

    assert (await insist(3)).duplicate
    assert len(await records(world, ControlRecord)) == 1
