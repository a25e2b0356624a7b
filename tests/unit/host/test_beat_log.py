"""What a node logs of its worlds: steps that failed, what people did, and what was put out of the way."""

from __future__ import annotations

import asyncio
import logging

import pytest

from cellule.errors import Corrupted, Parked, StepFailed
from cellule.host.limits import LOGGED_STEPS_MAX
from cellule.kernel.decide.admission import Admission
from cellule.kernel.decide.steps import Stepper
from cellule.kernel.state.snapshot import SnapshotJob
from cellule.testing import VirtualClock
from cellule.values.link import Link
from tests.support.virtual_tests import in_virtual_time


@pytest.fixture
def heard(caplog):
    """The lines of a logger, each with its level."""
    caplog.set_level(logging.INFO, "cellule")

    def lines(name):
        return [(one.levelname, one.getMessage()) for one in caplog.records if one.name == name]

    return lines


def quiet():
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)


@in_virtual_time
async def test_a_step_that_failed_is_told_once_with_its_place(node, tally, heard):
    """A halted cell was in the journal only: no line anywhere said so."""
    world = await node.world("shop")
    with pytest.raises(StepFailed):
        await world.send(tally.Fail("a"))
    for _ in range(3):
        await world.send(tally.Add("b", 1))
    [(level, line)] = heard("cellule.steps")
    assert level == "ERROR"
    assert line.startswith("world shop: the step at height ")
    assert " of tally/account/a for the event at height " in line
    assert "the cell is halted and keeps its messages: ValueError: " in line
    assert "tally.py:" in line
    assert line.endswith("[modules.exception]")


@in_virtual_time
async def test_a_beat_whose_steps_all_fail_leaves_a_bounded_number_of_lines(node, tally, heard):
    world = await node.world("shop")
    sents = [await world.send_nowait(tally.Fail(f"k{number}")) for number in range(LOGGED_STEPS_MAX + 7)]
    await asyncio.gather(*(sent.wait() for sent in sents), return_exceptions=True)
    lines = [line for _, line in heard("cellule.steps")]
    assert len(lines) == LOGGED_STEPS_MAX + 1
    assert lines[-1] == "world shop: 7 more steps of this beat failed"


@in_virtual_time
async def test_what_a_person_did_is_told_with_who_and_why(node, tally, heard):
    world = await node.world("shop")
    await world.control("pause", who="ann", why="the bank is down")
    paused = [line for _, line in heard("cellule.host") if " pause by " in line]
    assert len(paused) == 1
    assert paused[0].startswith("world shop: pause by ann at height ")
    assert paused[0].endswith(": the bank is down")


@in_virtual_time
async def test_a_deploy_is_told_with_its_era(node, tally, heard):
    world = await node.world("shop")
    manifest = Link((await node.node.hosted(world.info)).world.eras.current.manifest.cid)
    for era in (1, 2):
        await world.control("deploy", who="ann", why=f"release {era}", manifest=manifest)
    told = [line for _, line in heard("cellule.host") if "deploy of bafy" in line]
    assert ["which begins era 1, by ann" in told[0], "which begins era 2, by ann" in told[1]] == [True, True]
    assert told[1].endswith(": release 2")


@in_virtual_time
async def test_a_snapshot_that_fails_is_told_once_and_so_is_the_one_that_follows(
    opened, tally, heard, monkeypatch
):
    failures, sound = [], SnapshotJob._ordered

    def fall(self, index, pack=None):
        if self.height and index is self._ledger.book.keys and len(failures) < 3:
            failures.append(self.height)
            raise ZeroDivisionError("a defect of snapshots")
        return (yield from sound(self, index, pack))

    monkeypatch.setattr(SnapshotJob, "_ordered", fall)
    async with opened(snapshot_bytes=20_000, clock=VirtualClock(), idle_s=1e6) as node:
        quiet()
        world = await node.world("shop")
        await world.send_many([tally.Keep(f"k{number}", "x" * 200) for number in range(200)])
        await world.send(tally.Add("a", 1))
        await asyncio.sleep(60)
        told = [
            (level, line) for level, line in heard("cellule.host") if " snapshot, " in line or "new" in line
        ]
    assert [level for level, _ in told] == ["WARNING", "INFO"]
    assert told[0][1].startswith("world shop goes on without a new snapshot")
    assert told[0][1].endswith("ZeroDivisionError: a defect of snapshots")
    assert told[1][1] == "world shop has a new snapshot, after 3 that failed"


@in_virtual_time
async def test_an_item_that_is_set_aside_is_told(node, tally, heard, monkeypatch, caplog):
    sound = Admission._targets

    def fall(self, item):
        if b"poison" in item.value:
            raise ZeroDivisionError("a defect of admission")
        return sound(self, item)

    monkeypatch.setattr(Admission, "_targets", fall)
    quiet()
    world = await node.world("shop")
    sent = await world.send_nowait(tally.Add("a", 1, "poison"), id="i")
    await asyncio.gather(sent.wait(), return_exceptions=True)
    [(level, line)] = [told for told in heard("cellule.host") if "aside" in told[1]]
    assert level == "ERROR"
    assert line.startswith("tally/Add@1 is set aside; world ")
    assert "ZeroDivisionError: a defect of admission" in line
    assert "in fall" in caplog.text


@in_virtual_time
async def test_a_cell_that_is_halted_for_a_defect_is_told(node, tally, heard, monkeypatch):
    sound = Stepper.compute

    def fall(self, slot, height, entropy):
        if slot.key == b"cursed":
            raise ZeroDivisionError("a defect of steps")
        return (yield from sound(self, slot, height, entropy))

    monkeypatch.setattr(Stepper, "compute", fall)
    quiet()
    world = await node.world("shop")
    with pytest.raises(Parked):
        await world.send(tally.Add("cursed", 1))
    told = [told for told in heard("cellule.host") if told[0] == "ERROR"]
    assert len(told) == 1
    assert told[0][1].startswith("cell tally/account/cursed is halted; world ")


@in_virtual_time
async def test_a_world_that_is_paused_for_a_defect_is_told(node, tally, heard, monkeypatch):
    quiet()
    world = await node.world("shop")
    await world.send(tally.Add("a", 1))

    def fall(_ledger):
        raise ZeroDivisionError("a defect of timers")
        yield

    monkeypatch.setattr("cellule.kernel.decide.timers.next_due", fall)
    with pytest.raises(Parked):
        await world.send(tally.Add("a", 1))
    told = [told for told in heard("cellule.host") if told[0] == "ERROR"]
    assert len(told) == 1
    assert told[0][1].startswith("the world is paused; world ")
    assert "a defect of timers" in told[0][1]


@in_virtual_time
async def test_a_world_that_is_stopped_is_told(node, tally, heard, monkeypatch):
    quiet()
    world = await node.world("shop")

    def fall(self, slot, height, entropy):
        raise Corrupted("kernel.damaged", "two rows contradict each other")
        yield

    monkeypatch.setattr(Stepper, "compute", fall)
    sent = await world.send_nowait(tally.Add("a", 1), id="i")
    await asyncio.gather(sent.wait(), return_exceptions=True)
    await asyncio.sleep(1)
    told = [told for told in heard("cellule.host") if told[0] == "ERROR"]
    assert len(told) == 1
    assert told[0][1] == f"world shop ({world.id}) was stopped: two rows contradict each other"
