"""The connections of one engine: at most `pool_max`, made when needed, each used by one call at a time.

A call waits when all are busy. A connection that failed, or whose call was cancelled, is dropped, and the
next call makes a new one: that is the whole of reconnecting. Nothing is ever sent twice.

Rejected: asyncpg's own pool. It makes a task and a round trip to reset the connection for every call, and
hides whether an error came before or after the statement was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import asyncpg

from cellule.errors import Rejected, Unavailable
from cellule.store.engines.postgres.errors import DRIVER_ERRORS, is_usable_after, mapped, mapped_connect

# The server ends a slow statement itself and then says so; our own clock is only for a server that is gone.
GRACE_SECONDS = 5.0
CLOSE_SECONDS = 5.0
LIMIT_MAX = 2_000_000_000

# Acknowledged must mean durable, whatever the role's defaults are; a stronger setting is kept. All statements
# are a handful of index lookups: a plan made while a table was empty would read it whole, and would be kept.
SETTLE = """
    SELECT set_config('default_transaction_isolation', 'read committed', false),
        set_config('synchronous_commit',
            CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
            ELSE current_setting('synchronous_commit') END, false),
        set_config('application_name', $1, false),
        set_config('statement_timeout', $2, false),
        set_config('plan_cache_mode', 'force_generic_plan', false),
        set_config('enable_seqscan', 'off', false),
        set_config('enable_bitmapscan', 'off', false),
        set_config('enable_hashjoin', 'off', false),
        set_config('enable_mergejoin', 'off', false),
        set_config('jit', 'off', false)
"""

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Limits:
    """How many connections, and how long calls may take."""

    pool_max: int
    timeout_ms: int
    connect_timeout_ms: int

    def __post_init__(self) -> None:
        for name in self.__slots__:
            number = getattr(self, name)
            if not 1 <= number <= LIMIT_MAX:
                raise Rejected(
                    "store.postgres_limit", "{name} is {number}; it must be 1 to {most}",
                    name=name, number=number, most=LIMIT_MAX, hint="Correct the option.",
                )  # fmt: skip

    @property
    def patience_s(self) -> float:
        """When a call is given up on this side."""
        return self.timeout_ms / 1_000 + GRACE_SECONDS


class Connections:
    """Makes, lends and ends the connections to one database."""

    def __init__(self, dsn: str, limits: Limits) -> None:
        self._dsn = dsn
        self._limits = limits
        self._idle: list[Connection] = []
        self._places = asyncio.Semaphore(limits.pool_max)
        self._making: set[asyncio.Task[Connection]] = set()  # those whose caller is gone

    async def use(
        self, work: Callable[[Connection], Awaitable[Result]], *, committing: bool = False
    ) -> Result:
        """Do `work` on a connection of its own and return what it returns.

        `committing` says that a failure after the connection was taken leaves the outcome unknown.
        """
        async with self._places:
            connection = self._taken() or await self.connect()
            try:
                result = await work(connection)
            except BaseException as error:
                self._put_back(connection, usable=is_usable_after(error))
                if isinstance(error, DRIVER_ERRORS):
                    raise mapped(error, committing=committing) from error
                raise
            self._put_back(connection, usable=True)
            return result

    async def connect(self, name: str = "cellule") -> Connection:
        """Make a connection that belongs to the caller; operators see it under `name`.

        It is made to its end even if the caller is cancelled: a handshake that the driver drops halfway
        leaves errors that nobody hears. `close` waits for it.
        """
        making = asyncio.ensure_future(self._made(name))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            self._making.add(making)
            making.add_done_callback(self._unwanted)
            raise

    def _unwanted(self, made: asyncio.Task[Connection]) -> None:
        self._making.discard(made)
        if not made.cancelled() and made.exception() is None:
            made.result().terminate()

    async def _made(self, name: str) -> Connection:
        try:
            connection = await asyncpg.connect(
                self._dsn,
                timeout=self._limits.connect_timeout_ms / 1_000,
                command_timeout=self._limits.patience_s,
                max_cached_statement_lifetime=0,
            )
        except (*DRIVER_ERRORS, ValueError) as error:
            raise mapped_connect(error) from error
        try:
            await connection.fetch(SETTLE, name, str(self._limits.timeout_ms))
        except BaseException as error:
            connection.terminate()
            if isinstance(error, DRIVER_ERRORS):
                raise mapped(error) from error
            raise
        return connection

    async def close(self) -> None:
        """End the idle connections; nobody may be using one."""
        if self._making:
            await asyncio.wait(self._making, timeout=CLOSE_SECONDS)
        while self._idle:
            await ended(self._idle.pop())

    def _taken(self) -> Connection | None:
        """The idle connection used last: the others may be cut off by a quiet network."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _put_back(self, connection: Connection, *, usable: bool) -> None:
        if usable and not connection.is_closed():
            self._idle.append(connection)
        else:
            connection.terminate()


async def ended(connection: Connection) -> None:
    """Say goodbye to the server if it is there, and release the connection in any case."""
    try:
        await connection.close(timeout=CLOSE_SECONDS)
    except DRIVER_ERRORS:
        connection.terminate()


def closed() -> Unavailable:
    """The error of every call on a closed engine."""
    return Unavailable("store.closed", "the engine is closed", hint="Open a new one.")
