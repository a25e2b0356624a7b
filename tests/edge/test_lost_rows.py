"""Rows hidden or damaged in a real folder: told by name, contained to their world, nothing new is made."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from cellule.assembly import open as open_node
from cellule.cli.errors import Exit
from cellule.errors import Corrupted
from cellule.host.own.directory import baseline_of
from cellule.host.segments import Segment
from cellule.host.storage.policy import Retention
from cellule.host.storage.quotas import Quotas
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.store.store import DATABASE
from tests.support.nodes import load_app

TALLY = load_app(Path(__file__).parents[1] / "node_apps" / "tally.py")


def change(folder, key, value=None):
    """Hide the row of a key, or give it bytes that fail their checksum."""
    with sqlite3.connect(folder / DATABASE) as connection:
        if value is None:
            done = connection.execute("DELETE FROM rows WHERE key = ?", (key,))
        else:
            done = connection.execute("UPDATE rows SET value = ? WHERE key = ?", (value, key))
        assert done.rowcount == 1
    connection.close()


def rows_in(folder):
    with sqlite3.connect(folder / DATABASE) as connection:
        found = dict(connection.execute("SELECT key, value FROM rows"))
    connection.close()
    return found


def checked(folder):
    """What `cellule check` says: its exit code, and the codes of its problems."""
    words = [sys.executable, "-m", "cellule", "check", "--data", str(folder), "--json"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    said = json.loads(ended.stdout)
    return ended.returncode, [each["problem"]["code"] for each in said["worlds"] if "problem" in each]


@pytest.fixture
async def made(tmp_path):
    """A closed folder with two worlds, and the rows of the first one by what they are."""
    folder = tmp_path / "data"
    async with open_node(folder, TALLY.app) as node:
        for name in ("lost", "other"):
            world = await node.world(name)
            for _ in range(3):
                await world.send(TALLY.Add("a", 1))
        info = (await node.world("lost")).info
        heights = [frame.header.last async for frame in (await node.world("lost")).frames()]
    u, w = info.universe, info.id
    return folder, info, {
        "universe": keys.universe_name("default"),
        "universe named": keys.universe_named("default"),
        "universe meta": keys.universe_meta(u),
        "universe count": keys.universe_count(),
        "ref": keys.ref(u, "lost"),
        "ref named": keys.ref_named(u, "lost"),
        "listing": keys.universe_world(u, w),
        "count": keys.row_count("worlds", u),
        "meta": keys.world_meta(u, w),
        "epoch": keys.world_epoch(u, w),
        "head": keys.world_head(u, w),
        "baseline": keys.world_baseline(u, w),
        "first snapshot": keys.snapshot(u, w, 0),
        "a frame": keys.journal(u, w, heights[1]),
        "the last frame": keys.journal(u, w, heights[-1]),
    }  # fmt: skip


ROWS = (
    "universe", "universe named", "universe meta", "universe count", "ref", "ref named", "listing", "count",
    "meta", "epoch", "head", "baseline", "first snapshot", "a frame", "the last frame",
)  # fmt: skip


@pytest.mark.parametrize("hidden", ROWS)
async def test_check_knows_what_must_exist(made, hidden):
    folder, _, rows = made
    if hidden == ROWS[0]:
        assert await asyncio.to_thread(checked, folder) == (0, [])
    change(folder, rows[hidden])
    code, problems = await asyncio.to_thread(checked, folder)
    assert (code, len(problems)) == (Exit.DAMAGED, 2 if hidden.startswith("ref") else 1)


@pytest.mark.parametrize("row", [keys.ref, keys.ref_named])
async def test_a_row_of_a_further_name_that_is_hidden_is_found(made, row):
    """`check` and the list of refs said nothing of a name that was not the world's own."""
    folder, info, _ = made
    async with open_node(folder, TALLY.app) as node:
        await node.create_ref("more", "lost")
    change(folder, row(info.universe, "more"))
    assert await asyncio.to_thread(checked, folder) == (Exit.DAMAGED, ["host.list_short"])
    async with open_node(folder, TALLY.app) as node:
        with pytest.raises(Corrupted):
            await node.refs()
        await (await node.world("lost")).send(TALLY.Add("a", 1))


