"""Several processes and many tasks on one file at the same time: no batch is lost, no snapshot is torn."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from cellule.errors import Conflict
from cellule.store.engine import Batch, counter_value
from cellule.store.engines.sqlite import SqliteEngine, check, connect_sqlite3
from tests.support.durability import Ledger

pytestmark = pytest.mark.crash

CHILD = Path(__file__).with_name("sqlite_child.py")
PATIENCE_S = 120


async def start(*arguments):
    return await asyncio.create_subprocess_exec(
        sys.executable, str(CHILD), *map(str, arguments), stdout=asyncio.subprocess.PIPE
    )


async def finish(*children):
    """Wait for all children and return what they said; none outlives the test."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            outputs = [await child.communicate() for child in children]
    finally:
        for child in children:
            if child.returncode is None:
                child.kill()
                await child.wait()
    assert [child.returncode for child in children] == [0] * len(children)
    return [output.decode() for output, _ in outputs]


async def test_two_processes_write_the_same_file(tmp_path):
    path = tmp_path / "store.db"
    batches, writers = 60, 3
    children = [await start("write", path, process * writers, writers, batches) for process in range(2)]
    outputs = await finish(*children)
    assert [output.count("ack") for output in outputs] == [batches * writers] * 2
    async with await SqliteEngine.open(path) as engine:
        for number in range(2 * writers):
            assert await Ledger(number).verify(engine) == batches
    assert (await check(path)).ok


async def test_a_process_reads_whole_batches_while_another_writes(tmp_path):
    path = tmp_path / "store.db"
    ledger = Ledger()
    async with await SqliteEngine.open(path, checkpoint_bytes=100_000) as engine:
        child = await start("read", path, 0, 200)
        for _ in range(200):
            assert await ledger.write(engine)
        [output] = await finish(child)
        assert "rounds" in output
        await ledger.verify(engine)


async def test_a_watch_sees_commits_of_another_process(tmp_path):
    path = tmp_path / "store.db"
    ledger = Ledger()
    async with await SqliteEngine.open(path) as engine:
        child = await start("write", path, 0, 1, 20)
        seen, key = None, ledger.space.raw(b"head")
        async with asyncio.timeout(PATIENCE_S):
            while seen != b"20":
                await engine.watch(key, seen)
                [seen] = await engine.read([key])
        await finish(child)


async def test_two_hundred_tasks_share_one_engine(tmp_path):
    """Each task adds to a shared value by compare and set, and to a counter without comparing."""
    tasks, turns = 200, 2
    async with await SqliteEngine.open(tmp_path / "store.db") as engine:
        key, counter = Ledger().space.raw(b"sum"), Ledger().space.counter()
        await engine.commit(Batch(set={key: b"0"}))

        async def work():
            conflicts = 0
            for _ in range(turns):
                while True:
                    [before] = await engine.read([key])
                    after = b"%d" % (int(before) + 1)
                    try:
                        await engine.commit(Batch(expect={key: before}, set={key: after}, add={counter: 1}))
                        break
                    except Conflict:
                        conflicts += 1
            return conflicts

        conflicts = sum(await asyncio.gather(*(work() for _ in range(tasks))))
        total, added = await engine.read([key, counter])
        assert (int(total), counter_value(added)) == (tasks * turns, tasks * turns)
        assert conflicts > 0


async def test_an_open_snapshot_does_not_hold_up_commits(tmp_path):
    """A reader that never ends its transaction keeps its own view; commits and checkpoints go on."""
    path = tmp_path / "store.db"
    ledger = Ledger()
    async with await SqliteEngine.open(path, checkpoint_bytes=20_000) as engine:
        assert await ledger.write(engine)
        reader = connect_sqlite3(str(path))
        reader.execute("BEGIN")
        before = reader.execute("SELECT key, value FROM rows ORDER BY key").fetchall()
        for _ in range(50):
            assert await ledger.write(engine)
        assert reader.execute("SELECT key, value FROM rows ORDER BY key").fetchall() == before
        reader.close()
        await ledger.verify(engine)


async def test_scans_of_the_largest_page_see_whole_batches_between_commits(tmp_path):
    ledger = Ledger()
    async with await SqliteEngine.open(tmp_path / "store.db", checkpoint_bytes=50_000) as engine:
        rows = {ledger.space.raw(b"%04d" % n): bytes(39_000) for n in range(100)}
        await engine.commit(Batch(set=rows))
        async with asyncio.TaskGroup() as group:
            scans = [
                group.create_task(engine.scan(*ledger.space.raw_range(), limit=10_000)) for _ in range(20)
            ]
            for turn in range(20):
                group.create_task(engine.commit(Batch(set=dict.fromkeys(rows, b"%d" % turn))))
        for scan in scans:
            assert len(scan.result().items) == len(rows)
            assert len({value for _, value in scan.result().items}) == 1
