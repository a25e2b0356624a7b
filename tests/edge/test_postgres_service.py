"""The PostgreSQL engine as a guest on a shared server: roles, settings, TLS, contention, notices."""

from __future__ import annotations

import asyncio
import random
import shutil
import ssl
import subprocess
from itertools import count
from uuid import UUID

import asyncpg
import pytest

from cellule.errors import Conflict, Corrupted, Rejected, Unavailable
from cellule.store import keys
from cellule.store.engine import KEY_BYTES_MAX, Batch, counter_value
from cellule.store.engines.postgres import PostgresEngine, install_script
from cellule.store.engines.postgres.layout import LAYOUT_VERSION
from cellule.store.format import check_format
from cellule.values.cbor import encode

UNIVERSE = UUID(int=1)
PATIENCE_S = 60
NEVER_MS = 3_600_000
GRANTS = """
    GRANT USAGE ON SCHEMA {schema} TO {role};
    GRANT SELECT ON {schema}.installed TO {role};
    GRANT SELECT, INSERT, UPDATE, DELETE ON
        {schema}.meta, {schema}.journal, {schema}.queue, {schema}.cas, {schema}.counter TO {role};
    GRANT USAGE ON SEQUENCE {schema}.stamps TO {role};
"""

numbers = count()


@pytest.fixture
def schema():
    return f"guest_{next(numbers)}"


