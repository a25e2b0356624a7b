"""From the answer to the receipt: headers, and a body that is small and inline or long and in the CAS.

The body is stored as it was sent; the request asks for no compression, so there is nothing to unpack that
could grow. Secrets of the request that the other side echoes are scrubbed from headers and body before they
are kept.

Rejected: unpacking gzip. A few bytes can become gigabytes, and `content-encoding` tells who asked for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx

from cellule.effects.attempt import Attempt
from cellule.effects.http.params import HttpResponse
from cellule.effects.limits import HTTP_INLINE_BYTES
from cellule.effects.outcomes import Failed
from cellule.values.cid import Cid


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


async def _body(answer: httpx.Response, most: int, attempt: Attempt) -> tuple[bytes | None, Cid | None, int]:
    stated = answer.headers.get("content-length", "")
    if answer.request.method != "HEAD" and stated.isdigit() and int(stated) > most:
        raise _too_large(most)
    # Scrubbed bytes are what is kept, so they are what is counted.
    chunks = attempt.secrets.redactor.scrub_stream(_limited(answer, most))
    first = b""
    async for chunk in chunks:
        first += chunk
        if len(first) > HTTP_INLINE_BYTES:
            count = _Counted(first, chunks)
            blob = await attempt.blobs.put(count.pieces())
            return None, blob, count.size
    return first, None, len(first)


async def _limited(answer: httpx.Response, most: int) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in answer.aiter_raw():
        size += len(chunk)
        if size > most:
            raise _too_large(most)
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


def _too_large(most: int) -> Failed:
    return Failed(
        "effects.http_body", f"the answer has more than {most} bytes; ask for less, or raise body_max"
    )
