"""PostgreSQL stopped, killed and restarted: what was acknowledged is there once, nothing is half there."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID

import asyncpg
import pytest

from cellule.errors import Conflict, Corrupted, OutcomeUnknown, Unavailable
from cellule.store import keys
from cellule.store.engine import Batch, counter_value
from cellule.store.engines.postgres import PostgresEngine
from tests.support.servers.postgres import PostgresServer

UNIVERSE = UUID(int=1)
PATIENCE_S = 60
LISTENER = "application_name = 'cellule listener'"


@pytest.fixture(scope="module")
def outage_server(postgres_server):
    """A server to be stopped and killed; requested after the shared one, which knows when to skip."""
    with PostgresServer.create() as server:
        yield server


@pytest.fixture
async def server(outage_server):
    """The running server, with an empty database."""
    connection = await asyncpg.connect(outage_server.dsn)
    await connection.execute("DROP SCHEMA IF EXISTS cellule CASCADE")
    await connection.close()
    return outage_server


@pytest.fixture
async def engine(server):
    async with await PostgresEngine.open(server.dsn, pool_max=8, look_ms=50, timeout_ms=20_000) as engine:
        yield engine


@dataclass
class World:
    """One writer that never gives up: it commits numbered frames, each exactly once, whatever happens."""

    number: int
    engine: PostgresEngine
    running: asyncio.Event
    height: int = 0
    unknown: int = 0
    acknowledged: list[bytes] = field(default_factory=list)

    @property
    def id(self):
        return UUID(int=100 + self.number)

    @property
    def head_key(self):
        return keys.world_head(UNIVERSE, self.id)

    def head(self, height):
        return b"%d-%d" % (self.number, height) if height else None

    def batch(self, height):
        token = self.head(height)
        return Batch(
            expect={self.head_key: self.head(height - 1)},
            set={
                self.head_key: token,
                keys.journal(UNIVERSE, self.id, height): token * 300,
                keys.effect_at(token.rjust(36, b".")): token,
            },
            add={keys.bell(0): 1},
            ordered=[(keys.inbox_prefix(UNIVERSE, self.id), token)],
        )

    async def write(self, stop):
        while not stop.is_set():
            await self.commit_next()

    async def commit_next(self):
        height = self.height + 1
        while True:
            try:
                await self.engine.commit(self.batch(height))
            except OutcomeUnknown:
                self.unknown += 1
                if await self.read_head() == self.head(height):
                    break
            except Unavailable:
                await self.running.wait()
            except Conflict:
                assert await self.read_head() == self.head(height), "nobody else writes this world"
                break
            else:
                self.acknowledged.append(self.head(height))
                break
        self.height = height

    async def read_head(self):
        while True:
            try:
                [head] = await self.engine.read([self.head_key])
            except Unavailable:
                await self.running.wait()
            else:
                return head

    async def check(self):
        """Exactly the frames up to the head are there, each with its effect and its inbox item."""
        assert await self.read_head() == self.head(self.height)
        tokens = [self.head(height) for height in range(1, self.height + 1)]
        frames = await everything(self.engine, *keys.journal_range(UNIVERSE, self.id))
        assert frames == [token * 300 for token in tokens]
        effects = await self.engine.read([keys.effect_at(token.rjust(36, b".")) for token in tokens])
        assert effects == tokens
        assert await everything(self.engine, *keys.inbox_range(UNIVERSE, self.id)) == tokens
        assert set(self.acknowledged) <= set(tokens)


async def everything(engine, begin, end):
    values, more = [], True
    while more:
        page = await engine.scan(begin, end, limit=1_000)
        values += [value for _, value in page.items]
        more = page.more
        begin = page.items[-1][0] + b"\0" if page.items else end
    return values


async def until(condition):
    """Ask until it is so: a server tells nobody by itself."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110 (the event is in another process)
            await asyncio.sleep(0.005)


async def progress(worlds, steps):
    """Wait until every world has gone on by some frames."""
    goals = [world.height + steps for world in worlds]

    async def reached():
        return all(world.height >= goal for world, goal in zip(worlds, goals, strict=True))

    await until(reached)


async def outage(server, running, end):
    running.clear()
    await asyncio.to_thread(end)
    await asyncio.to_thread(server.start)
    running.set()


async def test_nothing_is_lost_doubled_or_halved_when_the_server_stops_or_dies_under_load(server, engine):
    running, stop = asyncio.Event(), asyncio.Event()
    running.set()
    second = await PostgresEngine.open(server.dsn, pool_max=4)
    worlds = [World(number, (engine, second)[number % 2], running) for number in range(8)]
    async with asyncio.TaskGroup() as group:
        for world in worlds:
            group.create_task(world.write(stop))
        for end in (server.stop, server.kill, server.stop, server.kill, server.kill):
            await progress(worlds, 5)
            await outage(server, running, end)
        await progress(worlds, 5)
        stop.set()
    for world in worlds:
        await world.check()
    [bell] = await engine.read([keys.bell(0)])
    assert counter_value(bell) == sum(world.height for world in worlds)
    assert sum(len(world.acknowledged) for world in worlds) > 100
    await second.close()


