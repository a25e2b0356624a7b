"""Connections to checked addresses only: a name is resolved once, here, and what was checked is connected to.

TLS still asks for the name and verifies it, and connections are kept by name, never by address. Every
address of a name has to pass, so that none hides a private one behind a public one. Proxies of the
environment are not used, cookies are not kept, redirects are not followed: this carries one request.

Rejected: checking the name first and letting the client resolve it again. Between the two it can change.
Rejected: rewriting URLs to addresses. Kept connections would be shared by all names of an address.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

from cellule.effects.http.addresses import address_fault
from cellule.effects.limits import (
    HTTP_ADDRESSES_MAX,
    HTTP_CONNECT_S,
    HTTP_CONNECTIONS,
    HTTP_KEPT_CONNECTIONS,
    HTTP_RESOLVERS,
)
from cellule.effects.outcomes import Failed, Retry
from cellule.effects.threads import Threads
from cellule.values.hosts import is_address

_NAMES = Threads(HTTP_RESOLVERS, "cellule-names")  # of the process: names that are slow hold up names only
Resolver = Callable[[str, int], Awaitable[list[str]]]


async def resolve_by_system(host: str, port: int) -> list[str]:
    """Ask the machine's resolver, on threads of its own; the addresses in its order, each once."""
    found = await _NAMES.run(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connects to names whose addresses all pass; `private` lets private ones pass too."""

    def __init__(self, resolver: Resolver, *, private: bool) -> None:
        self.resolver = resolver
        self.private = private
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's contract
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve, check all, connect to the first that answers."""
        addresses = await self._addresses(host, port)
        limit = HTTP_CONNECT_S if timeout is None else min(timeout, HTTP_CONNECT_S)
        failure: Exception | None = None
        for address in addresses:
            try:
                return await self._inner.connect_tcp(address, port, limit, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or Retry(f"the name {host} has no address")

    async def sleep(self, seconds: float) -> None:
        """Wait, as the connection pool asks."""
        await asyncio.sleep(seconds)

    async def _addresses(self, host: str, port: int) -> list[str]:
        if is_address(host):
            found = [host]
        else:
            try:
                found = await self.resolver(host, port)
            except (OSError, UnicodeError) as error:
                raise Retry(f"the name {host} could not be resolved: {type(error).__name__}") from error
        for address in found:
            fault = address_fault(address, private=self.private)
            if fault:
                raise Failed(
                    "effects.http_address",
                    f"{host} leads to {address}, {fault}: a grant needs private = true to reach such",
                )
        return found[:HTTP_ADDRESSES_MAX]


class CheckedTransport(httpx.AsyncBaseTransport):
    """An httpx transport over `CheckedBackend`; good for httpx clients as well."""

    def __init__(
        self,
        *,
        private: bool = False,
        resolver: Resolver = resolve_by_system,
        verify: ssl.SSLContext | None = None,
    ) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=verify or httpx.create_ssl_context(trust_env=False),
            max_connections=HTTP_CONNECTIONS,
            max_keepalive_connections=HTTP_KEPT_CONNECTIONS,
            keepalive_expiry=30.0,
            network_backend=CheckedBackend(resolver, private=private),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; the response's stream is read by the caller, who closes it."""
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        with _mapped_errors():
            answer = await self._pool.handle_async_request(
                httpcore.Request(
                    request.method,
                    url,
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx.Response(
            answer.status,
            headers=answer.headers,
            stream=_Body(answer),
            extensions=answer.extensions,
            request=request,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    """A response's body, with httpx's errors."""

    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _mapped_errors():
            async for chunk in self._answer.aiter_stream():
                yield chunk

    async def aclose(self) -> None:
        with _mapped_errors():
            await self._answer.aclose()


@contextmanager
def _mapped_errors() -> Iterator[None]:
    """Both packages name their errors alike; callers know httpx only."""
    try:
        yield
    except (
        httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol
    ) as error:  # fmt: skip
        raise getattr(httpx, type(error).__name__, httpx.TransportError)(str(error)) from error
