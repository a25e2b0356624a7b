"""The one connection that all attempts share, made when the first needs it and again when it was lost.

Rejected: the client's own reconnecting. It holds messages back for as long as it takes, behind the backs of
attempts that have long been given up; the pool's attempts come again by themselves, and survive a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any

from cellule.effects.attempt import Attempt
from cellule.effects.outcomes import Retry
from cellule.effects.publish.options import NatsOptions
from cellule.errors import Rejected

if TYPE_CHECKING:
    from nats.aio.client import Client

CONNECT_S = 5
COMPLAINTS_KEPT = 100


class SharedConnection:
    """Gives the connected client; `Rejected` when the package is not installed."""

    def __init__(self, options: NatsOptions) -> None:
        try:
            import nats.aio.client
        except ImportError as error:
            raise Rejected(
                "effects.nats_missing", "event.publish needs the package nats-py, which is not installed",
                hint='Install it: pip install "cellule[nats]".',
            ) from error  # fmt: skip
        self._make = nats.aio.client.Client
        self._options = options
        self._client: Client | None = None
        self._lock = asyncio.Lock()
        self._complaints: deque[str] = deque(maxlen=COMPLAINTS_KEPT)

    async def get(self, attempt: Attempt) -> Client:
        """Return the client, connected; `Retry` when no server takes us."""
        async with self._lock:
            if self._client is None or not self._client.is_connected:
                await self._drop()
                self._client = await self._connected(attempt)
            return self._client

    def forbids(self, subject: str) -> bool:
        """Whether the server has said that we may not publish there; it says so apart from the answer."""
        said = f'publish to "{subject}"'.lower()
        return any(said in complaint for complaint in self._complaints)

    async def close(self) -> None:
        """Close the connection."""
        async with self._lock:
            await self._drop()

    async def _connected(self, attempt: Attempt) -> Client:
        import nats.errors

        login = await self._login(attempt)
        self._complaints.clear()
        reasons = []
        for server in self._options.servers:
            client = self._make()
            try:
                async with asyncio.timeout(CONNECT_S):
                    await client.connect(
                        server, allow_reconnect=False, max_reconnect_attempts=1, reconnect_time_wait=0,
                        error_cb=self._complained, name="cellule", tls=self._options.tls, **login,
                    )  # fmt: skip
            except (OSError, nats.errors.Error) as error:
                said = self._complaints[-1] if self._complaints else type(error).__name__
                reasons.append(f"{server}: {attempt.scrub(said)}")
                await _closed(client)
            except BaseException:
                await _closed(client)
                raise
            else:
                return client
        raise Retry(f"no NATS server takes the connection: {'; '.join(reasons)}")

    async def _login(self, attempt: Attempt) -> dict[str, Any]:
        options = self._options
        given = {"user": options.user, "password": options.password, "token": options.token}
        resolved = await attempt.secrets.resolve({name: value for name, value in given.items() if value})
        return {name: str(value) for name, value in resolved.items()}

    async def _complained(self, error: Exception) -> None:
        self._complaints.append(str(error).lower() or type(error).__name__)

    async def _drop(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await _closed(client)


async def _closed(client: Client) -> None:
    with contextlib.suppress(OSError):
        await client.close()