async def test_the_first_snapshot_is_missed_also_behind_later_ones(made):
    folder, _, rows = made
    async with open_node(folder, TALLY.app) as node:
        await (await node.world("lost")).snapshot()
    change(folder, rows["first snapshot"])
    assert await asyncio.to_thread(checked, folder) == (Exit.DAMAGED, ["host.world_rows"])


async def test_a_universe_whose_lists_are_damaged_hides_no_other_from_check(made):
    folder, _, rows = made
    async with open_node(folder, TALLY.app) as node:
        await node.create_universe("second")
        await node.create_world("third", universe="second")
        far = (await node.world("third", universe="second")).info
    change(folder, rows["count"])
    change(folder, keys.world_epoch(far.universe, far.id))
    assert await asyncio.to_thread(checked, folder) == (Exit.DAMAGED, ["host.list_short", "host.world_rows"])


def forget(node, info):
    """What must not be done while a row that counts is hidden, by that row."""
    storage = node.node.storage
    return {
        "holds": lambda: storage.compact(info, everything=True),
        "pins": lambda: node.collect_garbage(grace_s=0),
        "retention": lambda: storage.retain(info, Retention("drop", 1)),
        "quotas": lambda: node.create_world("further"),
    }  # fmt: skip


@pytest.mark.parametrize("hidden", ["holds", "pins", "retention", "quotas"])
@pytest.mark.parametrize("lost", ["row", "count"])
async def test_what_is_kept_is_not_let_go_where_its_row_is_hidden(made, hidden, lost):
    """A hidden hold and `history=drop` dropped the held history; a hidden pin let its objects go."""
    folder, info, _ = made
    async with open_node(folder, TALLY.app) as node:
        _, root = await (await node.world("lost")).snapshot()
        storage = await node.storage("lost")
        await storage.retain(history="drop", snapshots=1)
        await storage.hold("audit", 2)
        pin = await node.pin([root], 7_200)
        await node.set_quotas(Quotas(worlds=5))
        oldest = (await frames_of(node, "lost"))[0].header.last
    u, w = info.universe, info.id
    count = keys.row_count(hidden, u, *([w] if hidden in {"holds", "retention"} else []))
    row = {
        "holds": keys.history_hold(u, w, "audit"),
        "pins": keys.pin(u, pin.id),
        "retention": keys.world_retention(u, w),
        "quotas": keys.universe_quotas(u),
    }[hidden]
    assert await asyncio.to_thread(checked, folder) == (0, [])
    change(folder, row if lost == "row" else count)
    listed = hidden in {"holds", "pins"}
    if lost == "count" and not listed:
        assert await asyncio.to_thread(checked, folder) == (0, [])  # the row itself is there, and is heeded
        return
    code = "host.list_short" if listed else "host.row_missing"
    assert await asyncio.to_thread(checked, folder) == (Exit.DAMAGED, [code])
    async with open_node(folder, TALLY.app) as node:
        with pytest.raises(Corrupted) as caught:
            await forget(node, info)[hidden]()
        assert caught.value.code == code
        assert (await frames_of(node, "lost"))[0].header.last == oldest


async def test_what_is_counted_is_counted_no_more_once_it_is_gone(made):
    folder, _, _ = made
    async with open_node(folder, TALLY.app) as node:
        _, root = await (await node.world("lost")).snapshot()
        storage = await node.storage("lost")
        for height in (2, 3):  # the second time it moves
            await storage.hold("audit", height)
        assert [each.height for each in await storage.holds()] == [3]
        await storage.release("audit")
        assert await storage.holds() == []
        pin = await node.pin([root], 7_200)
        await node.unpin(pin.id)
        assert await node.pins() == []
        await storage.hold("more", 2)
        await storage.retain(history="drop")
        await node.delete_world("lost")
    counters = [key for key in rows_in(folder) if key.startswith((b"\x01holds", b"\x01retention"))]
    assert counters == []
    assert await asyncio.to_thread(checked, folder) == (0, [])


async def frames_of(node, name):
    return [frame async for frame in (await node.world(name)).frames()]