@pytest.fixture
async def admin(postgres_server):
    connection = await asyncpg.connect(postgres_server.dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def role(admin):
    """A role that may connect and nothing else."""
    name = f"role_{next(numbers)}"
    await admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'hush-hush'")
    return name


def dsn_of(server, role):
    return server.dsn.replace("postgres@", f"{role}@")


async def test_many_nodes_may_open_a_new_store_at_once(postgres_server, schema):
    engines = await asyncio.gather(
        *(PostgresEngine.open(postgres_server.dsn, schema=schema, pool_max=2) for _ in range(8))
    )
    assert await asyncio.gather(*(check_format(engine) for engine in engines)) == [0] * 8
    await asyncio.gather(*(engine.commit(Batch(add={keys.bell(0): 1})) for engine in engines))
    [bell] = await engines[0].read([keys.bell(0)])
    assert counter_value(bell) == 8
    for engine in engines:
        await engine.close()


async def test_a_role_without_the_right_to_create_uses_what_an_operator_installed(
    postgres_server, admin, role, schema
):
    await admin.execute(f"CREATE SCHEMA {schema}")
    await admin.execute(install_script(schema))
    await admin.execute(install_script(schema))
    await admin.execute(GRANTS.format(schema=schema, role=role))
    async with await PostgresEngine.open(dsn_of(postgres_server, role), schema=schema) as engine:
        [stamp] = await engine.commit(
            Batch(set={b"k": b"1"}, clear_range=[(b"x", b"y")], add={keys.bell(1): 1}, ordered=[(b"o", b"v")])
        )
        await engine.watch(b"k", None)
        assert await engine.read([b"k", b"o" + stamp]) == [b"1", b"v"]


async def test_a_role_that_may_neither_create_nor_read_is_refused(postgres_server, admin, role, schema):
    with pytest.raises(Rejected) as caught:
        await PostgresEngine.open(dsn_of(postgres_server, role), schema=schema)
    assert caught.value.code == "store.access_refused"
    async with await PostgresEngine.open(postgres_server.dsn, schema=schema):
        pass
    with pytest.raises(Rejected) as caught:
        await PostgresEngine.open(dsn_of(postgres_server, role), schema=schema)
    assert caught.value.code == "store.access_refused"


async def test_a_wrong_password_is_refused_without_repeating_it(postgres_server, admin, role):
    rules = postgres_server.data / "pg_hba.conf"
    rules.write_text(f"host all {role} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
    await admin.execute("SELECT pg_reload_conf()")
    dsn = dsn_of(postgres_server, f"{role}:not-the-word")

    async def asked_for_password():
        # Until the rules are loaded, the role comes in and only the schema is refused.
        return "password" in str(await refusal(dsn, schema="nowhere"))

    await until(asked_for_password)
    error = await refusal(dsn, schema="nowhere")
    assert error.code == "store.access_refused"
    assert "not-the-word" not in str(error)


async def refusal(dsn, **options):
    with pytest.raises(Rejected) as caught:
        await PostgresEngine.open(dsn, **options)
    return caught.value


async def test_addresses_that_cannot_work_are_refused_by_their_cause(postgres_server):
    base = postgres_server.dsn
    assert (await refusal(base.rsplit("/", 1)[0] + "/no_such_database")).code == "store.no_database"
    assert (await refusal(dsn_of(postgres_server, "no_such_role"))).code == "store.access_refused"
    assert (await refusal("mysql://localhost/x")).code == "store.postgres_dsn"
    assert (await refusal(base, schema="Not A Name")).code == "store.postgres_schema"
    assert (await refusal(base, pool_max=0)).code == "store.postgres_limit"
    assert (await refusal(base, timeout_ms=-1)).code == "store.postgres_limit"
    with pytest.raises(Unavailable) as caught:
        await PostgresEngine.open("postgresql://postgres@127.0.0.1:1/postgres")
    assert caught.value.code == "store.unreachable"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Two certificates for localhost that sign themselves."""
    if shutil.which("openssl") is None:
        pytest.skip("making a certificate needs the openssl program")
    folder = tmp_path_factory.mktemp("tls")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    for name in ("own", "foreign"):
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
        files = ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")]
        subprocess.run([*command, *files], check=True, capture_output=True)
    return folder


@pytest.fixture
async def tls_port(postgres_server, certificates):
    """PostgreSQL behind TLS: the embedded server is built without it, so a proxy answers for it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "own.pem", certificates / "own.key")

    async def pump(reader, writer):
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()
        writer.close()

    async def serve(reader, writer):
        try:
            assert await reader.readexactly(8) == bytes.fromhex("0000000804d2162f")
            writer.write(b"S")
            await writer.start_tls(context)
            upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", postgres_server.port)
            async with asyncio.TaskGroup() as group:
                group.create_task(pump(reader, upstream))
                group.create_task(pump(upstream_reader, writer))
        except (ConnectionError, ssl.SSLError):
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1") as proxy:
        yield proxy.sockets[0].getsockname()[1]


async def test_a_server_is_reached_over_tls_and_its_certificate_checked(tls_port, certificates, schema):
    dsn = f"postgresql://postgres@localhost:{tls_port}/postgres?sslmode=verify-full"
    async with await PostgresEngine.open(
        f"{dsn}&sslrootcert={certificates / 'own.pem'}", schema=schema
    ) as engine:
        await engine.commit(Batch(set={b"k": b"v"}))
        assert await engine.read([b"k"]) == [b"v"]
    foreign = f"{dsn}&sslrootcert={certificates / 'foreign.pem'}"
    assert (await refusal(foreign, schema=schema)).code == "store.certificate"


async def test_a_newer_layout_is_refused(postgres_server, admin, schema):
    async with await PostgresEngine.open(postgres_server.dsn, schema=schema):
        pass
    await admin.execute(f"INSERT INTO {schema}.installed VALUES ({LAYOUT_VERSION + 1})")
    assert (await refusal(postgres_server.dsn, schema=schema)).code == "store.postgres_newer"


async def test_a_schema_whose_function_was_dropped_is_told_as_such(postgres_server, admin, schema):
    async with await PostgresEngine.open(postgres_server.dsn, schema=schema) as engine:
        await admin.execute(f"DROP FUNCTION {schema}.commit_{LAYOUT_VERSION}")
        with pytest.raises(Rejected) as caught:
            await engine.commit(Batch(set={b"k": b"v"}))
        assert caught.value.code == "store.postgres_layout"


async def test_acknowledged_means_durable_whatever_the_role_prefers(postgres_server, admin, role, schema):
    await admin.execute(f"CREATE SCHEMA {schema}; GRANT ALL ON SCHEMA {schema} TO {role}")
    await admin.execute(f"ALTER ROLE {role} SET synchronous_commit = off")
    await admin.execute(f"ALTER ROLE {role} SET default_transaction_isolation = 'serializable'")
    assert await settings(postgres_server, role, schema) == ("on", "read committed")
    await admin.execute(f"ALTER ROLE {role} SET synchronous_commit = remote_apply")
    assert await settings(postgres_server, role, schema) == ("remote_apply", "read committed")


async def settings(server, role, schema):
    async with await PostgresEngine.open(dsn_of(server, role), schema=schema) as engine:
        row = await engine._connections.use(
            lambda connection: connection.fetchrow(
                "SELECT current_setting('synchronous_commit'), current_setting('transaction_isolation')"
            )
        )
        return tuple(row)


async def test_keys_order_as_bytes_do(postgres_server, schema):
    chance = random.Random(7)
    names = {b"k" + bytes(chance.choices(b"\0\x01a\x7f\x80\xff", k=chance.randrange(6))) for _ in range(400)}
    names |= {b"k" + chance.randbytes(chance.randrange(KEY_BYTES_MAX)) for _ in range(100)}
    async with await PostgresEngine.open(postgres_server.dsn, schema=schema) as engine:
        await engine.commit(Batch(set=dict.fromkeys(names, b"")))
        page = await engine.scan(b"k", b"l", limit=1_000)
        assert [key for key, _ in page.items] == sorted(names)
        page = await engine.scan(b"k", b"l", limit=1_000, reverse=True)
        assert [key for key, _ in page.items] == sorted(names, reverse=True)


async def test_calls_wait_when_all_connections_are_busy(postgres_server, admin, schema):
    async with await PostgresEngine.open(postgres_server.dsn, schema=schema, pool_max=1) as engine:
        commits = [engine.commit(Batch(add={keys.bell(0): 1}, ordered=[(b"o", b"v")])) for _ in range(40)]
        reads = [engine.read([b"k"]) for _ in range(40)]
        await asyncio.gather(*commits, *reads)
        assert len((await engine.scan(b"o", b"p", limit=100)).items) == 40
        assert len(engine._connections._idle) == 1


async def test_closing_leaves_no_connection_behind(postgres_server, admin, schema):
    name = "cellule%"
    before = await admin.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE $1", name
    )
    engine = await PostgresEngine.open(postgres_server.dsn, schema=schema, pool_max=5)
    await asyncio.gather(*(engine.commit(Batch(set={b"%d" % n: b"v"})) for n in range(20)))
    waiting = asyncio.create_task(engine.watch(b"absent", None))
    cancelled = [asyncio.create_task(engine.commit(Batch(set={b"k": b"v"}))) for _ in range(5)]
    await asyncio.sleep(0)
    for task in cancelled:
        task.cancel()
    await asyncio.wait(cancelled)
    await asyncio.gather(engine.close(), engine.close())
    # The watch may have been woken for nothing when the engine began to listen.
    await asyncio.wait([waiting])
    assert waiting.exception() is None or isinstance(waiting.exception(), Unavailable)

    async def all_gone():
        statement = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE $1"
        return await admin.fetchval(statement, name) == before

    await until(all_gone)


