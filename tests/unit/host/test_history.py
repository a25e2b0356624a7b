"""`cell.history`: every life of a cell, in pages, without reading more of the journal than it needs."""

from __future__ import annotations

import inspect

import pytest

from cellule.errors import Rejected
from cellule.host.read import history, journal_reader
from cellule.kernel.world import World
from cellule.testing import VirtualClock
from tests.support.virtual_tests import in_virtual_time


async def whole(cell, **options):
    """All versions by pages, and how many pages it took."""
    page = await cell.history(**options)
    found, pages = list(page), 1
    while page.next is not None:
        page = await cell.history(**options, before=page.next)
        found += page
        pages += 1
    return found, pages


async def lived(node, tally, lives=3, steps=4):
    """A world in which `brief` of `p` lived and expired several times, among much else."""
    world = await node.world("w")
    for life in range(lives):
        for step in range(steps):
            await world.send_many([tally.Add(f"a{number}", 1) for number in range(20)])
            await world.send(tally.Poke("pp1"), id=f"{life} {step}")
        await world.cell(tally.brief, "pp1").wait_until(lambda state: state is None)
    return world


@in_virtual_time
async def test_a_deleted_cell_has_its_whole_history(opened, tally):
    clock = VirtualClock()
    async with opened(clock=clock) as node, opened(owner=False, clock=clock) as guest:
        owner = await lived(node, tally)
        await owner.send(tally.Poke("pp1"))
        wanted = [1, *[4, 3, 2, 1] * 3]
        for world in (owner, await guest.world("w")):
            cell = world.cell(tally.brief, "pp1")
            found = await cell.history()
            assert [each.version for each in found] == wanted
            assert [each.state.count for each in found] == wanted
            assert [each.height for each in found] == sorted((each.height for each in found), reverse=True)
            assert found.next is None
            for limit in (1, 2, 3, 100):
                assert (await whole(cell, limit=limit))[0] == found
            await owner.send(tally.Add("a1", 1))
        assert await owner.cell(tally.brief, "nobody").history() == []


@in_virtual_time
async def test_a_page_begins_anywhere(opened, tally):
    async with opened(clock=VirtualClock()) as node:
        world = await lived(node, tally, lives=2, steps=3)
        cell = world.cell(tally.brief, "pp1")
        found = await cell.history()
        for before in range(1, (await world.head()).height + 2):
            page = await cell.history(before=before)
            assert page == [each for each in found if each.height < before]


@in_virtual_time
async def test_a_page_looks_at_a_bounded_part_of_the_journal(opened, tally, monkeypatch):
    monkeypatch.setattr(history, "HISTORY_SCAN_BYTES", 1_000)
    async with opened(clock=VirtualClock()) as node:
        world = await lived(node, tally)
        cell = world.cell(tally.brief, "pp1")
        first = await cell.history()
        assert first.next is not None
        found, pages = await whole(cell)
        assert [each.version for each in found] == [4, 3, 2, 1] * 3
        assert pages > 3


@in_virtual_time
async def test_a_history_reads_each_frame_once_and_no_record_but_its_own(opened, tally, monkeypatch):
    """Once two whole frames were decoded for every version."""
    async with opened(clock=VirtualClock()) as node:
        world = await node.world("w")
        await world.send_many([tally.Add(f"a{number % 50}", 1) for number in range(5_000)])
        decoded, read = [], []
        real = journal_reader.decode_frame

        def counted(data, **options):
            decoded.append(len(data))
            return real(data, **options)

        monkeypatch.setattr(journal_reader, "decode_frame", counted)
        monkeypatch.setattr("cellule.kernel.journal.frame.read_row", _counted(read))
        frames = {frame.header.last async for frame in world.frames()}
        decoded.clear()
        read.clear()
        found = await world.cell(tally.account, "a7").history()
        assert [each.version for each in found] == list(range(100, 0, -1))
        assert len(decoded) <= len(frames)
        assert len(read) <= 2 * len(found) + 2


@in_virtual_time
async def test_a_read_of_a_state_touches_no_frame(opened, tally, monkeypatch):
    async with opened(clock=VirtualClock()) as node, opened(owner=False) as guest:
        world = await node.world("w")
        await world.send(tally.Poke("p"))
        await world.send(tally.Add("a", 1))
        beside = await guest.world("w")
        await beside.cell(tally.brief, "p").state()

        def none(*_data, **_options):
            raise AssertionError("a frame was read")

        monkeypatch.setattr(journal_reader, "decode_frame", none)
        for each in (world, beside):
            assert (await each.cell(tally.brief, "p").state()).count == 1
            assert (await each.cell(tally.brief, "p").view()).version == 1
            assert len((await each.cells(tally.account)).cells) == 1


@in_virtual_time
async def test_a_read_of_a_state_is_no_beat_and_does_not_inspect_its_reducer_again(node, tally, monkeypatch):
    world = await node.world("w")
    await world.send(tally.Poke("p"))
    await world.cell(tally.brief, "p").state()
    await world.wait_idle()
    done = []

    def noted(real):
        def call(*given, **options):
            done.append(real.__name__)
            return real(*given, **options)

        return call

    monkeypatch.setattr(World, "beat", noted(World.beat))
    monkeypatch.setattr(inspect, "signature", noted(inspect.signature))
    for _ in range(3):
        assert (await world.cell(tally.brief, "p").state()).count == 1
        assert (await world.cell(tally.brief, "p").view()).version == 1
    assert done == []
    await world.send(tally.Poke("p"))
    assert (await world.cell(tally.brief, "p").state()).count == 2
    assert "beat" in done


@pytest.mark.parametrize("limit", [0, 10_001])
@in_virtual_time
async def test_a_page_of_a_history_without_a_sensible_limit_is_refused(node, tally, limit):
    with pytest.raises(Rejected) as error:
        await (await node.world("w")).cell(tally.account, "a").history(limit=limit)
    assert error.value.code == "host.page_limit"


def _counted(read):
    from cellule.kernel.journal.table import read_row

    def counted(row, names):
        read.append(row)
        return read_row(row, names)

    return counted
