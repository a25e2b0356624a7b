"""What the SQLite engine does beyond the contract: groups, threads, limits, locks of others, its log."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from cellule.errors import Conflict, InvariantBroken, Unavailable
from cellule.store.engine import Batch
from cellule.store.engines.sqlite import SqliteEngine, connect_sqlite3
from cellule.store.engines.sqlite import engine as engine_module

PATIENCE_S = 60


class Spy:
    """Connections that note every statement, and wait before a COMMIT while `gate` is closed."""

    def __init__(self):
        self.statements = []
        self.gate = threading.Event()
        self.gate.set()
        self.at_gate = threading.Event()
        self.failure = {}

    def connect(self, path):
        return SpyConnection(self, connect_sqlite3(path))

    def count(self, text):
        return sum(text in sql for sql in self.statements)


class SpyConnection:
    def __init__(self, spy, connection):
        self._spy = spy
        self._connection = connection
        self.close = connection.close

    def execute(self, sql, *parameters):
        self._spy.statements.append(sql)
        if sql == "COMMIT" and not self._spy.gate.is_set():
            self._spy.at_gate.set()
            assert self._spy.gate.wait(PATIENCE_S)
        if sql in self._spy.failure:
            raise self._spy.failure[sql]
        return self._connection.execute(sql, *parameters)


@pytest.fixture
def spy():
    return Spy()


@pytest.fixture
async def engine(tmp_path, spy):
    async with await SqliteEngine.open(tmp_path / "store.db", connect=spy.connect) as engine:
        yield engine
        spy.gate.set()


async def at_gate(spy):
    """Wait until the writer thread stands before its COMMIT."""
    assert await asyncio.to_thread(spy.at_gate.wait, PATIENCE_S)


def raw(number):
    return b"\x02x%04d" % number


async def test_batches_that_wait_together_are_committed_together(engine, spy):
    """While one batch commits, 99 others wait; they cost one commit, a few statements and one wake-up."""
    spy.gate.clear()
    first = asyncio.create_task(engine.commit(Batch(set={raw(0): b"1"})))
    await at_gate(spy)
    others = [
        asyncio.create_task(engine.commit(Batch(expect={raw(n): None}, set={raw(n): b"1"})))
        for n in range(1, 100)
    ]
    await asyncio.sleep(0)
    wakeups = []
    loop = asyncio.get_running_loop()
    original = loop.call_soon_threadsafe
    spy.statements.clear()
    loop.call_soon_threadsafe = lambda *arguments: (wakeups.append(arguments), original(*arguments))[1]
    spy.gate.set()
    await asyncio.gather(first, *others)
    del loop.call_soon_threadsafe
    assert spy.count("BEGIN IMMEDIATE") == spy.count("COMMIT") == 1
    assert len(spy.statements) < 20
    assert len(wakeups) == 2


async def test_a_batch_that_comes_after_the_other_is_not_kept_for_company(engine, monkeypatch):
    handed = []
    submit = engine._writer.submit
    monkeypatch.setattr(engine._writer, "submit", lambda group: (handed.append(len(group)), submit(group)))

    async def together(count):
        handed.clear()
        waiting = [asyncio.create_task(engine.commit(Batch(set={raw(n): b"1"}))) for n in range(count)]
        await asyncio.sleep(0)
        at_once = list(handed)
        await asyncio.gather(*waiting)
        return at_once, list(handed)

    await together(2)
    for _ in range(engine_module.SINGLE_GROUPS):
        assert await together(1) == ([], [1])
    assert await together(1) == ([1], [1])
    assert await together(9) == ([1], [1, 8])
    assert await together(9) == ([], [9])


async def test_a_plain_batch_is_checked_written_and_committed_by_one_statement(engine, spy):
    await engine.commit(Batch(set={raw(0): b"0"}))
    spy.statements.clear()
    await engine.commit(Batch(expect={raw(0): b"0", raw(1): None}, set={raw(0): b"1", raw(1): b"1"}))
    assert [sql.split()[0] for sql in spy.statements] == ["INSERT"]
    assert await engine.read([raw(0), raw(1)]) == [b"1", b"1"]


@pytest.mark.parametrize("expect", [{raw(0): b"?"}, {raw(0): None}, {raw(0): b"0", raw(9): b"?"}])
async def test_a_plain_batch_that_expects_another_value_conflicts_and_writes_nothing(engine, expect):
    await engine.commit(Batch(set={raw(0): b"0"}))
    with pytest.raises(Conflict):
        await engine.commit(Batch(expect=expect, set={raw(0): b"1", raw(1): b"1"}))
    assert await engine.read([raw(0), raw(1)]) == [b"0", None]


async def test_a_conflict_in_a_group_fails_alone(engine, spy):
    await engine.commit(Batch(set={raw(0): b"0"}))
    spy.gate.clear()
    first = asyncio.create_task(engine.commit(Batch(set={raw(1): b"1"})))
    await at_gate(spy)
    racing = [
        asyncio.create_task(engine.commit(Batch(expect={raw(0): b"0"}, set={raw(0): b"%d" % n})))
        for n in range(1, 9)
    ]
    await asyncio.sleep(0)
    spy.gate.set()
    outcomes = await asyncio.gather(first, *racing, return_exceptions=True)
    assert outcomes[:2] == [[], []]
    assert {type(outcome) for outcome in outcomes[2:]} == {Conflict}
    assert await engine.read([raw(0)]) == [b"1"]


async def test_reads_and_scans_go_on_while_a_commit_waits_for_the_disk(engine, spy):
    await engine.commit(Batch(set={raw(0): b"0"}))
    spy.gate.clear()
    commit = asyncio.create_task(engine.commit(Batch(set={raw(0): b"1"})))
    await at_gate(spy)
    assert await engine.read([raw(0)]) == [b"0"]
    assert (await engine.scan(raw(0), raw(9), limit=9)).items == [(raw(0), b"0")]
    assert not commit.done()
    spy.gate.set()
    await commit
    assert await engine.read([raw(0)]) == [b"1"]


async def test_reads_that_wait_together_share_one_statement(engine, spy):
    await engine.commit(Batch(set={raw(n): b"%d" % n for n in range(64)}))
    spy.statements.clear()
    with engine._reads.pause:
        reads = [asyncio.create_task(engine.read([raw(n)])) for n in range(64)]
        await asyncio.sleep(0)
    assert await asyncio.gather(*reads) == [[b"%d" % n] for n in range(64)]
    # The lane may have taken the first before the others came; a pass of n keys is log2(n) statements.
    assert spy.count("SELECT key, value") <= 1 + 6


async def test_a_commit_that_nobody_waits_for_any_more_is_still_applied(engine, spy):
    spy.gate.clear()
    commit = asyncio.create_task(engine.commit(Batch(set={raw(0): b"1"})))
    await at_gate(spy)
    commit.cancel()
    with pytest.raises(asyncio.CancelledError):
        await commit
    spy.gate.set()
    await engine.commit(Batch(set={raw(1): b"1"}))
    assert await engine.read([raw(0)]) == [b"1"]


async def test_cancelled_calls_leave_nothing_behind(engine):
    """Reads, scans, watches and failing commits are cancelled at every point they can be."""
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    await engine.commit(Batch(set={raw(0): b"0"}))
    for turns in range(30):
        tasks = [
            asyncio.create_task(call)
            for call in (
                engine.read([raw(0)]),
                engine.scan(raw(0), raw(9), limit=9),
                engine.watch(raw(0), b"0"),
                engine.commit(Batch(expect={raw(0): b"wrong"}, set={raw(1): b"1"})),
            )
        ]
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await engine.read([raw(0)])
    await engine.commit(Batch())
    assert engine._waiting_bytes == 0
    assert not engine._watchers._waiters
    assert complaints == []


async def test_more_waiting_bytes_than_the_limit_are_refused(engine, spy, monkeypatch):
    monkeypatch.setattr(engine_module, "WAITING_BYTES_MAX", 100_000)
    spy.gate.clear()
    waiting = [asyncio.create_task(engine.commit(Batch(set={raw(n): bytes(60_000)}))) for n in range(2)]
    await at_gate(spy)
    with pytest.raises(Unavailable) as caught:
        await engine.commit(Batch(set={raw(9): b"1"}))
    assert caught.value.code == "store.overloaded"
    spy.gate.set()
    await asyncio.gather(*waiting)
    await engine.commit(Batch(set={raw(9): b"1"}))


async def test_a_lock_held_by_another_program_is_unavailable_after_a_while(tmp_path):
    path = tmp_path / "store.db"
    async with await SqliteEngine.open(path, busy_ms=60) as engine:
        other = connect_sqlite3(str(path))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable) as caught:
            await engine.commit(Batch(set={raw(0): b"1"}))
        assert caught.value.code == "store.busy"
        assert await engine.read([raw(0)]) == [None]
        other.execute("ROLLBACK")
        await engine.commit(Batch(set={raw(0): b"1"}))
        other.close()


async def test_a_lock_that_is_released_in_time_is_waited_for(tmp_path):
    path = tmp_path / "store.db"
    async with await SqliteEngine.open(path, busy_ms=60_000) as engine:
        other = connect_sqlite3(str(path))
        other.execute("BEGIN IMMEDIATE")
        commit = asyncio.create_task(engine.commit(Batch(set={raw(0): b"1"})))
        await engine.read([raw(0)])
        other.execute("COMMIT")
        await commit
        other.close()


async def test_an_unforeseen_failure_reaches_its_callers_and_the_engine_goes_on(engine, spy):
    spy.failure["BEGIN IMMEDIATE"] = RuntimeError("unforeseen")
    with pytest.raises(InvariantBroken) as caught:
        await engine.commit(Batch(set={raw(0): b"1"}))
    assert caught.value.code == "store.thread"
    spy.failure.clear()
    spy.failure["BEGIN"] = RuntimeError("unforeseen")
    with pytest.raises(InvariantBroken):
        await engine.read([raw(0), raw(1)])
    spy.failure.clear()
    await engine.commit(Batch(set={raw(0): b"1"}))
    assert await engine.read([raw(0), raw(1)]) == [b"1", None]


async def test_the_file_is_polled_only_while_someone_watches(engine, spy):
    spy.statements.clear()
    for n in range(20):
        await engine.commit(Batch(set={raw(n): b"1"}))
    assert spy.count("data_version") == 0
    watch = asyncio.create_task(engine.watch(raw(0), b"1"))
    async with asyncio.timeout(PATIENCE_S):
        while spy.count("data_version") < 3:
            await engine.read([raw(0)])
    watch.cancel()
    with suppress(asyncio.CancelledError):
        await watch
    await engine.commit(Batch(set={raw(0): b"2"}))
    spy.statements.clear()
    await engine.commit(Batch(set={raw(0): b"3"}))
    assert spy.count("data_version") == 0


async def test_the_log_stays_small_however_much_is_written(tmp_path):
    path, log = tmp_path / "store.db", tmp_path / "store.db-wal"
    async with await SqliteEngine.open(path, checkpoint_bytes=100_000) as engine:
        sizes = []
        for n in range(100):
            await engine.commit(Batch(set={raw(n % 7): bytes(50_000)}))
            await engine.scan(raw(0), raw(9), limit=10)
            sizes.append(log.stat().st_size)
    assert max(sizes) < 1_000_000


async def test_the_log_starts_over_under_constant_scans(tmp_path):
    """Readers that never pause cannot keep the log growing: past a bound the writer waits for its own."""
    path, log = tmp_path / "store.db", tmp_path / "store.db-wal"
    async with await SqliteEngine.open(path, checkpoint_bytes=100_000) as engine:
        writing = True

        async def scan():
            while writing:
                await engine.scan(raw(0), raw(9), limit=10)

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(scan())
            sizes = []
            for n in range(200):
                await engine.commit(Batch(set={raw(n % 7): bytes(50_000)}))
                sizes.append(log.stat().st_size)
            writing = False
    assert max(sizes) < 2_000_000


async def test_stamps_go_on_after_reopening(tmp_path):
    stamps = []
    for _ in range(3):
        async with await SqliteEngine.open(tmp_path / "store.db") as engine:
            for _ in range(2):
                stamps += await engine.commit(Batch(ordered=[(b"\x02xq", b"1"), (b"\x02xq", b"2")]))
    assert stamps == sorted(set(stamps))
    assert len(stamps) == 12


async def test_a_loop_that_ended_without_closing_the_engine_harms_no_one(tmp_path):
    def forgetful():
        async def main():
            engine = await SqliteEngine.open(tmp_path / "store.db")
            commit = asyncio.create_task(engine.commit(Batch(set={raw(0): b"1"})))
            await asyncio.sleep(0)
            commit.cancel()
            return engine

        return asyncio.run(main())

    forgotten = await asyncio.to_thread(forgetful)
    async with await SqliteEngine.open(tmp_path / "store.db") as engine:
        async with asyncio.timeout(PATIENCE_S):
            while await engine.read([raw(0)]) == [None]:
                await engine.watch(raw(0), None)
        await engine.commit(Batch(expect={raw(0): b"1"}, set={raw(1): b"1"}))
    forgotten._writer.stop()
