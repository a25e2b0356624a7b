"""What `http.request` takes and gives, and how a step asks for it.

Any status but 429, 502, 503 and 504 is an `ok` receipt: whether a 404 is bad news, the cell decides. At most
one of `body`, `text`, `json`, `form` and `blob` is sent.

References to secrets are resolved in `headers`, in `query` and in `url` behind the host; in the body only
with `body_secrets`: a body often holds what a stranger wrote, and `${secret:stripe}` in it must stay text.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cellule.effects.limits import HTTP_BODY_BYTES
from cellule.values.cid import Cid
from cellule.values.requests import Request

KIND = "http.request"


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request; `follow_redirects` is how many are followed, `body_max` limits the answer's bytes."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    body: bytes | None = None
    text: str | None = None
    json: Any = None
    form: dict[str, str] | None = None
    blob: Cid | None = None
    body_secrets: bool = False
    follow_redirects: int = 0
    body_max: int = HTTP_BODY_BYTES


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: a body of up to 32,000 bytes in `body`, a longer one in the CAS as `blob`.

    Header names are lower case, repeated ones joined by a comma; `set_cookies` has its own list, since
    cookies hold commas. `url` is the one that answered, as the request wrote it unless redirects led away.
    """

    status: int
    url: str
    headers: dict[str, str] = {}
    set_cookies: list[str] = []
    body: bytes | None = None
    blob: Cid | None = None
    size: int = 0


def http_request(params: HttpRequest, *, key: str | None = None, slot: str | None = None) -> Request:
    """Ask for `http.request`; `slot` names the capability slot whose grant lists the hosts."""
    return Request(KIND, params, slot, key)
