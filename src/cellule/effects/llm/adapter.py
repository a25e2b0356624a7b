"""The adapter `llm.generate`: one chat completion over checked connections.

The question goes out with the attempt's idempotency key, the answer comes as a stream or as one document, and
only a whole answer becomes a receipt: a broken stream is tried again from the start. Redirects are not
followed. Hosts and addresses are checked exactly as `http.request` checks them. Progress notes of an attempt
are `{"text": ...}`: what came since the last one, not more often than people can read.

Rejected: the packages of model vendors. Each speaks this protocol, and they bring connections of their own.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Literal

import httpx

from cellule.effects.adapter_limits import AdapterLimits
from cellule.effects.attempt import Attempt
from cellule.effects.header_text import header_key
from cellule.effects.http.target import Target, check_grant, check_no_dot_segments, split_url, target_of
from cellule.effects.http.transport import CheckedTransport, Resolver, resolve_by_system
from cellule.effects.kinds import limits_of
from cellule.effects.llm.answer import (
    ERROR_BYTES_MAX,
    STREAM_BYTES_MAX,
    Answer,
    events,
    outcome_in_stream,
    outcome_of,
    read_part,
)
from cellule.effects.llm.body import body_of
from cellule.effects.llm.types import LlmGenerate, LlmGenerated
from cellule.effects.outcomes import Failed, Retry
from cellule.effects.secrets.reference import MARK
from cellule.sources import Clock, SystemClock

NOTE_SECONDS_MIN = 0.1
NOTE_CHARS_MAX = 4_000


class TextNotes:
    """Tells an attempt's text in pieces of at least `NOTE_SECONDS_MIN`, or of `NOTE_CHARS_MAX` characters."""

    def __init__(self, attempt: Attempt, time_s: Callable[[], float]) -> None:
        self._attempt = attempt
        self._time_s = time_s
        self._waiting = ""
        self._next_s = time_s()

    def add(self, text: str) -> None:
        """Tell `text`, now or with what follows."""
        self._waiting += text
        if self._waiting and (self._time_s() >= self._next_s or len(self._waiting) >= NOTE_CHARS_MAX):
            # A secret may begin in this piece and end in the next: that part waits.
            ready, self._waiting = self._attempt.secrets.redactor.split_text(self._waiting)
            self._tell(ready)

    def flush(self) -> None:
        """Tell what is waiting."""
        self._tell(self._waiting)
        self._waiting = ""

    def _tell(self, text: str) -> None:
        if text:
            self._attempt.note({"text": text})
            self._next_s = self._time_s() + NOTE_SECONDS_MIN


PATH = "/chat/completions"
_OURS = {
    "accept-encoding", "connection", "content-length", "content-type", "host", "idempotency-key",
    "transfer-encoding",
}  # fmt: skip


class LlmAdapter:
    """Asks models; connections to private addresses, where a grant allows them, are kept apart."""

    kind: Literal["llm.generate"] = "llm.generate"
    params = LlmGenerate
    receipt = LlmGenerated

    def __init__(
        self, *, resolver: Resolver = resolve_by_system, verify: ssl.SSLContext | None = None,
        clock: Clock | None = None, limits: AdapterLimits | None = None,
    ) -> None:  # fmt: skip
        self.limits = limits_of("llm", limits)
        self._resolver = resolver
        self._verify = verify
        self._clock = clock or SystemClock()
        self._clients: dict[bool, httpx.AsyncClient] = {}

    async def perform(self, params: LlmGenerate, attempt: Attempt) -> LlmGenerated:
        """Ask once and return the whole answer."""
        split = split_url(params.base_url.rstrip("/") + PATH)
        check_no_dot_segments(split.rest)
        target = target_of(split)
        check_grant(target, "POST", attempt.grant)
        request = self._request(target, params, await _headers(params, attempt), attempt)
        try:
            response = await self._client(attempt).send(request, stream=True)
            try:
                return await _answer(response, params, attempt, self._clock.now_ns())
            finally:
                await response.aclose()
        except httpx.LocalProtocolError as error:
            raise Failed("effects.llm_params", "A header of the request is not well formed.") from error
        except httpx.TransportError as error:
            reason = f"{type(error).__name__} {error}".strip()
            raise Retry(attempt.scrub(f"no answer from {target.origin}: {reason}")) from error

    async def close(self) -> None:
        """Close all connections."""
        while self._clients:
            await self._clients.popitem()[1].aclose()

    def _client(self, attempt: Attempt) -> httpx.AsyncClient:
        private = bool((attempt.grant or {}).get("private"))
        if private not in self._clients:
            transport = CheckedTransport(private=private, resolver=self._resolver, verify=self._verify)
            self._clients[private] = httpx.AsyncClient(transport=transport, trust_env=False)
        return self._clients[private]

    def _request(
        self, target: Target, params: LlmGenerate, headers: Mapping[str, str], attempt: Attempt
    ) -> httpx.Request:
        return httpx.Request(
            "POST", target.url, content=body_of(params), headers=headers,
            extensions={"timeout": httpx.Timeout(attempt.timeout_s).as_dict()},
        )  # fmt: skip


