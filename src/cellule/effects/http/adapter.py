"""The adapter `http.request`: one attempt is one request and the redirects it may follow.

429, 502, 503, 504 and what happens on the way (no name, no connection, cut off, too slow) are
`Retry`; with the idempotency key in the request, a request whose answer was lost may be sent again. All other
answers are receipts. Grant and addresses are checked for the request and again for every redirect.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field, replace
from typing import Any, Final

import httpx

from cellule.effects.adapter import AdapterLimits
from cellule.effects.attempt import Attempt
from cellule.effects.grant_check import check_allowed
from cellule.effects.http.params import KIND, HttpRequest, HttpResponse
from cellule.effects.http.request import Outgoing, outgoing, redirected
from cellule.effects.http.response import received, retry_after_s
from cellule.effects.http.target import check_grant
from cellule.effects.http.transport import CheckedTransport, Resolver, resolve_by_system
from cellule.effects.kinds import limits_of
from cellule.effects.limits import HTTP_CONNECT_S, HTTP_ERROR_CHARS_MAX
from cellule.effects.outcomes import Failed, Retry
from cellule.sources import Clock, SystemClock

TRY_AGAIN: Final = frozenset({429, 502, 503, 504})
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """What a node may set: own certificates (`verify`), limits, and, for tests, names and time."""

    verify: ssl.SSLContext | None = None
    limits: AdapterLimits = field(default_factory=AdapterLimits)
    resolver: Resolver = resolve_by_system
    clock: Clock = field(default_factory=SystemClock)


class HttpAdapter:
    """Performs `http.request`; keeps connections, apart for grants that may reach private addresses."""

    kind: Final = KIND
    params: Final = HttpRequest
    receipt: Final = HttpResponse

    def __init__(self, options: HttpOptions | None = None) -> None:
        self.options = options or HttpOptions()
        self.limits = limits_of("http", self.options.limits)
        self._transports: dict[bool, CheckedTransport] = {}

    async def perform(self, params: HttpRequest, attempt: Attempt) -> HttpResponse:
        """Send the request and return the answer."""
        try:
            return await self._perform(params, attempt)
        except Failed as error:
            raise Failed(error.code, attempt.scrub(error.text)) from None
        except Retry as error:
            raise Retry(attempt.scrub(error.reason), error.after_s) from None
        except httpx.TransportError as error:
            # Without the cause: its text was written by others, and may repeat what we sent.
            said = attempt.secrets.redactor.scrub_error(error)[:HTTP_ERROR_CHARS_MAX]
            raise Retry(f"the request failed on its way: {said}") from None

    async def close(self) -> None:
        """Close all connections."""
        while self._transports:
            _, transport = self._transports.popitem()
            await transport.aclose()

    async def _perform(self, params: HttpRequest, attempt: Attempt) -> HttpResponse:
        attempt = replace(attempt, secrets=attempt.secrets.apart())
        request = await outgoing(params, attempt)
        for left in range(params.follow_redirects, -1, -1):
            check_grant(request.target, request.method, attempt.grant)
            answer = await self._send(request, attempt)
            try:
                onward = answer.status_code in REDIRECTS and "location" in answer.headers
                if not onward or not params.follow_redirects:
                    return await self._finish(answer, request, params.body_max, attempt)
                if left == 0:
                    break
                request = redirected(request, answer.status_code, answer.headers["location"])
                _check_url(request.shown, attempt)
            finally:
                await answer.aclose()
        raise Failed("effects.http_redirect", f"there are more than {params.follow_redirects} redirects")

    async def _send(self, request: Outgoing, attempt: Attempt) -> httpx.Response:
        timeouts = httpx.Timeout(attempt.timeout_s, connect=min(attempt.timeout_s, HTTP_CONNECT_S))
        message = httpx.Request(
            request.method,
            request.target.url,
            headers=dict(request.headers),
            content=request.content or None,
            extensions={"timeout": timeouts.as_dict()},
        )
        return await self._transport(attempt).handle_async_request(message)

    async def _finish(
        self, answer: httpx.Response, request: Outgoing, body_max: int, attempt: Attempt
    ) -> HttpResponse:
        if answer.status_code in TRY_AGAIN:
            after_s = retry_after_s(answer.headers, self.options.clock.now_ns())
            raise Retry(f"{request.target.host} answered {answer.status_code}", after_s)
        return await received(answer, request.shown, body_max, attempt)

    def _transport(self, attempt: Attempt) -> CheckedTransport:
        private = bool(_of(attempt, "private"))
        if private not in self._transports:
            self._transports[private] = CheckedTransport(
                private=private, resolver=self.options.resolver, verify=self.options.verify
            )
        return self._transports[private]


def _check_url(url: str, attempt: Attempt) -> None:
    """The beat has checked the first URL; a grant that names URLs names those of redirects, too."""
    if "url" in (_of(attempt, "allow") or {}):
        check_allowed(attempt, "url", url)


def _of(attempt: Attempt, name: str) -> Any:
    return None if attempt.grant is None else attempt.grant.get(name)