async def test_calls_fail_as_unavailable_while_the_server_is_away_and_work_again_afterwards(server, engine):
    await engine.commit(Batch(set={b"k": b"1"}))
    await asyncio.to_thread(server.stop)
    for _ in range(3):
        # The first call may still find the dying connection, and then it does not know.
        with pytest.raises(Unavailable):
            await engine.commit(Batch(set={b"k": b"2"}))
        with pytest.raises(Unavailable):
            await engine.read([b"k"])
        with pytest.raises(Unavailable):
            await engine.scan(b"a", b"z", limit=1)
        with pytest.raises(Unavailable):
            await engine.watch(b"k", b"1")
    with pytest.raises(Unavailable) as caught:
        await PostgresEngine.open(server.dsn)
    assert caught.value.code == "store.unreachable"
    await asyncio.to_thread(server.start)
    assert await engine.read([b"k"]) == [b"1"]
    await engine.commit(Batch(expect={b"k": b"1"}, set={b"k": b"3"}))


async def test_watchers_survive_a_restart_and_are_woken_by_it(server, engine):
    await engine.commit(Batch(set={b"k": b"1"}))
    await engine.watch(b"k", b"1")  # returns when the engine begins to listen
    watching = [asyncio.create_task(engine.watch(b"k", b"1")) for _ in range(3)]
    await asyncio.sleep(0)
    await engine._quiet.wait()
    await asyncio.to_thread(server.kill)
    assert not any(task.done() for task in watching)
    await asyncio.to_thread(server.start)
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*watching)


async def test_a_change_made_during_the_outage_of_the_listener_is_found(server, engine):
    """The listening backend alone is ended; another process commits before it listens again."""
    await engine.commit(Batch(set={b"k": b"1"}))
    watching = asyncio.create_task(follow(engine, b"k", b"1"))
    await listening(server)
    other = await PostgresEngine.open(server.dsn)
    await terminate(server, LISTENER)
    await other.commit(Batch(set={b"k": b"2"}))
    async with asyncio.timeout(PATIENCE_S):
        assert await watching == b"2"
    await other.close()


async def test_a_commit_whose_process_died_before_its_notice_is_found_by_the_regular_look(server, engine):
    """The row is changed by bare SQL, as by a process that was killed between commit and NOTIFY."""
    await engine.commit(Batch(set={b"k": b"1", b"other": b"2"}))
    watching = asyncio.create_task(follow(engine, b"k", b"1"))
    await listening(server)
    connection = await asyncpg.connect(server.dsn)
    await connection.execute("DELETE FROM cellule.meta WHERE key = $1", b"k")
    async with asyncio.timeout(PATIENCE_S):
        assert await watching is None
    await connection.close()


async def test_a_backend_ended_in_the_middle_of_a_commit_applies_nothing(server, engine):
    await engine.commit(Batch(set={b"k": b"1"}))
    async with locked(server, b"k") as lock:
        commit = asyncio.create_task(engine.commit(Batch(expect={b"k": b"1"}, set={b"k": b"2", b"n": b"2"})))
        await blocked(lock)
        await terminate(server, "query LIKE '%commit_%' AND wait_event_type = 'Lock'")
        with pytest.raises(OutcomeUnknown):
            await commit
    assert await engine.read([b"k", b"n"]) == [b"1", None]
    await engine.commit(Batch(expect={b"k": b"1"}, set={b"k": b"3"}))


async def test_a_cancelled_statement_is_unavailable_and_applies_nothing(server, engine):
    await engine.commit(Batch(set={b"k": b"1"}))
    async with locked(server, b"k") as lock:
        commit = asyncio.create_task(engine.commit(Batch(set={b"k": b"2"})))
        await blocked(lock)
        await lock.execute(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        )
        with pytest.raises(Unavailable) as caught:
            await commit
        assert type(caught.value) is Unavailable
        assert caught.value.code == "store.timeout"
    assert await engine.read([b"k"]) == [b"1"]


async def test_a_statement_over_its_time_is_ended_by_the_server_with_a_definite_answer(server):
    async with await PostgresEngine.open(server.dsn, timeout_ms=500) as engine:
        await engine.commit(Batch(set={b"k": b"1"}))
        async with locked(server, b"k"):
            with pytest.raises(Unavailable) as caught:
                await engine.commit(Batch(set={b"k": b"2", b"n": b"2"}))
            assert type(caught.value) is Unavailable
            assert caught.value.code == "store.timeout"
        assert await engine.read([b"k", b"n"]) == [b"1", None]


async def test_an_unknown_commit_may_be_applied_later_but_only_whole(server, engine):
    """The caller is gone, the server is not: the statement goes on when its lock is free."""
    await engine.commit(Batch(set={b"k": b"1"}))
    async with locked(server, b"k") as lock:
        commit = asyncio.create_task(engine.commit(Batch(expect={b"k": b"1"}, set={b"k": b"2", b"n": b"2"})))
        await blocked(lock)
        commit.cancel()
        await asyncio.wait([commit])
        assert await engine.read([b"k", b"n"]) == [b"1", None]
    await until(lambda: commits_ended(server))
    assert await engine.read([b"k", b"n"]) in ([b"1", None], [b"2", b"2"])


