"""A real folder: who owns it, restarts, other processes, what cannot be opened, full disks, changed apps."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from cellule.assembly import Options
from cellule.assembly import open as open_node
from cellule.errors import OutcomeUnknown, Rejected, Unavailable
from cellule.host.own import folder as folder_module
from cellule.host.own.folder import FolderLock
from cellule.modules.python import PythonPrograms
from cellule.store import keys
from cellule.store.engine import Batch
from cellule.store.engines.sqlite import SqliteEngine, connect_sqlite3
from cellule.store.store import DATABASE, StoreOptions
from cellule.values.cbor import encode
from tests.support.changed_apps import FIRST
from tests.support.nodes import check_store, events_of, load_app

HERE = Path(__file__).parent
TALLY = load_app(HERE.parent / "node_apps" / "tally.py")
CLIENT = HERE / "node_client.py"


@pytest.fixture
async def folder(tmp_path):
    """A data folder that is proven when the test ends."""
    path = tmp_path / "data"
    yield path
    if (path / DATABASE).exists():
        programs = PythonPrograms()
        try:
            async with await SqliteEngine.open(path / DATABASE) as engine:
                report = await engine.check()
                assert report.ok, report.problems
                await check_store(engine, programs)
        finally:
            programs.close()


@pytest.mark.parametrize("own", [True, False])
async def test_a_handle_that_outlives_its_node_is_told_that_the_node_is_closed(folder, own):
    """It was told that the folder's log was removed under the node, and to look after the folder."""
    async with open_node(folder, TALLY.app) as node:
        await (await node.world("w")).send(TALLY.Add("a", 1))
    async with open_node(folder, TALLY.app, options=Options(own=own)) as node:
        world = await node.world("w")
    cell = world.cell(TALLY.account, "a")
    for call in (lambda: world.send(TALLY.Add("a", 1)), cell.state, lambda: world.cells(TALLY.account)):
        with pytest.raises(Unavailable) as closed:
            await call()
        assert closed.value.code in ("host.node_closed", "store.closed")


def client(folder, *words):
    return subprocess.Popen(
        [sys.executable, str(CLIENT), str(folder), *words], stdout=subprocess.PIPE, text=True
    )


async def answer(process):
    """What a client printed, once it ended well."""
    text = await asyncio.to_thread(process.communicate)
    assert process.returncode == 0
    return text[0].split()


async def test_a_second_process_reads_and_enqueues_while_the_owner_works(folder):
    async with open_node(folder, TALLY.app) as node:
        world = await node.world("w")
        processes = [client(folder, "send", f"p{number}", "40") for number in range(2)]
        tails = client(folder, "tail", "w", "40")
        await asyncio.gather(*(world.send(TALLY.Add("a", 1), id=f"own{number}") for number in range(50)))
        for process in processes:
            assert await answer(process) == ["applied", "40"]
        assert (await answer(tails))[0] == "contiguous"
        assert (await world.cell(TALLY.account, "a").state()).count == 130
        assert len(await events_of(node.node.engine, world.info)) == 131


async def test_a_second_writer_gets_a_clear_error(folder):
    async with open_node(folder, TALLY.app) as node:
        await node.world("w")
        async with open_node(folder, TALLY.app) as second:
            assert not second.is_owner
            far = await second.world("w")
            with pytest.raises(Unavailable) as caught:
                await far.send_nowait(TALLY.Add("a", 1))
            assert caught.value.code == "host.not_owner"
            assert str(os.getpid()) in str(caught.value)
            with pytest.raises(Rejected):
                await second.world("not there")
    async with open_node(folder, TALLY.app) as node:
        assert node.is_owner


async def test_a_killed_owner_leaves_the_folder_free_at_once(folder):
    owner = client(folder, "own")
    try:
        assert await asyncio.to_thread(owner.stdout.readline) == "owner\n"
        async with open_node(folder, TALLY.app) as node:
            assert not node.is_owner
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()
    async with open_node(folder, TALLY.app) as node:
        assert node.is_owner
        await (await node.world("w")).send(TALLY.Add("a", 1))


