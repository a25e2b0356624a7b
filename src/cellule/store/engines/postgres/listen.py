"""Hearing of other processes' writes: one LISTEN connection, and a regular look at all watched keys.

Between two connections notices are lost, so every (re)connect wakes all watches. A process may die between
its commit and its NOTIFY, so every few seconds one read compares all watched keys with what their watchers
have seen. It runs on the same connection, which also proves that the connection is alive.

Rejected: a LISTEN connection per watch, or a poll per watch. A node watches hundreds of keys.
"""

from __future__ import annotations

import asyncio

from cellule.errors import CelluleError, Unavailable
from cellule.store.engines.postgres.connection import Connection, Connections, closed, ended
from cellule.store.engines.postgres.errors import DRIVER_ERRORS, mapped
from cellule.store.engines.postgres.notify import decode_notice, wait_at_most
from cellule.store.engines.postgres.reader import Reads
from cellule.store.engines.postgres.watch import Watches

BACKOFF_MIN_S = 0.1
BACKOFF_MAX_S = 2.0


class Listener:
    """Keeps one connection listening and wakes the watches; `run` is its only task."""

    def __init__(
        self,
        connections: Connections,
        channel: str,
        sender: str,
        watches: Watches,
        reads: Reads,
        look_s: float,
    ) -> None:
        self._connections = connections
        self._channel = channel
        self._sender = sender
        self._watches = watches
        self._reads = reads
        self._look_s = look_s

    async def run(self) -> None:
        """Listen until cancelled, connecting again whenever the connection is lost."""
        backoff_s = BACKOFF_MIN_S
        try:
            while True:
                try:
                    connection = await self._connections.connect("cellule listener")
                    backoff_s = BACKOFF_MIN_S
                    await self._listen(connection)
                except Unavailable:
                    pass
                except CelluleError:
                    # Access refused, or one watched row damaged: each watcher learns its own by reading.
                    self._watches.wake_all()
                await asyncio.sleep(backoff_s)
                backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)
        finally:
            self._watches.fail_all(closed())

    async def _listen(self, connection: Connection) -> None:
        """Listen on a new connection until it is lost."""
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        try:
            await connection.add_listener(self._channel, self._heard)
            self._watches.wake_all()
            while not await wait_at_most(lost, self._look_s):
                await self._look(connection)
        except DRIVER_ERRORS as error:
            raise mapped(error) from error
        finally:
            await ended(connection)

    async def _look(self, connection: Connection) -> None:
        """Wake the watches whose key holds something else than they have seen."""
        watches = self._watches.all()
        keys = sorted({watch.key for watch in watches})
        held = dict(zip(keys, await self._reads.read(connection, keys), strict=True))
        for watch in watches:
            if held[watch.key] != watch.seen:
                watch.wake()

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        sender, hashes = decode_notice(str(payload))
        if sender == self._sender:
            return
        if hashes is None:
            self._watches.wake_all()
        else:
            self._watches.wake(hashes)