async def test_an_unknown_commit_is_never_applied_once_a_key_it_expects_has_changed(server, engine):
    await engine.commit(Batch(set={b"k": b"1"}))
    async with locked(server, b"k") as lock:
        lost = asyncio.create_task(engine.commit(Batch(expect={b"k": b"1"}, set={b"n": b"lost"})))
        await blocked(lock)
        lost.cancel()
        await asyncio.wait([lost])
        # The one who holds the lock is the later commit that changes the expected key.
        await lock.execute(
            "UPDATE cellule.meta SET value = $2 WHERE key = $1", b"k", bytes.fromhex("3200000000")
        )
    await until(lambda: commits_ended(server))
    assert await engine.read([b"n"]) == [None]


async def test_a_damaged_page_is_told_as_corruption(server, engine):
    await engine.commit(Batch(set={b"k%03d" % n: b"v" * 500 for n in range(100)}))
    connection = await asyncpg.connect(server.dsn)
    path = server.data / await connection.fetchval("SELECT pg_relation_filepath('cellule.meta')")
    await connection.close()
    await asyncio.to_thread(server.stop)
    content = bytearray(path.read_bytes())
    for page in range(0, len(content), 8_192):
        content[page + 5_000] ^= 0xFF
    path.write_bytes(content)
    await asyncio.to_thread(server.start)
    with pytest.raises(Corrupted) as caught:
        await engine.read([b"k%03d" % n for n in range(100)])
    assert caught.value.code == "store.server_damaged"


async def test_a_server_without_a_free_connection_is_unavailable_until_there_is_one(server, engine):
    held = await every_free_connection(server)
    # The engine has one connection from its opening; a second call at the same time needs another.
    outcomes = await asyncio.gather(*(engine.read([b"k"]) for _ in range(4)), return_exceptions=True)
    assert {getattr(outcome, "code", "read") for outcome in outcomes} == {
        "read",
        "store.too_many_connections",
    }
    for connection in held:
        await connection.close()

    async def served():
        outcomes = await asyncio.gather(*(engine.read([b"k"]) for _ in range(4)), return_exceptions=True)
        return outcomes == [[None]] * 4

    await until(served)


async def test_a_read_only_server_takes_no_commit_until_it_is_writable_again(server, engine):
    async def outcome():
        try:
            await engine.commit(Batch(set={b"k": b"1"}))
        except Unavailable as error:
            return error.code
        return "applied"

    connection = await asyncpg.connect(server.dsn)
    for setting, expected in (("on", "store.read_only"), ("off", "applied")):
        await connection.execute("SET default_transaction_read_only = off")
        await connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {setting}")
        await connection.execute("SELECT pg_reload_conf()")

        async def is_so(expected=expected):
            return await outcome() == expected

        await until(is_so)
    await connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
    await connection.close()


async def every_free_connection(server):
    """Take connections until the server has none left."""
    held = []
    for _ in range(200):
        try:
            held.append(await asyncpg.connect(server.dsn))
        except asyncpg.TooManyConnectionsError:
            return held
    pytest.fail("the server takes more connections than it was told to")


async def follow(engine, key, seen):
    """Watch until the value is another one, and return it."""
    while True:
        await engine.watch(key, seen)
        [value] = await engine.read([key])
        if value != seen:
            return value


async def listening(server):
    """Wait until some engine listens."""
    await until(lambda: activity(server, LISTENER))


async def commits_ended(server):
    """Tell whether no commit runs on the server any more."""
    return not await activity(server, "query LIKE '%commit_%' AND state = 'active'")


async def activity(server, condition):
    """Count the other sessions of the server for which `condition` holds."""
    connection = await asyncpg.connect(server.dsn)
    try:
        return await connection.fetchval(
            f"SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND {condition}"
        )
    finally:
        await connection.close()


async def terminate(server, condition):
    await until(lambda: activity(server, condition))
    connection = await asyncpg.connect(server.dsn)
    await connection.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        f" WHERE pid <> pg_backend_pid() AND {condition}"
    )
    await connection.close()


@asynccontextmanager
async def locked(server, key):
    """Hold the lock of a row of `meta` from outside; what is done meanwhile is committed at the end."""
    connection = await asyncpg.connect(server.dsn)
    try:
        async with connection.transaction():
            await connection.execute("SELECT 1 FROM cellule.meta WHERE key = $1 FOR UPDATE", key)
            yield connection
    finally:
        await connection.close()


async def blocked(lock):
    """Wait until somebody waits for the lock that this connection holds."""

    async def waiting():
        await lock.execute("SELECT pg_stat_clear_snapshot()")
        return await lock.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
        )

    await until(waiting)