async def test_a_guest_takes_over_from_a_killed_owner_and_its_handles_go_on(folder):
    """A process beside an owner that died waited for ever, and never became owner."""
    owner = client(folder, "own")
    try:
        assert await asyncio.to_thread(owner.stdout.readline) == "owner\n"
        async with open_node(folder, TALLY.app) as node:
            world = await node.world("w")
            await world.send(TALLY.Add("a", 1), id="through the owner")
            [session] = await node.sessions()
            assert (session.pid, session.owns, node.is_owner) == (owner.pid, True, False)
            owner.send_signal(signal.SIGSTOP)  # it holds the lock, and does nothing
            waiting = asyncio.create_task(world.send(TALLY.Add("a", 1), id="waits"))
            await world.send(TALLY.Add("a", 1), id="kept", wait="durable")
            assert not waiting.done()
            owner.kill()
            assert len((await waiting).steps) == 1
            await node.wait_owner()
            assert (await world.send(TALLY.Add("a", 1), id="kept")).duplicate
            await (await world.send_nowait(TALLY.Add("a", 1))).wait()
            assert (await world.cell(TALLY.account, "a").state()).count == 4
            assert [each.pid for each in await node.sessions()] == [os.getpid()]
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()


async def test_a_guest_takes_over_when_the_owner_closes(folder):
    async with open_node(folder, TALLY.app) as first, open_node(folder, TALLY.app) as second:
        await first.world("w")
        world = await second.world("w")
        async with open_node(folder, TALLY.app) as third:
            assert not third.is_owner
        assert not second.is_owner
        del first
        await world.send(TALLY.Add("a", 1))
    async with open_node(folder, TALLY.app) as node:
        assert node.is_owner


async def test_a_new_app_is_deployed_by_the_guest_that_takes_over(folder, versions):
    first = versions("first", FIRST)
    second = versions("second", FIRST.replace("+ event.weight", "+ 10 * event.weight"))
    async with AsyncExitStack() as owning:
        owner = await owning.enter_async_context(open_node(folder, first.app))
        await (await owner.world("w")).send(first.Ping("a"))
        async with open_node(folder, second.app) as node:
            world = await node.world("w")
            await owning.aclose()
            await node.wait_owner()
            await world.send(second.Ping("a"))
            async for _ in world.tail(0):
                if len((await node.node.hosted(world.info)).world.ledger.eras) == 2:
                    break
            await world.send(second.Ping("a"))
            assert (await world.cell(second.count, "a").state()).total in (12, 21)


async def test_an_owner_whose_lock_was_removed_is_a_guest_of_the_next_one(folder, monkeypatch):
    """Two processes owned the folder, and the older one served what it remembered."""
    monkeypatch.setattr(folder_module, "FOLDER_LOOK_S", 3_600)  # else the old one may own it again first
    async with open_node(folder, TALLY.app) as old:
        world = await old.world("w")
        await world.send(TALLY.Add("a", 1))
        (folder / "lock").unlink()
        async with open_node(folder, TALLY.app) as new:
            assert new.is_owner
            monkeypatch.undo()
            await (await new.world("w")).send(TALLY.Add("a", 1))
            assert (await world.cell(TALLY.account, "a").state()).count == 2
            await old.wait_guest()
            await world.send(TALLY.Add("a", 1))
            assert (await world.cell(TALLY.account, "a").state()).count == 3
        await old.wait_owner()


def removed(folder, *names):
    for name in names:
        (folder / name).unlink()


