"""The PostgreSQL engine: `Engine` over one schema of one database, shared by any number of nodes.

A commit is one statement, a call of the function in `layout.py`; a batch with `ordered` values draws its
number from a sequence one round trip earlier, because the checksum of a row covers its key and the key
contains the number. The engine owns two tasks, one that notifies and one that listens; `close` ends both.

An unknown outcome: the statement may still run on the server after its connection was lost. While it runs it
holds the locks of its expected keys, so a later commit that changes one of them waits for it; afterwards it
finds the changed value and is a conflict. (A key that returns to its old value could let it through: epochs,
heads and generations never do.)

Rejected: drawing the number inside the function. PostgreSQL computes CRC-32 only from version 18 on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Self

from cellule.errors import CelluleError, Conflict, OutcomeUnknown
from cellule.sources import Entropy, SystemEntropy
from cellule.store.engine import Batch, Page, Row, Stamp, check_batch, check_key, check_scan
from cellule.store.engines.postgres.connection import Connections, Limits, closed, ended
from cellule.store.engines.postgres.errors import DRIVER_ERRORS, mapped
from cellule.store.engines.postgres.install import check_schema_name, ensure_installed
from cellule.store.engines.postgres.layout import commit_statement
from cellule.store.engines.postgres.listen import Listener
from cellule.store.engines.postgres.notify import SENDER_CHARACTERS, Notifier, channel_of
from cellule.store.engines.postgres.reader import Reads
from cellule.store.engines.postgres.watch import Watches, written_hashes
from cellule.store.engines.postgres.writer import commit_arguments, stamps_of
from cellule.store.families import check_one_family
from cellule.store.format import check_format
from cellule.store.resource import Resource
from cellule.store.rows import open_row

LOOK_MS = 5_000
_TIME = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


class PostgresEngine(Resource):
    """One node's connection to a Cellule schema; an `Engine`. Made by `open`."""

    def __init__(self, connections: Connections, schema: str, sender: str, look_ms: int) -> None:
        self._connections = connections
        self._reads = Reads(schema)
        self._commit_statement = commit_statement(schema)
        self._draw_statement = f"SELECT nextval('{schema}.stamps')"
        self._watches = Watches()
        channel = channel_of(schema)
        self._notifier = Notifier(connections, channel, sender)
        self._listener = Listener(connections, channel, sender, self._watches, self._reads, look_ms / 1_000)
        self._notifying: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._calls = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._closed = False
        self._releasing = asyncio.Lock()

    @classmethod
    async def open(
        cls, dsn: str, *, schema: str = "cellule", pool_max: int = 16, timeout_ms: int = 15_000,
        connect_timeout_ms: int = 10_000, look_ms: int = LOOK_MS, entropy: Entropy | None = None,
        create: bool = True,
    ) -> Self:  # fmt: skip
        """Connect, make the schema if it is missing and `create` allows it, and return an open engine.

        `pool_max` connections serve calls and one more listens once somebody watches. The server ends a
        statement after `timeout_ms`. Every `look_ms` all watched keys are compared, notice or not. Raises
        `Rejected` for a dsn, role, server or schema that cannot work, `Unavailable` when the server is away.
        """
        check_schema_name(schema)
        connections = Connections(dsn, Limits(pool_max, timeout_ms, connect_timeout_ms))
        try:
            await connections.use(lambda connection: ensure_installed(connection, schema, create=create))
        except BaseException:
            await connections.close()
            raise
        sender = (entropy or SystemEntropy()).bytes(SENDER_CHARACTERS // 2).hex()
        engine = cls(connections, schema, sender, look_ms)
        try:
            await check_format(engine)
        except BaseException:
            await engine.close()
            raise
        return engine

    async def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `Engine.read`; one statement."""
        self._check_open()
        for key in keys:
            check_key(key)
        with self._call():
            return await self._connections.use(lambda connection: self._reads.read(connection, keys))

    async def scan(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Page:
        """See `Engine.scan`; one statement."""
        self._check_open()
        check_scan(begin, end, limit)
        kind = check_one_family(begin, end)
        with self._call():
            return await self._connections.use(
                lambda connection: self._reads.scan(connection, kind, begin, end, limit, reverse)
            )

    async def rows(self) -> AsyncGenerator[list[Row], None]:
        """See `Engine.rows`; one transaction on a connection of its own, as a dump of the database is."""
        self._check_open()
        with self._call():
            connection = await self._connections.connect("cellule copy")
            try:
                async with aclosing(self._reads.every_row(connection)) as pages:
                    async for page in pages:
                        yield page
            except DRIVER_ERRORS as error:
                raise mapped(error) from error
            finally:
                await ended(connection)

    async def commit(self, batch: Batch) -> list[Stamp]:
        """See `Engine.commit`. A cancelled commit may have been applied, whole."""
        self._check_open()
        check_batch(batch)
        for begin, end in batch.clear_range:
            check_one_family(begin, end)
        with self._call():
            stamps = await self._draw(len(batch.ordered))
            try:
                clash = await self._submit(commit_arguments(batch, stamps))
            except (OutcomeUnknown, asyncio.CancelledError):
                self._announce(batch, stamps)
                raise
            if clash is not None:
                raise _conflict(clash)
            self._announce(batch, stamps)
            return stamps

    async def watch(self, key: bytes, seen: bytes | None) -> None:
        """See `Engine.watch`."""
        self._check_open()
        check_key(key)
        self._listen()
        watch = self._watches.add(key, seen)
        try:
            [value] = await self.read([key])
            if value == seen:
                await watch.woken
        finally:
            self._watches.remove(watch)

    async def server_time_ns(self) -> int:
        """See `ServerClock`."""
        self._check_open()
        with self._call():
            micros: int = await self._connections.use(lambda connection: connection.fetchval(_TIME))
        return micros * 1_000

    async def close(self) -> None:
        """See `Engine.close`."""
        self._closed = True
        self._watches.fail_all(closed())
        async with self._releasing:
            await self._quiet.wait()
            self._notifier.finish()
            if self._listening is not None:
                self._listening.cancel()
            tasks = [task for task in (self._notifying, self._listening) if task is not None]
            self._notifying = self._listening = None
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            await self._connections.close()
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    async def _draw(self, count: int) -> list[Stamp]:
        """Draw the number of a batch: larger than that of any batch acknowledged before."""
        if not count:
            return []
        order = await self._connections.use(lambda connection: connection.fetchval(self._draw_statement))
        return stamps_of(order, count)

    async def _submit(self, arguments: Sequence[object]) -> tuple[bytes, bytes | None] | None:
        """Call the commit function; return the key that clashed and the row under it, or `None`."""
        return await self._connections.use(
            lambda connection: connection.fetchval(self._commit_statement, *arguments), committing=True
        )

    def _announce(self, batch: Batch, stamps: Sequence[Stamp]) -> None:
        """Wake the watches of what was written, here at once and elsewhere soon."""
        hashes = written_hashes(batch, stamps)
        if hashes is None:
            self._watches.wake_all()
        else:
            self._watches.wake(hashes)
        self._notifier.tell(hashes)
        if self._notifying is None:
            self._notifying = asyncio.create_task(self._notifier.run())

    def _listen(self) -> None:
        if self._listening is None:
            self._listening = asyncio.create_task(self._listener.run())
        elif self._listening.done():
            self._listening.result()

    def _check_open(self) -> None:
        if self._closed:
            raise closed()

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Keep `close` waiting while a call uses a connection."""
        self._calls += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._quiet.set()


def _conflict(clash: tuple[bytes, bytes | None]) -> CelluleError:
    """A conflict, unless the row differs because it is damaged."""
    key, stored = clash
    if stored is not None:
        open_row(key, stored)
    return Conflict("store.conflict", "key {key} holds another value than expected", key=key)
