"""Telling other processes which keys were written: NOTIFY after the commit, never in it.

A NOTIFY takes a lock over the whole database until its transaction ends; inside a commit it would make all
worlds wait for each other's disk. So a task of the engine collects the hashes of written keys while its
previous NOTIFY runs, and sends them together. A process that dies in between leaves its last keys untold;
the regular look of the watchers (`listen.py`) finds those.

```
payload | 8 characters: the engine that sends | base64 of 4-byte big-endian hashes, or `*` for any key |
```
"""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from struct import pack, unpack

from cellule.errors import Rejected, Unavailable
from cellule.store.engines.postgres.connection import Connections

HASHES_MAX = 1_400
SENDER_CHARACTERS = 8
EVERY_KEY = "*"
RETRY_S = 1.0
PAUSE_S = 0.01
"""At most 100 notices a second come from one engine; a watcher elsewhere waits at most this much longer."""

# Nothing durable is written, so nobody waits for the disk.
NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"


def channel_of(schema: str) -> str:
    """Return the name of the channel that the engines of a schema share."""
    return f"{schema}_written"


def encode_notice(sender: str, hashes: Sequence[int] | None) -> str:
    """Return the payload that tells of `hashes`; `None` stands for any key."""
    if hashes is None:
        return sender + EVERY_KEY
    return sender + b64encode(pack(f">{len(hashes)}I", *hashes)).decode()


def decode_notice(payload: str) -> tuple[str, Sequence[int] | None]:
    """Return sender and hashes; what cannot be read tells of any key."""
    sender, told = payload[:SENDER_CHARACTERS], payload[SENDER_CHARACTERS:]
    try:
        packed = b64decode(told, validate=True)
    except ValueError:
        return sender, None
    if len(packed) % 4:
        return sender, None
    return sender, unpack(f">{len(packed) // 4}I", packed)


class Notifier:
    """Collects what was written and tells it; `run` is its only task."""

    def __init__(self, connections: Connections, channel: str, sender: str) -> None:
        self._connections = connections
        self._channel = channel
        self._sender = sender
        self._written: set[int] = set()
        self._any_key = False
        self._waiting = asyncio.Event()
        self._finishing = asyncio.Event()

    def tell(self, hashes: Iterable[int] | None) -> None:
        """Have other processes told soon that these keys (`None`: any) were written."""
        if hashes is None:
            self._any_key = True
        elif not self._any_key:
            self._written.update(hashes)
            self._any_key = len(self._written) > HASHES_MAX
        self._waiting.set()

    def finish(self) -> None:
        """Let `run` end after it has tried to tell what is waiting."""
        self._finishing.set()
        self._waiting.set()

    async def run(self) -> None:
        """Tell until `finish`; while the server is away, remember that anything may have been written."""
        while not self._finishing.is_set():
            await self._waiting.wait()
            self._waiting.clear()
            told = await self._told()
            await wait_at_most(self._finishing, PAUSE_S if told else RETRY_S)
        await self._told()

    async def _told(self) -> bool:
        if not (self._written or self._any_key):
            return True
        hashes = None if self._any_key else sorted(self._written)
        self._written, self._any_key = set(), False
        try:
            payload = encode_notice(self._sender, hashes)
            await self._connections.use(lambda connection: connection.fetch(NOTIFY, self._channel, payload))
        except (Unavailable, Rejected):
            self.tell(None)
            return False
        return True


async def wait_at_most(event: asyncio.Event, seconds: float) -> bool:
    """Wait until `event` is set or the time is over; tell which."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
