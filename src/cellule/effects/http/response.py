"""From the answer to the receipt: headers, and a body that is small and inline or long and in the CAS.

The body is stored as it was sent; the request asks for no compression, so there is nothing to unpack that
could grow. Secrets of the request that the other side echoes are scrubbed from headers and body before they
are kept. How long the other side asks to be left alone (`Retry-After`) is read for every adapter of HTTP.

Rejected: unpacking gzip. A few bytes can become gigabytes, and `content-encoding` tells who asked for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from email.utils import parsedate_to_datetime

import httpx

from cellule.effects.attempt import Attempt
from cellule.effects.http.params import HttpResponse
from cellule.effects.limits import HTTP_INLINE_BYTES, HTTP_RETRY_AFTER_S_MAX
from cellule.effects.outcomes import Failed
from cellule.values.cid import Cid

_NS = 1_000_000_000


def retry_after_s(headers: Mapping[str, str], now_ns: int) -> float | None:
    """The seconds asked for, in numbers or as a date, within our bounds; None where nothing is said.

    `headers` has its names in lower case, or does not care; `retry-after-ms` is what model servers send.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if text.isascii() and text.replace(".", "", 1).isdigit():
            return min(float(text) * unit, HTTP_RETRY_AFTER_S_MAX)
    try:
        due_s = parsedate_to_datetime(headers.get("retry-after", "").strip()).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(0.0, due_s - now_ns / _NS), HTTP_RETRY_AFTER_S_MAX)


async def received(answer: httpx.Response, shown: str, body_max: int, attempt: Attempt) -> HttpResponse:
    """Read the answer to its end and make the receipt's value."""
    redactor = attempt.secrets.redactor
    body, blob, size = await _body(answer, body_max, attempt)
    names = dict.fromkeys(name.lower() for name in answer.headers if name.lower() != "set-cookie")
    return HttpResponse(
        status=answer.status_code,
        url=redactor.scrub_text(shown),
        headers={name: redactor.scrub_text(", ".join(answer.headers.get_list(name))) for name in names},
        set_cookies=[redactor.scrub_text(each) for each in answer.headers.get_list("set-cookie")],
        body=body,
        blob=blob,
        size=size,
    )


async def _body(answer: httpx.Response, limit: int, attempt: Attempt) -> tuple[bytes | None, Cid | None, int]:
    stated = answer.headers.get("content-length", "")
    if answer.request.method != "HEAD" and stated.isdigit() and int(stated) > limit:
        raise _too_large(limit)
    # Scrubbed bytes are what is kept, so they are what is counted.
    chunks = attempt.secrets.redactor.scrub_stream(_limited(answer, limit))
    first = b""
    async for chunk in chunks:
        first += chunk
        if len(first) > HTTP_INLINE_BYTES:
            count = _Counted(first, chunks)
            blob = await attempt.blobs.put(count.pieces())
            return None, blob, count.size
    return first, None, len(first)


async def _limited(answer: httpx.Response, limit: int) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in answer.aiter_raw():
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        yield chunk


class _Counted:
    """The pieces of a long body, counted as they pass."""

    def __init__(self, first: bytes, rest: AsyncIterator[bytes]) -> None:
        self.size = 0
        self._first = first
        self._rest = rest

    async def pieces(self) -> AsyncIterator[bytes]:
        """What was read already, then the rest."""
        self.size = len(self._first)
        yield self._first
        async for chunk in self._rest:
            self.size += len(chunk)
            yield chunk


def _too_large(limit: int) -> Failed:
    return Failed(
        "effects.http_body", f"the answer has more than {limit} bytes; ask for less, or raise body_max"
    )