@pytest.mark.parametrize("hidden", [row for row in ROWS if "count" not in row and row != "first snapshot"])
async def test_a_world_of_which_a_row_is_hidden_is_corrupted_and_not_made_again(made, hidden):
    """A hidden ref made a second, empty world of that name; a hidden universe a second, empty one."""
    folder, info, rows = made
    change(folder, rows[hidden])
    before = {key for key in rows_in(folder) if b"refs" in key or b"universes" in key or b"worlds" in key}
    async with open_node(folder, TALLY.app) as node:
        with pytest.raises(Corrupted):
            await frames_of(node, "lost")
        if not hidden.startswith("universe"):
            other = await node.world("other")
            await other.send(TALLY.Add("a", 1))
            assert (await other.cell(TALLY.account, "a").state()).count == 4
    after = rows_in(folder)
    assert before == {key for key in after if b"refs" in key or b"universes" in key or b"worlds" in key}
    assert len({key for key in after if info.id.bytes in key and b"journal" in key}) <= 4


@pytest.mark.parametrize("kind", ["ready", "wake", "listing", "inbox", "outbox"])
async def test_one_damaged_row_is_told_by_its_world_and_holds_back_no_other(made, kind):
    """A damaged row ended the whole node, and every restart of it."""
    folder, info, rows = made
    u, w = info.universe, info.id
    shard = keys.shard_of(w)
    key = {
        "ready": keys.ready(shard, u, w),
        "wake": keys.wake(shard, 1, u, w),
        "listing": rows["listing"],
        "inbox": keys.inbox_prefix(u, w) + bytes(12),
        "outbox": keys.effect(shard, 5, 1, b"i" * 36),
    }[kind]
    async with open_node(folder, TALLY.app) as node:
        engine = node.node.engine
        await engine.commit(Batch(set={keys.ready(shard, u, w): b"odd", key: b"odd"}))
    said = asyncio.Queue()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.put_nowait(context))
    change(folder, key, b"damaged")
    async with open_node(folder, TALLY.app) as node:
        other = await node.world("other")
        await other.send(TALLY.Add("a", 1))
        assert (await other.cell(TALLY.account, "a").state()).count == 4
        assert sorted(each.name for each in await node.worlds()) == ["lost", "other"]
        if kind != "outbox":  # nobody performs what is in it; `check` and the list of effects name it
            context = await said.get()
            assert str(w) in context["message"]
            assert isinstance(context["exception"], Corrupted)


@pytest.mark.parametrize("command", ["check", "world list", "doctor"])
def test_a_database_without_tables_is_no_data_and_stays_so(tmp_path, command):
    """`check` told a bug in Cellule, and other commands made tables in it."""
    connection = sqlite3.connect(tmp_path / DATABASE)
    for statement in ("CREATE TABLE other (x)", "DROP TABLE other"):
        connection.execute(statement)
    connection.close()
    before = (tmp_path / DATABASE).read_bytes()
    words = [sys.executable, "-m", "cellule", "--data", str(tmp_path), "--json", *command.split()]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (tmp_path / DATABASE).read_bytes() == before
    assert "Traceback" not in ended.stderr
    assert ended.returncode != Exit.BUG
    if command != "doctor":  # it says so in its table
        assert json.loads(ended.stdout or ended.stderr)["error"]["code"] == "store.no_data"


async def test_a_block_of_old_frames_that_is_hidden_is_damage_of_its_world(made):
    """`check` refused with "there is no object", as if somebody had asked for one, and went no further."""
    folder, info, _ = made
    async with open_node(folder, TALLY.app) as node:
        world = await node.world("lost")
        await world.snapshot()
        await (await node.storage("lost")).compact(everything=True)
        begin, end = keys.segment_range(info.universe, info.id)
        [(_, row)] = (await node.node.engine.scan(begin, end, limit=2)).items
    change(folder, keys.cas(info.universe, Segment.of_row(row).block))
    assert await asyncio.to_thread(checked, folder) == (Exit.DAMAGED, ["host.segment_missing"])
    async with open_node(folder, TALLY.app) as node:
        with pytest.raises(Corrupted):
            await frames_of(node, "lost")
        other = await node.world("other")
        await other.send(TALLY.Add("a", 1))


async def test_a_snapshot_that_is_hidden_is_damage_for_whoever_measures_the_store(made):
    folder, info, rows = made
    async with open_node(folder, TALLY.app) as node:
        [row] = await node.node.engine.read([rows["baseline"]])
    change(folder, keys.cas(info.universe, baseline_of(row)[1]))
    async with open_node(folder, TALLY.app) as node:
        with pytest.raises(Corrupted) as caught:
            await node.usage()
        assert caught.value.code == "host.node_missing"