async def test_frame_commits_of_unrelated_worlds_never_abort_each_other(postgres_server, schema):
    log = len(postgres_server.log)
    engines = [await PostgresEngine.open(postgres_server.dsn, schema=schema, pool_max=8) for _ in range(2)]

    async def live(number):
        world, head = UUID(int=1_000 + number), b"0"
        epoch_key, head_key = keys.world_epoch(UNIVERSE, world), keys.world_head(UNIVERSE, world)
        engine = engines[number % 2]
        await engine.commit(
            Batch(expect={epoch_key: None, head_key: None}, set={epoch_key: b"1", head_key: head})
        )
        for height in range(1, 9):
            new = b"%d" % height
            bells = [keys.bell((number + height) % 3), keys.bell((number * 7) % 3)]
            batch = Batch(
                expect={epoch_key: b"1", head_key: head},
                set={
                    head_key: new,
                    keys.journal(UNIVERSE, world, height): new * 500,
                    keys.ready(number % 4, UNIVERSE, world): new,
                },
                clear=[keys.ready((number + 1) % 4, UNIVERSE, world)],
                add=dict.fromkeys(bells, 1),
            )
            await engine.commit(batch)
            head = new

    await asyncio.gather(*(live(number) for number in range(60)))
    for engine in engines:
        await engine.close()
    assert "deadlock" not in postgres_server.log[log:]


async def test_batches_over_the_same_keys_in_any_order_conflict_or_succeed_but_never_deadlock(
    postgres_server, schema
):
    """Rows of all families appear and vanish while others lock them: absent rows are locked in order too."""
    log = len(postgres_server.log)
    worlds = [UUID(int=n) for n in range(4)]
    names = [
        *(keys.world_head(UNIVERSE, world) for world in worlds),
        *(keys.journal(UNIVERSE, world, 1) for world in worlds),
        *(keys.ready(0, UNIVERSE, world) for world in worlds),
        *(keys.cas(UNIVERSE, bytes([n]) * 36) for n in range(4)),
    ]
    engines = [await PostgresEngine.open(postgres_server.dsn, schema=schema, pool_max=8) for _ in range(2)]
    outcomes = {"applied": 0, "conflict": 0}

    async def quarrel(seed):
        chance = random.Random(seed)
        for turn in range(15):
            touched = chance.sample(names, 6)
            expected = dict.fromkeys(touched[:1]) if chance.random() < 0.5 else {}
            batch = Batch(
                expect=expected,
                set=dict.fromkeys(touched[:4], b"%d-%d" % (seed, turn)),
                clear=touched[4:],
                add={keys.bell(chance.randrange(3)): 1, keys.bell(3 + chance.randrange(3)): 1},
            )
            try:
                await engines[seed % 2].commit(batch)
                outcomes["applied"] += 1
            except Conflict:
                outcomes["conflict"] += 1

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(quarrel(seed) for seed in range(24)))
    assert sum(outcomes.values()) == 24 * 15
    assert min(outcomes.values()) > 0
    bells = await engines[0].read([keys.bell(n) for n in range(6)])
    assert sum(counter_value(bell) for bell in bells) == 2 * outcomes["applied"]
    for engine in engines:
        await engine.close()
    assert "deadlock" not in postgres_server.log[log:]