def emptied(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def replaced(folder):
    shutil.copy(folder / DATABASE, folder / "copy")
    (folder / "copy").rename(folder / DATABASE)


WAYS = {
    "the database removed": lambda folder: removed(folder, DATABASE),
    "the log removed": lambda folder: removed(folder, f"{DATABASE}-wal"),
    "the log's index removed": lambda folder: removed(folder, f"{DATABASE}-shm"),
    "the database replaced": replaced,
    "the folder moved": lambda folder: folder.rename(folder.parent / "moved"),
    "the folder removed": shutil.rmtree,
    "another folder": emptied,
}


@pytest.mark.parametrize("role", ["owner", "guest"])
@pytest.mark.parametrize("damage", WAYS.values(), ids=WAYS)
async def test_nothing_is_acknowledged_or_read_once_the_files_are_not_those_of_the_path(
    tmp_path, damage, role
):
    """A node went on acknowledging hundreds of events, and all were lost at its end."""
    folder = tmp_path / "data"
    async with AsyncExitStack() as stack:
        if role == "guest":
            node = await stack.enter_async_context(open_node(folder, TALLY.app))
            await (await node.world("w")).send(TALLY.Add("a", 1))
        process = client(folder, "sender", role)
        stack.callback(process.stdout.close)
        stack.callback(process.wait)
        stack.callback(process.kill)
        acknowledged = [(await line_of(process)).split() for _ in range(20)]
        damage(folder)
        damaged_ns = time.monotonic_ns()
        while (line := await line_of(process)).startswith("acknowledged"):
            acknowledged.append(line.split())
        assert max(int(begun_ns) for _, begun_ns in acknowledged) <= damaged_ns
        assert [line, *[await line_of(process) for _ in range(3)]] == ["refused host.folder_replaced"] * 4


async def line_of(process):
    return (await asyncio.to_thread(process.stdout.readline)).strip()


async def test_an_owner_whose_database_was_replaced_is_told_so(tmp_path, caplog):
    async with open_node(tmp_path / "data", TALLY.app) as node:
        world = await node.world("w")
        (tmp_path / "data" / DATABASE).rename(tmp_path / "moved.db")
        await node.wait_guest()
        with pytest.raises(Unavailable) as caught:
            await world.send(TALLY.Add("a", 1), wait="durable")
        assert caught.value.code == "host.folder_replaced"
        with pytest.raises(Unavailable) as caught:
            await node.create_world("another")
        assert caught.value.code == "host.folder_replaced"
    assert f"{DATABASE} was removed or replaced: this node stops working on it" in caplog.text


async def test_a_forked_child_does_not_keep_the_lock(folder):
    owner = client(folder, "fork")
    child = int(await asyncio.to_thread(owner.stdout.readline))
    try:
        owner.kill()
        owner.wait()
        async with open_node(folder, TALLY.app) as node:
            assert node.is_owner
    finally:
        os.kill(child, signal.SIGKILL)
        owner.stdout.close()


async def test_the_last_node_of_a_process_puts_back_what_the_first_one_tuned(tmp_path):
    """Two nodes that overlapped left the process tuned for ever."""
    before = (sys.getswitchinterval(), gc.get_threshold())
    first, second = (open_node(tmp_path / name, TALLY.app) for name in ("first", "second"))
    await first.__aenter__()
    tuned = (sys.getswitchinterval(), gc.get_threshold())
    await second.__aenter__()
    await first.__aexit__(None, None, None)
    assert (sys.getswitchinterval(), gc.get_threshold()) == tuned != before
    await second.__aexit__(None, None, None)
    assert (sys.getswitchinterval(), gc.get_threshold()) == before


@pytest.mark.parametrize("own", [False, True])
async def test_what_a_process_keeps_out_of_collections_stays_out(tmp_path, own):
    gc.unfreeze()
    if own:
        gc.freeze()
    async with open_node(tmp_path, TALLY.app):
        assert gc.get_freeze_count() > 0
    assert (gc.get_freeze_count() > 0) == own


# What cannot be opened


async def test_a_folder_that_cannot_be_used_is_refused(tmp_path):
    (tmp_path / "file").write_text("no folder")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Rejected) as caught:
            async with open_node(path, TALLY.app):
                pass
        assert caught.value.code == "host.folder"
        assert str(path) in str(caught.value)


async def test_a_folder_without_permission_is_refused(tmp_path):
    """As somebody else, because root may write everywhere."""
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
    process = client(tmp_path / "data", "nobody")
    assert (await answer(process))[0] == "host.folder"
    tmp_path.chmod(0o700)


async def test_a_store_of_a_newer_format_is_refused_and_the_folder_left_free(tmp_path):
    async with open_node(tmp_path, TALLY.app) as node:
        await node.world("w")
    async with await SqliteEngine.open(tmp_path / DATABASE) as engine:
        await engine.commit(Batch(set={keys.format_version(): encode({"version": 99})}))
    for _ in range(2):
        with pytest.raises(Rejected) as caught:
            async with open_node(tmp_path, TALLY.app):
                pass
        assert caught.value.code == "store.format_newer"
    with FolderLock(tmp_path) as lock:
        assert lock.acquire()


