"""Operations through a node: started, told, awaited, closed, waited for, and the same after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cellule import Rejected, TimedOut
from cellule.host.outbox.signatures import NodeKey
from cellule.host.read.record_view import RecordRenderer
from cellule.kernel.items import Pace
from cellule.testing import VirtualClock
from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

KEY = NodeKey(b"k" * 32)
COPIES = load_app(Path(__file__).parents[2] / "node_apps" / "copies.py")


@in_virtual_time
async def test_an_operation_is_started_told_and_closed(opened):
    async with opened() as node:
        world = await node.world("w")
        op = await world.op.start("op/import", "/env/a", ttl=9, payload={"rows": 5}, who="ada", why="monday")
        await world.op.state(op, "ist:copy", code=3, note="half")
        view = await world.op.get(op)
        assert (view.id, view.path, view.verb, view.target) == (op, f"/rt/ops/{op}", "op/import", "/env/a")
        assert (view.state, view.code, view.note, view.is_closed) == ("ist:copy", 3, "half", False)
        await world.op.close(op, "sts:fail", summary="the disk is full")
        await world.op.close(view.path, "sts:fail")
        view = await world.op.get(view.path)
        assert (view.status, view.summary, view.state) == ("sts:fail", "the disk is full", "ist:fail")
        assert [each.state for each in view.history] == ["ist:run", "ist:copy", "ist:fail"]
    async with opened() as node:
        assert await (await node.world("w")).op.get(op) == view


@in_virtual_time
async def test_what_the_rules_refuse_is_an_error_that_says_what_to_do(opened):
    async with opened() as node:
        world = await node.world("w")
        op = await world.op.start("op/import", "/env/a")
        await world.op.close(op)
        wrong = [
            (world.op.start("", "/a"), "operation.argument"),
            (world.op.start("v", "/a//b"), "heartbeat.path"),
            (world.op.start("v", "/a", mode="opm:odd"), "operation.argument"),
            (world.op.state("9-9", "ist:x"), "operation.unknown"),
            (world.op.state(op, "ist:x"), "operation.closed"),
            (world.op.await_(op, "ist:x", ""), "operation.argument"),
            (world.op.close(op, "sts:odd"), "operation.argument"),
            (world.op.get("9-9"), "operation.unknown"),
            (world.op.get("odd"), "operation.unknown"),
            (world.op.wait("9-9"), "operation.unknown"),
            (world.op.list(limit=0), "operation.argument"),
            (world.op.list(after="odd"), "operation.unknown"),
        ]
        for call, code in wrong:
            with pytest.raises(Rejected) as refused:
                await call
            assert refused.value.code == code
            assert refused.value.hint or code == "operation.argument"


@in_virtual_time
async def test_a_client_waits_for_the_end_or_a_state(opened):
    async with opened() as node:
        world = await node.world("w")
        op = await world.op.start("op/import", "/env/a")
        waits = [asyncio.create_task(world.op.wait(op, want)) for want in (None, "ist:copy", "sts:ok")]
        await asyncio.sleep(1)
        assert [each.done() for each in waits] == [False] * 3
        await world.op.state(op, "ist:copy")
        assert (await waits[1]).state == "ist:copy"
        await world.op.close(op)
        assert [(await each).status for each in (waits[0], waits[2])] == ["sts:ok", "sts:ok"]
        with pytest.raises(TimedOut) as late:
            await world.op.wait(op, "sts:fail", timeout=0.5)
        assert late.value.code == "operation.wait_timeout"


@in_virtual_time
async def test_operations_are_listed_in_pages_in_the_order_of_creation(opened):
    async with opened() as node:
        world = await node.world("w")
        ops = [await world.op.start("op/import", f"/env/{number}") for number in range(5)]
        await world.op.close(ops[3])
        page = await world.op.list(limit=2)
        assert [each.id for each in page.operations] == ops[:2]
        page = await world.op.list(limit=2, after=page.next)
        assert [each.id for each in page.operations] == ops[2:4]
        page = await world.op.list(limit=2, after=page.next)
        assert ([each.id for each in page.operations], page.next) == (ops[4:], None)
        assert [each.id for each in (await world.op.list(state="ist:ok")).operations] == [ops[3]]


@in_virtual_time
async def test_asking_again_with_the_same_id_starts_no_second_one(opened):
    async with opened() as node:
        world = await node.world("w")
        ops = {await world.op.start("op/import", "/env/a", id="mine") for _ in range(2)}
        assert len(ops) == len((await world.op.list()).operations) == 1


@in_virtual_time
async def test_a_timeout_in_beats_comes_though_nothing_else_happens_and_then_the_world_rests(opened):
    async with opened(clock=VirtualClock()) as node:
        world = await node.world("w")
        op = await world.op.start("op/import", "/env/a")
        await world.op.await_(op, "sts:ok", "op/done", ttl=3)
        assert len((await world.op.get(op)).watchers) == 1
        await asyncio.sleep(10)
        assert (await world.op.get(op)).watchers == ()
        before = (await world.head()).beat
        await asyncio.sleep(3_600)
        assert (await world.head()).beat == before


@in_virtual_time
async def test_a_watcher_that_waits_over_a_restart_still_times_out(opened):
    async with opened(clock=VirtualClock()) as node:
        world = await node.world("w")
        op = await world.op.start("op/import", "/env/a")
        await world.op.await_(op, "sts:ok", "op/done", ttl=5)
    async with opened(clock=VirtualClock()) as node:
        world = await node.world("w")
        await asyncio.sleep(20)
        assert (await world.op.get(op)).watchers == ()


@in_virtual_time
async def test_how_often_beats_only_count_can_be_chosen(opened):
    async with opened(clock=VirtualClock(), pace=Pace(1_000, 64, 100_000_000_000)) as node:
        world = await node.world("w")
        op = await world.op.start("op/import", "/env/a")
        await world.op.await_(op, "sts:ok", "op/done", ttl=3)
        await asyncio.sleep(90)
        assert len((await world.op.get(op)).watchers) == 1
        await asyncio.sleep(500)
        assert (await world.op.get(op)).watchers == ()


async def told(world, kind):
    """The records of a kind as people see them."""
    head = await world.head()
    found = [await RecordRenderer(world.follower).at(height) for height in range(1, head.height + 1)]
    return [each for each in found if each.kind == kind]


@in_virtual_time
async def test_a_client_waits_for_a_run_by_its_path_before_it_has_begun(opened):
    async with opened(app=COPIES.app, key=KEY, adapters=[COPIES.copy]) as node:
        world = await node.world("w")
        waiting = asyncio.create_task(world.op.wait("/cells/copies/job/abc", timeout=60))
        await asyncio.sleep(1)
        assert not waiting.done()
        await world.send(COPIES.Asked("abc"))
        done = await waiting
        assert (done.verb, done.status) == ("workflow/copies/job", "sts:ok")
        assert (await world.op.get("/cells/copies/job/abc")).id == done.id
        (name,) = await world.heartbeat.list("/operations/effects")
        copied = await world.op.wait(f"/effects/{name}")
        assert (copied.verb, copied.status, copied.summary) == ("effect/copies.copy", "sts:ok", "attempts: 1")
        receipts = await told(world, "receipt")
        [frame] = [each.now_ns for each in receipts]
        assert [each.fields["unix_ts_ns"] for each in receipts] == [frame]
        await world.heartbeat.publish(receipts[0].beat, 77)
        assert [each.fields["unix_ts_ns"] for each in await told(world, "receipt")] == [77]
        spent = {"intents": 10, "period_ns": 3_600_000_000_000, "spent": 1}
        assert await world.heartbeat.list("/rt/budgets") == ["copying"]
        assert await world.heartbeat.read("/rt/budgets/copying") == spent
        assert not await world.heartbeat.exists("/rt/budgets/other")
        metrics = {
            name: await world.heartbeat.read(f"/rt/metrics/{name}")
            for name in await world.heartbeat.list("/rt/metrics")
        }
        head = await world.head()
        assert metrics == {
            "approvals": 0, "beat": head.beat, "dead_letters": 0, "effects": 0, "enzymes": 3,
            "height": head.height, "impulses": 0, "timers": 0,
        }  # fmt: skip
        with pytest.raises(Rejected) as unknown:
            await world.op.get("/cells/copies/job/other")
        assert unknown.value.code == "operation.unknown"
        with pytest.raises(TimedOut):
            await world.op.wait("/cells/copies/job/other", timeout=0.5)