async def _headers(params: LlmGenerate, attempt: Attempt) -> dict[str, str]:
    if MARK in params.headers:
        raise Failed("effects.llm_params", f"headers maps names to texts, and {MARK} is no name of a header.")
    headers: dict[str, str] = await attempt.secrets.resolve(params.headers)
    # Names of headers have no case: of two spellings each server would choose another.
    names = [name.lower() for name in headers]
    if len(set(names)) < len(names):
        raise Failed("effects.llm_params", "A header is given twice, in different cases. Give it once.")
    if params.api_key is not None and "authorization" in names:
        raise Failed("effects.llm_params", "Give api_key or the header Authorization, not both.")
    for name, value in headers.items():
        if name.lower() in _OURS or not name.isascii() or not name.isprintable():
            raise Failed("effects.llm_params", f"The header {name!r} cannot be set. Leave it out.")
        if not value.isascii() or not value.isprintable():
            raise Failed("effects.llm_params", f"The value of the header {name} is no printable ASCII.")
    if params.api_key is not None:
        headers = {**headers, "Authorization": f"Bearer {await _api_key(params, attempt)}"}
    return {
        "accept": "text/event-stream" if params.stream else "application/json",
        "idempotency-key": header_key(attempt.key),
        **{name.lower(): value for name, value in headers.items()},
        "accept-encoding": "identity",
        "content-type": "application/json",
    }


async def _api_key(params: LlmGenerate, attempt: Attempt) -> str:
    value: str = await attempt.secrets.resolve(params.api_key)
    value = value.strip()
    if not value.isascii() or not value.isprintable():
        raise Failed("effects.llm_params", f"The secret {params.api_key!r} is no printable ASCII.")
    return value


async def _answer(
    response: httpx.Response, params: LlmGenerate, attempt: Attempt, now_ns: int
) -> LlmGenerated:
    if response.status_code != 200:
        body = await _bounded(response.aiter_raw(), ERROR_BYTES_MAX, cut=True)
        raise outcome_of(response.status_code, response.headers, body, attempt, now_ns)
    if response.headers.get("content-type", "").strip().lower().startswith("text/event-stream"):
        return await _streamed(response, params, attempt)
    answer = Answer(params.model)
    part = read_part(await _bounded(response.aiter_raw(), STREAM_BYTES_MAX, cut=False))
    if part.error is not None:
        raise outcome_in_stream(part.error, attempt)
    text = answer.add(part)
    answered = answer.finished(attempt.scrub)
    if text:
        attempt.note({"text": text})
    return answered


async def _streamed(response: httpx.Response, params: LlmGenerate, attempt: Attempt) -> LlmGenerated:
    answer = Answer(params.model)
    notes = TextNotes(attempt, asyncio.get_running_loop().time)
    async for data in events(response.aiter_raw()):
        if data == b"[DONE]":
            break
        part = read_part(data)
        if part.error is not None:
            raise outcome_in_stream(part.error, attempt)
        notes.add(answer.add(part))
    if not answer.is_whole:
        raise Retry("the server's answer ended before it was whole")
    notes.flush()
    return answer.finished(attempt.scrub)


async def _bounded(chunks: AsyncIterator[bytes], limit: int, *, cut: bool) -> bytes:
    """Read a body; one that is longer is cut, or else `Failed`."""
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            if cut:
                break
            raise Failed("effects.llm_too_long", "The server sent more than an answer can have.")
    return bytes(body[:limit])