async def test_a_damaged_row_is_told_to_its_own_watcher_only(postgres_server, admin, schema):
    async with await PostgresEngine.open(postgres_server.dsn, schema=schema, look_ms=20) as engine:
        await engine.commit(Batch(set={b"good": b"1", b"bad": b"1"}))
        tasks = [asyncio.create_task(changed(engine, key, b"1")) for key in (b"good", b"bad")]
        await admin.execute(f"UPDATE {schema}.meta SET value = '\\x00' WHERE key = $1", b"bad")
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(Corrupted):
                await tasks[1]
            await engine.commit(Batch(set={b"good": b"2"}))
            assert await tasks[0] == b"2"


@pytest.mark.parametrize(
    "batch",
    [
        Batch(set={b"k": b"2"}),
        Batch(set={b"k": b"2", **{b"%d" % n: b"" for n in range(3_000)}}),
        Batch(clear_range=[(b"a", b"z")]),
        Batch(expect={b"k": b"1"}, clear=[b"k"]),
    ],
    ids=["one key", "more keys than a notice holds", "a range", "a cleared key"],
)
async def test_another_process_hears_of_a_commit_by_its_notice_alone(postgres_server, schema, batch):
    watcher, writer = [
        await PostgresEngine.open(postgres_server.dsn, schema=schema, look_ms=NEVER_MS) for _ in range(2)
    ]
    await writer.commit(Batch(set={b"k": b"1"}))
    async with asyncio.timeout(PATIENCE_S):
        await watcher.watch(b"k", b"1")  # returns when the engine begins to listen
        watching = asyncio.create_task(changed(watcher, b"k", b"1"))
        await asyncio.sleep(0)
        await watcher._quiet.wait()
        await writer.commit(batch)
        assert await watching in (None, b"2")
    await watcher.close()
    await writer.close()


async def until(condition):
    """Ask until it is so: a server tells nobody by itself."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110 (the event is in another process)
            await asyncio.sleep(0.005)


async def changed(engine, key, seen):
    while True:
        await engine.watch(key, seen)
        [value] = await engine.read([key])
        if value != seen:
            return value


async def test_a_store_of_a_newer_format_is_refused_with_both_versions(postgres_server, schema):
    async with await PostgresEngine.open(postgres_server.dsn, schema=schema) as engine:
        await engine.commit(Batch(set={keys.format_version(): encode({"version": 7})}))
    with pytest.raises(Rejected) as caught:
        await PostgresEngine.open(postgres_server.dsn, schema=schema)
    assert caught.value.code == "store.format_newer"
    assert "format 7" in str(caught.value)


async def test_batches_that_expect_the_same_row_do_not_wait_for_each_other(postgres_server):
    """One holds its locks in an open transaction; another with the same witness is done meanwhile."""
    engine = await PostgresEngine.open(postgres_server.dsn, schema="witnesses")
    connection = await asyncpg.connect(postgres_server.dsn)
    ready, other = keys.ready(0, UNIVERSE, UNIVERSE), keys.ready(1, UNIVERSE, UNIVERSE)
    try:
        await engine.commit(Batch(set={ready: b"here", other: b"old"}))
        async with connection.transaction():
            await connection.execute("SELECT 1 FROM witnesses.queue WHERE key = $1 FOR SHARE", ready)
            await engine.commit(Batch(expect={ready: b"here"}, set={other: b"new"}))
        for expected in (b"gone", b""):
            with pytest.raises(Conflict):
                await engine.commit(Batch(expect={ready: expected}, set={other: b"never"}))
        await engine.commit(Batch(clear=[ready]))
        with pytest.raises(Conflict):
            await engine.commit(Batch(expect={ready: b"here"}, set={other: b"never"}))
        assert await engine.read([other]) == [b"new"]
    finally:
        await connection.close()
        await engine.close()