async def test_a_full_disk_is_told_and_forgotten_when_there_is_room_again(folder):
    connections = []
    limit = [1_000_000]

    def connect(path):
        connection = connect_sqlite3(path)
        connection.execute(f"PRAGMA max_page_count = {limit[0]}").fetchall()
        connections.append(connection)
        return connection

    def room(pages):
        limit[0] = pages
        for connection in connections:
            connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()

    async with open_node(
        folder, TALLY.app, options=Options(store=StoreOptions(connect=connect), stall_s=0.1)
    ) as node:
        world = await node.world("w")
        await world.send(TALLY.Add("a", 1), id="before")
        room(1)
        outcomes = await asyncio.gather(
            *(world.send(TALLY.Keep(f"k{n}", "x" * 50_000), id=f"big{n}") for n in range(20)),
            return_exceptions=True,
        )
        assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
        assert any(isinstance(outcome, OutcomeUnknown) for outcome in outcomes)
        assert all("is full" in str(outcome) for outcome in outcomes)
        with pytest.raises(Unavailable):
            await world.send(TALLY.Add("a", 1), id="during")
        for read in (world.cell(TALLY.account, "a").state, world.wait_idle):
            with pytest.raises(Unavailable) as refused:
                await read()
            assert refused.value.code == "store.disk_full"
            assert not isinstance(refused.value, OutcomeUnknown), "a read changed nothing"
        room(1_000_000)
        for n in range(20):
            await again(world, TALLY.Keep(f"k{n}", "x" * 50_000), f"big{n}")
        await again(world, TALLY.Add("a", 1), "during")
        assert await world.cell(TALLY.account, "a").state() == TALLY.Account(2, 2)


async def test_a_handle_on_another_event_loop_is_refused(folder):
    """It was taken by chance, and could be lost or never answered."""
    async with open_node(folder, TALLY.app) as node:
        world = await node.world("w")
        await world.send(TALLY.Add("a", 1))
        calls = (
            lambda: world.send(TALLY.Add("a", 1)),
            lambda: world.send_nowait(TALLY.Add("a", 1)),
            lambda: world.send_many([TALLY.Add("a", 1)]),
            lambda: world.control("pause", who="ada", why="a test"),
            lambda: world.cell(TALLY.account, "a").state(),
            lambda: node.world("w"),
        )
        for call in calls:
            with pytest.raises(Rejected) as refused:
                await asyncio.to_thread(lambda call=call: asyncio.run(call()))
            assert refused.value.code == "host.other_loop"
        assert await world.cell(TALLY.account, "a").state() == TALLY.Account(1, 1)
        async with open_node(folder, TALLY.app) as guest:
            elsewhere = await guest.world("w")
            for call in (lambda: elsewhere.send(TALLY.Add("a", 1)), elsewhere.cell(TALLY.account, "a").state):
                with pytest.raises(Rejected) as refused:
                    await asyncio.to_thread(lambda call=call: asyncio.run(call()))
                assert refused.value.code == "host.other_loop"


async def again(world, event, given):
    """Send with the same id until it is there, as a client does."""
    while True:
        try:
            return await world.send(event, id=given)
        except Unavailable:
            await asyncio.sleep(0)


async def test_a_script_that_opens_a_node_at_its_top_level_is_refused_with_a_hint(tmp_path):
    script = tmp_path / "script.py"
    text = textwrap.dedent(FIRST) + textwrap.dedent(
        """
        import asyncio
        from cellule.assembly import open as open_node

        async def main():
            async with open_node("data", app) as node:
                await (await node.world()).send(Ping("a"))

        asyncio.run(main())
        """
    )
    script.write_text(text)
    refused = await asyncio.to_thread(
        subprocess.run, [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True
    )
    assert refused.returncode == 1
    assert 'if __name__ == "__main__":' in refused.stderr
    assert not (tmp_path / "data").exists()
    script.write_text(
        text.replace("asyncio.run(main())", 'if __name__ == "__main__":\n    asyncio.run(main())')
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
