"""Erasure on nodes: every row of the store, restarts, guests, crashes, effects, exports, deleted worlds."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from cellule import ERASED, Corrupted, Rejected
from cellule.effects.adapter import adapter as performing
from cellule.host.erasure_keys import key_range
from cellule.host.inbox.inbox import enqueue
from cellule.host.ingress.world_storage import WorldStorage
from cellule.host.outbox.signatures import NodeKey
from cellule.host.read.check import check_world
from cellule.host.read.record_view import RecordRenderer
from cellule.host.read.verify import verify_world
from cellule.kernel.journal.records import RefusedRecord
from cellule.kernel.key_ring import KeyRow, key_id, parse_row
from cellule.store import keys
from cellule.store.engine import SCAN_LIMIT_MAX, Batch
from cellule.store.engines.memory import MemoryEngine
from cellule.store.families import universe_ranges, world_ranges
from cellule.values.cbor import encode
from tests.support.nodes import load_app
from tests.support.virtual_tests import in_virtual_time

PEOPLE = load_app(Path(__file__).parents[2] / "node_apps" / "people.py")
MARK = "Elm Street"
SECRET = MARK.encode()


async def info_of(node, name="w"):
    return await node.node.directory.world(await node.node.universe("default"), name)


async def all_rows(engine, info):
    """Every row of a world and of its universe, with its key."""
    found = []
    for begin, end in [*world_ranges(info.universe, info.id), *universe_ranges(info.universe)]:
        following = begin
        while following is not None:
            page = await engine.scan(following, end, limit=SCAN_LIMIT_MAX)
            found += page.items
            following = page.items[-1][0] + b"\0" if page.more else None
    return found


async def check_sealed(node, info):
    """No row says what people said, before and after erasure."""
    for key, value in await all_rows(node.node.engine, info):
        assert SECRET not in key + value, key


async def say(world, name, text, what="", **more):
    return await world.send(PEOPLE.Said(name, f"{MARK} {text}", what), **more)


@in_virtual_time
async def test_what_is_sealed_is_read_by_everybody_until_it_is_erased(opened):
    async with opened(app=PEOPLE.app) as node:
        world, info = await node.world("w"), await info_of(node)
        for text in ("1", "2", "3"):
            await say(world, "p", text, "long")
        done = await say(world, "p", "4", id="four", wait="reply")
        assert done.reply == f"{MARK} 4"
        again = await say(world, "p", "4", id="four", wait="reply")
        assert (again.reply, again.duplicate) == (f"{MARK} 4", True)
        with pytest.raises(Rejected, match=MARK):
            await say(world, "p", "5", "refuse")
        cell = world.cell(PEOPLE.person, "p")
        assert (await cell.state()).text == f"{MARK} 4"
        assert [version.ann for version in await cell.history()][1:] == [f"{MARK} {n}" for n in (4, 3, 2, 1)]
        assert (await cell.history())[0].error == f"{MARK} 5"
        [found] = (await world.cells(PEOPLE.person, where=f'state.text.startsWith("{MARK}")')).cells
        assert found.state == await cell.state()
        await check_sealed(node, info)
    async with opened(app=PEOPLE.app) as node:
        world = await node.world("w")
        cell = world.cell(PEOPLE.person, "p")
        assert (await cell.state()).count == 4
        await world.operator("ada").erase(PEOPLE.person, "p", why="asked for")
        assert await cell.state() is None
        history = await cell.history()
        assert {version.state for version in history} == {ERASED, None}
        assert {version.ann for version in history} == {ERASED, None}
        assert history[1].error == "(erased)"
        assert (await say(world, "p", "4", id="other", wait="reply")).reply == f"{MARK} 4"
        await check_sealed(node, info)
    async with opened(app=PEOPLE.app) as node:
        world = await node.world("w")
        assert await world.cell(PEOPLE.person, "p").state() == PEOPLE.Person(f"{MARK} 4", 1)
        views = [
            view.json() async for frame in world.frames()
            for view in await RecordRenderer(world.follower).frame(frame)
        ]  # fmt: skip
        assert {"erased": True} in [view.get("value") for view in views]
        assert [view["verb"] for view in views if view["kind"] == "control"] == ["cell.erase"]
        verified = await verify_world(node.node.loader, info, node.node.cas(info.universe))
        assert verified.difference is None
        assert verified.erased > 4
        assert verified.steps > 1


@in_virtual_time
async def test_the_key_goes_with_the_frame_of_the_control_and_the_next_one_is_another(opened):
    async with opened(app=PEOPLE.app) as node:
        world, info = await node.world("w"), await info_of(node)
        row = keys.erasure_key(info.universe, key_id(info.id.bytes, "people/person", b"p"))

        async def stored():
            [data] = await node.node.engine.read([row])
            return parse_row(data)

        assert await stored() == KeyRow()
        await say(world, "p", "1")
        first = (await stored()).key
        await world.operator("ada").erase(PEOPLE.person, "p", why="asked for")
        assert await stored() == KeyRow(erased=True)
        await say(world, "p", "2")
        assert (await stored()).key not in (None, first)


@in_virtual_time
async def test_a_guest_erases_through_the_inbox_and_once_for_each_id(opened):
    async with opened(app=PEOPLE.app) as node:
        await say(await node.world("w"), "p", "1")
        async with opened(app=PEOPLE.app, owner=False) as guest:
            there = await guest.world("w")
            assert (await there.cell(PEOPLE.person, "p").state()).count == 1
            done = await there.operator("ada").erase(PEOPLE.person, "p", why="by mail", id="letter 7")
            again = await there.operator("ada").erase(PEOPLE.person, "p", why="by mail", id="letter 7")
            assert again.height == done.height
            assert await there.cell(PEOPLE.person, "p").state() is None
            assert (await there.cell(PEOPLE.person, "p").history())[-1].state is ERASED


@in_virtual_time
async def test_adapters_get_params_in_clear_and_what_they_answer_is_sealed(opened):
    heard = []

    async def post(params: PEOPLE.Letter) -> PEOPLE.Posted:
        heard.append(params.text)
        return PEOPLE.Posted(f"{params.text} arrived")

    adapters = [performing("people.post")(post)]
    async with opened(app=PEOPLE.app, adapters=adapters, key=NodeKey(bytes(32))) as node:
        world, info = await node.world("w"), await info_of(node)
        await say(world, "p", "1", "post")
        await world.cell(PEOPLE.person, "p").wait_until(lambda state: state.text.endswith("arrived"))
        assert heard == [f"{MARK} 1"]
        await check_sealed(node, info)


@in_virtual_time
async def test_a_deleted_world_takes_its_keys_along_unless_a_fork_reads_by_them(opened):
    async with opened(app=PEOPLE.app) as node:
        world, info = await node.world("w"), await info_of(node)
        await say(world, "p", "1")
        fork = await world.fork("f")
        kept = key_range(info.universe, info.id)
        await node.delete_world("w", force=True)
        assert (await node.node.engine.scan(*kept, limit=10)).items
        assert (await fork.cell(PEOPLE.person, "p").state()).text == f"{MARK} 1"
        await node.delete_world("f")
        assert (await node.node.engine.scan(*kept, limit=10)).items
        other = await node.world("other")
        await say(other, "p", "1")
        made = await info_of(node, "other")
        await node.delete_world("other")
        assert not (await node.node.engine.scan(*key_range(made.universe, made.id), limit=10)).items


@in_virtual_time
async def test_forks_are_compared_and_merged_without_a_word_in_clear(opened):
    async with opened(app=PEOPLE.app) as node:
        world, info = await node.world("w"), await info_of(node)
        await say(world, "p", "1")
        fork = await world.fork("f")
        await say(fork, "p", "2", "long")
        await say(fork, "q", "1")
        difference = await node.diff_worlds("w", "f")
        assert f"{MARK} 2" in str(difference.cells)
        report = await node.merge_worlds("f", "w", who="ada", why="fine")
        assert {each.key for each in report.merged} >= {b"p", b"q"}
        assert (await world.cell(PEOPLE.person, "p").state()).text == f"{MARK} 2" * 100
        await check_sealed(node, info)
        await world.operator("ada").erase(PEOPLE.person, "p", "q", why="asked for")
        assert await fork.cell(PEOPLE.person, "p").state() is ERASED
        assert (await fork.cell(PEOPLE.person, "q").state()).text == f"{MARK} 1"
        assert (await world.cell(PEOPLE.person, "q").history())[-1].state is ERASED
        await check_sealed(node, info)


@in_virtual_time
async def test_an_exported_world_holds_no_keys_and_works_on_where_it_is_imported(opened, tmp_path):
    file = tmp_path / "w.car"
    async with opened(app=PEOPLE.app) as node:
        world = await node.world("w")
        await say(world, "p", "1", "later")
        await say(world, "q", "1")
        await node.export_world("w", file)
        assert SECRET not in file.read_bytes()
        with pytest.raises(Rejected, match="all in clear"):
            await WorldStorage(node.node, world.info).export_cell("people/person", b"p", tmp_path / "p.car")
        info = await info_of(node)
        rows = [await node.node.engine.read([key]) for key, _ in await all_rows(node.node.engine, info)
                if b"keys" in key]  # fmt: skip
        for [row] in rows:
            assert parse_row(row).key not in file.read_bytes()
    async with opened(engine=MemoryEngine(), app=PEOPLE.app) as other:
        await other.import_world(file)
        there = await other.world("w")
        assert await there.cell(PEOPLE.person, "p").state() is ERASED
        await say(there, "new", "1")
        assert (await there.cell(PEOPLE.person, "new").state()).text == f"{MARK} 1"
        await there.operator("ada").erase(PEOPLE.person, "p", why="it cannot be read here")
        await say(there, "p", "2")
        assert await there.cell(PEOPLE.person, "p").state() == PEOPLE.Person(f"{MARK} 2", 1)


@in_virtual_time
async def test_keys_move_in_a_file_of_their_own_and_bring_back_nothing_that_was_erased(opened, tmp_path):
    file, moved = tmp_path / "w.car", tmp_path / "w.keys"
    async with opened(app=PEOPLE.app) as node:
        world = await node.world("w")
        for name in "pqr":
            await say(world, name, "1")
        await world.operator("ada").erase(PEOPLE.person, "r", why="asked for")
        await node.export_world("w", file)
        done = await (await node.storage("w")).export_keys(moved)
        assert (done.found, moved.stat().st_mode & 0o777) == (5, 0o600)  # two people, and three friends
        with pytest.raises(Rejected, match="exists already"):
            await (await node.storage("w")).export_keys(moved)
    async with opened(engine=MemoryEngine(), app=PEOPLE.app) as other:
        info = await other.import_world(file)
        there = await other.world("w")
        await there.operator("ada").erase(PEOPLE.person, "q", why="asked for here")
        taken = await (await other.storage("w")).import_keys(moved)
        assert (taken.found, taken.taken) == (5, 4)
        assert (await there.cell(PEOPLE.person, "p").state()).text == f"{MARK} 1"
        assert (await there.cell(PEOPLE.person, "q").history())[-1].state is ERASED
        assert (await (await other.storage("w")).import_keys(moved)).taken == 0
        await check_world(other.node.loader, info, other.node.cas(info.universe))
        await say(there, "p", "2")
        assert (await there.cell(PEOPLE.person, "p").state()).count == 2
        for bad in (b"", encode({"kind": "cellule/keys", "format": 0, "world": bytes(16), "keys": []})):
            (tmp_path / "bad.keys").write_bytes(bad)
            with pytest.raises(Rejected, match="cannot be read"):
                await (await other.storage("w")).import_keys(tmp_path / "bad.keys")


@in_virtual_time
async def test_a_key_that_is_lost_is_damage_and_one_that_was_erased_or_never_came_is_not(opened, tmp_path):
    async with opened(app=PEOPLE.app) as node:
        world, info = await node.world("w"), await info_of(node)
        await say(world, "p", "1")
        await say(world, "q", "1")
        await world.operator("ada").erase(PEOPLE.person, "q", why="asked for")
        proven = partial(check_world, node.node.loader, info, node.node.cas(info.universe))
        await proven()
        row = keys.erasure_key(info.universe, key_id(info.id.bytes, "people/person", b"p"))
        [kept] = await node.node.engine.read([row])
        await node.node.engine.commit(Batch(clear=[row]))
        with pytest.raises(Corrupted) as caught:
            await proven()
        assert caught.value.code == "host.key_missing"
        cell = world.cell(PEOPLE.person, "p")
        with pytest.raises(Corrupted, match="Nobody erased it"):
            await cell.state()
        assert "Nobody erased it" in (await cell.history())[0].error
        listed = {each.key: each for each in (await world.cells(PEOPLE.person)).cells}
        assert "Nobody erased it" in listed["p"].error
        await node.node.engine.commit(Batch(set={row: kept}))
        await proven()


@pytest.mark.parametrize("what", ["", "long"])
@in_virtual_time
async def test_no_new_key_is_made_in_the_place_of_one_that_is_lost(opened, what):
    """The next event made one: then all that the lost key sealed was taken for erased, also by `check`."""
    async with opened(app=PEOPLE.app) as node:
        world, info = await node.world("w"), await info_of(node)
        for name in "pq":
            await say(world, name, "1", what)
        row = keys.erasure_key(info.universe, key_id(info.id.bytes, "people/person", b"p"))
        [kept] = await node.node.engine.read([row])
    await MemoryEngine(opened.disk).commit(Batch(clear=[row]))
    async with opened(app=PEOPLE.app) as node:
        world = await node.world("w")
        for _ in range(2):
            with pytest.raises(Rejected, match="nobody destroyed it") as caught:
                await say(world, "p", "2")
            assert caught.value.code == "kernel.key_missing"
        assert await node.node.engine.read([row]) == [None]
        await say(world, "q", "2")
        assert (await world.cell(PEOPLE.person, "q").state()).count == 2
        await say(world, "new", "1")
        await node.node.engine.commit(Batch(set={row: kept}))
    async with opened(app=PEOPLE.app) as node:
        world = await node.world("w")
        await say(world, "p", "2")
        assert (await world.cell(PEOPLE.person, "p").state()).count == 2
        await check_world(node.node.loader, info, node.node.cas(info.universe))


@pytest.mark.parametrize("place", ["owner", "guest", "inbox"])
@in_virtual_time
async def test_keys_that_are_none_are_refused_and_nothing_is_erased(opened, place):
    """A list among them was an error of the kernel: its world was restored, and told of a defect."""
    async with opened(app=PEOPLE.app) as node, opened(app=PEOPLE.app, owner=False) as other:
        await say(await node.world("w"), "ann", "12")
        world = await (other if place == "guest" else node).world("w")
        for number, wrong in enumerate(([], {}, None, 5, "ann", [b"ann"])):
            arguments = {"module": "people/person", "keys": [b"ann", wrong]}
            if place != "inbox":
                with pytest.raises(Rejected) as caught:
                    await world.control("cell.erase", who="me", why="so", **arguments)
                assert caught.value.code == "kernel.argument"
                continue
            row = {
                "kind": "control", "verb": "cell.erase", "who": "me", "why": "", "arguments": arguments,
                "id": f"i{number}",
            }  # fmt: skip
            await enqueue(node.node.engine, world.info.universe, world.info.id, [row], b"%016d" % number)
        await asyncio.sleep(3)
        refused = [each.code async for frame in world.frames() for _, each in frame.of(RefusedRecord)]
        assert set(refused) <= {"kernel.argument"}
        assert len(refused) == (0 if place == "owner" else 6)
        assert (await world.cell(PEOPLE.person, "ann").state()) != ERASED
