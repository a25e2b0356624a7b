"""The heartbeat through a node: signals, enzymes, the tree, beats and the view `/rt`, by owner and guest."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cellule import Rejected
from cellule.testing import VirtualClock
from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

app = load_app(Path(__file__).parents[2] / "node_apps" / "photos.py").app


async def filled(node):
    world = await node.world("w")
    heart = world.heartbeat
    await heart.write("/p/a", {"width": 10})
    await heart.bind("/p", "shrink", propagate=True)
    return world, heart


@in_virtual_time
async def test_a_signal_runs_the_enzymes_that_its_target_has(opened):
    async with opened(app=app) as node:
        world, heart = await filled(node)
        done = await heart.signal("/photos/add/one", "/p/a")
        await world.wait_idle()
        assert await heart.read("/p/a/small") == {"width": 5}
        beats = [each for each in await heart.beats() if each.agenda]
        assert [(line.enzyme, line.code, line.ran) for line in beats[0].agenda] == [("shrink", 0, True)]
        assert [each.signal for each in beats[0].impulses] == ["/photos/add/one"]
        assert beats[0].impulses[0].height == done.height
        assert [each.signal for each in beats[0].queued] == ["/photos/done"]
        assert beats[1].agenda[0].no_match  # `log` is bound nowhere
    async with opened(app=app) as node:
        heart = (await node.world("w")).heartbeat
        assert await heart.read("/p/a/small") == {"width": 5}
        assert await heart.beat_view(beats[0].beat) == beats[0]
        assert await heart.beat_view(beats[-1].beat + 1_000) is None


@in_virtual_time
async def test_an_impulse_with_an_id_is_queued_once(opened):
    async with opened(app=app) as node:
        world, heart = await filled(node)
        first = await heart.signal("/photos/done", id="mine")
        again = await heart.signal("/photos/done", id="mine")
        assert (first.duplicate, again.duplicate, again.height) == (False, True, first.height)
        with pytest.raises(Rejected) as reused:
            await heart.signal("/photos/other", id="mine")
        assert reused.value.code == "kernel.id_reused"
        await world.wait_idle()
        assert await heart.read("/log/done") == 1


@in_virtual_time
async def test_a_guest_does_what_the_owner_does(opened):
    async with opened(app=app) as owner, opened(app=app, owner=False) as guest:
        assert owner.node.is_owner
        assert not guest.node.is_owner
        await filled(owner)
        heart = (await guest.world("w")).heartbeat
        long = "x" * 100_000
        done = await heart.signal("/photos/add", "/p/a", payload=long, id="g")
        assert (await heart.signal("/photos/add", "/p/a", payload=long, id="g")).height == done.height
        await (await owner.world("w")).wait_idle()
        assert await heart.read("/p/a/small") == {"width": 5}
        with pytest.raises(Rejected) as empty:
            await heart.signal()
        assert empty.value.code == "heartbeat.impulse_empty"
        with pytest.raises(Rejected) as past:
            await heart.signal("/photos/add", beat=1)
        assert past.value.code == "heartbeat.beat_past"


@in_virtual_time
async def test_entries_are_registered_bound_and_removed(opened):
    async with opened(app=app) as node:
        world, heart = await filled(node)
        assert [(each.number, each.name) for each in await heart.enzymes()] == [(0, "shrink"), (1, "log")]
        await heart.register("/photos/*", "second", "photos/log", before=["log"], backoff=2)
        [entry] = await heart.enzymes(after=1)
        assert (entry.query, entry.match, entry.before, entry.options) == (
            "/photos/*", "exact", ["log"], {"backoff": 2},
        )  # fmt: skip
        await heart.signal("/photos/done")
        await world.wait_idle()
        assert await heart.read("/log/done") == 1  # both ran on the tree as it was
        await heart.unregister(entry.number)
        assert len(await heart.enzymes()) == 2
        assert await heart.bindings("/p") == {"shrink": "propagating"}
        await heart.bind("/p/a", "log")
        await heart.unbind("/p/a", "shrink")
        assert await heart.bindings("/p/a") == {"log": "local", "shrink": "ended"}
        with pytest.raises(Rejected) as wrong:
            await heart.register("/x", "y", "photos/none")
        assert "photos/none" in str(wrong.value)


@in_virtual_time
async def test_what_waits_in_a_pause_runs_in_its_order(opened):
    async with opened(app=app) as node:
        world, heart = await filled(node)
        await heart.pause()
        await heart.signal("/photos/done")
        await heart.signal("/photos/add", "/p/a")
        await asyncio.sleep(5)
        assert await heart.agenda() == []
        assert await heart.read("/log/done") is None
        await heart.resume()
        await world.wait_idle()
        assert await heart.read("/log/done") == 1
        assert await heart.read("/p/a/small") == {"width": 5}


@in_virtual_time
async def test_a_later_beat_comes_though_nothing_else_happens_and_then_the_world_rests(opened):
    async with opened(app=app, clock=VirtualClock()) as node:
        world, heart = await filled(node)
        beat = (await world.head()).beat
        await heart.signal("/photos/done", beat=beat + 6)
        await asyncio.sleep(60)
        assert await heart.read("/log/done") == 1
        rest = (await world.head()).beat
        await asyncio.sleep(3_600)
        assert (await world.head()).beat == rest


@in_virtual_time
async def test_the_runtime_tree_shows_what_is_recorded(opened):
    async with opened(app=app) as node:
        world, heart = await filled(node)
        op = await world.op.start("op/import", "/env/a")
        await heart.signal("/photos/add", "/p/a", payload=[1])
        await world.wait_idle()
        [beat] = [each.beat for each in await heart.beats() for sent in each.impulses if sent.payload == [1]]
        assert await heart.list("/rt") == ["analytics", "beat", "budgets", "metrics", "ops"]
        assert await heart.list("/rt/beat", limit=2) == ["1", "2"]
        assert await heart.list("/rt/beat", after="2", limit=1) == ["3"]
        assert await heart.list(f"/rt/beat/{beat}") == ["agenda", "impulses", "meta", "stage"]
        assert await heart.read(f"/rt/beat/{beat}/impulses") == [
            {"signal": "/photos/add", "target": "/p/a", "payload": [1]}
        ]
        [line] = await heart.read(f"/rt/beat/{beat}/agenda")
        assert (line["enzyme"], line["code"], line["ran"]) == ("shrink", 0, True)
        assert (await heart.read(f"/rt/beat/{beat}/stage"))["promoted"] == 1
        when = (await heart.beat_view(beat)).now_ns
        assert await heart.read(f"/rt/beat/{beat}/meta/unix_ts_ns") == when
        await heart.publish(beat, 77)
        assert await heart.read(f"/rt/beat/{beat}/meta/unix_ts_ns") == 77
        await heart.publish(beat + 1, 100)
        assert await heart.list("/rt/analytics/spacing") == [str(beat + 1)]
        assert await heart.read(f"/rt/analytics/spacing/{beat + 1}/interval_ns") == 23
        assert op in await heart.list("/rt/ops")
        assert (await heart.read(f"/rt/ops/{op}/state"))["state"] == "ist:run"
        assert (await heart.read(f"/rt/ops/{op}/envelope"))["verb"] == "op/import"
        assert not await heart.exists(f"/rt/ops/{op}/close")
        assert not await heart.exists("/rt/locks")
        with pytest.raises(Rejected) as refused:
            await heart.write("/rt/beat/1", 1)
        assert refused.value.code == "heartbeat.read_only"


@in_virtual_time
async def test_changes_below_a_path_are_watched(opened):
    async with opened(app=app) as owner, opened(app=app, owner=False) as guest:
        world, heart = await filled(owner)
        begin = (await world.head()).height
        long = "/p/" + "n" * 600
        await heart.signal("/photos/add", "/p/a")
        await heart.write(long, "x" * 50_000)
        await heart.write("/q", 1)
        await heart.delete(long)
        await heart.delete("/p/a")
        await world.wait_idle()
        seen = []
        async for change in (await guest.world("w")).heartbeat.watch("/p", after=begin):
            seen.append(change)
            if len(seen) == 5:
                break
        told = [(each.path, each.exists) for each in seen]
        assert sorted(told) == sorted([
            ("/p/a/small", True), (long, True), (long, False), ("/p/a", False), ("/p/a/small", False),
        ])  # fmt: skip
        assert next(each.value for each in seen if each.path == "/p/a/small") == {"width": 5}
        assert [each.height for each in seen] == sorted(each.height for each in seen)


@in_virtual_time
async def test_pages_of_names_go_on_behind_the_last(opened):
    async with opened(app=app) as node:
        heart = (await node.world("w")).heartbeat
        for name in ("a", "b", "b/c", "d"):
            await heart.write(f"/many/{name}", 1)
        assert await heart.list("/many", limit=2) == ["a", "b"]
        assert await heart.list("/many", limit=2, after="b") == ["d"]
        await heart.delete("/many/b")
        assert await heart.list("/many") == ["a", "d"]
        for limit in (0, 1_001):
            with pytest.raises(Rejected) as page:
                await heart.list("/many", limit=limit)
            assert page.value.code == "heartbeat.page"


@in_virtual_time
async def test_enzymes_are_listed_from_any_number_on(opened):
    """A number far below the first was a raw error of the one who asked."""
    async with opened(app=app) as node:
        world = await node.world("w")
        everything = await world.heartbeat.enzymes()
        assert everything
        for after in (-1, -(1 << 63) + 1):
            assert await world.heartbeat.enzymes(after=after) == everything
        assert await world.heartbeat.enzymes(after=(1 << 63) - 1) == []
