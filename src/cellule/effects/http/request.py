"""From params to the request that leaves: checked, secrets filled in, ready to be sent again elsewhere.

Headers that say how a message is framed or where it goes belong to the client and are refused. What held a
secret is remembered: such headers, and `Authorization` and `Cookie` in any case, never follow a redirect to
another origin.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote_plus, urlencode, urljoin

import msgspec

from cellule.effects.attempt import Attempt
from cellule.effects.header_text import header_key
from cellule.effects.http.params import HttpRequest
from cellule.effects.http.target import Target, check_no_dot_segments, split_url, target_of
from cellule.effects.limits import HTTP_BODY_BYTES_MAX, HTTP_REDIRECTS_MAX
from cellule.effects.outcomes import Failed
from cellule.effects.secrets.reference import MARK
from cellule.effects.secrets.resolver import Revealed
from cellule.errors import Rejected
from cellule.values.cid import Cid
from cellule.values.hosts import Url

SAFE_METHODS = frozenset({"GET", "HEAD"})
METHODS = SAFE_METHODS | {"POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_OURS = frozenset({
    "connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization", "proxy-connection",
    "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip
KEY_HEADER = "idempotency-key"
_PERSONAL = frozenset({"authorization", "cookie"})
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


@dataclass(frozen=True, slots=True, repr=False)
class Outgoing:
    """A request to send; `shown` is its URL without secrets."""

    target: Target
    shown: str
    method: str
    headers: Mapping[str, str]
    personal: frozenset[str]
    content: bytes
    content_is_secret: bool


async def outgoing(params: HttpRequest, attempt: Attempt) -> Outgoing:
    """Check the params and fill in the secrets; `Failed` says what does not fit, never a value."""
    method = params.method
    if method not in METHODS:  # in capitals: what a rule has seen is what is sent
        raise _unfit(f"the method {params.method[:20]!r} is none of {', '.join(sorted(METHODS))}")
    if not 0 <= params.follow_redirects <= HTTP_REDIRECTS_MAX:
        raise _unfit(f"follow_redirects is not from 0 to {HTTP_REDIRECTS_MAX}")
    if not 0 <= params.body_max <= HTTP_BODY_BYTES_MAX:
        raise _unfit(f"body_max is not from 0 to {HTTP_BODY_BYTES_MAX}")
    split = split_url(params.url)
    check_no_dot_segments(split.rest)
    _check_query_once(split, params.query)
    content, kind, is_secret = await _content(params, attempt)
    headers, personal = await _headers(params, attempt)
    if kind:
        headers.setdefault("content-type", kind)
    if method not in SAFE_METHODS:
        headers[KEY_HEADER] = header_key(attempt.key)
    target = target_of(await _filled(split, params, attempt))
    shown = _with_query(split, params.query)
    return Outgoing(target, shown, method, headers, personal, content, is_secret)


def redirected(before: Outgoing, status: int, location: str) -> Outgoing:
    """The request that follows a redirect; `Failed` where following it would give something away."""
    target = target_of(split_url(_joined(str(before.target.url), location)))
    check_no_dot_segments(target.path)
    if before.target.scheme == "https" and target.scheme == "http":
        raise _not_followed("it leads from https to http")
    method, content, headers = before.method, before.content, dict(before.headers)
    if (status in (301, 302) and method == "POST") or (status == 303 and method != "HEAD"):
        method, content = "GET", b""
        headers = {name: each for name, each in headers.items() if not name.startswith("content-")}
    if target.origin != before.target.origin:
        if content and before.content_is_secret:
            raise _not_followed("it would carry a body with secrets to another host")
        headers = {name: each for name, each in headers.items() if name not in before.personal}
    return replace(
        before, target=target, shown=str(target.url), method=method, headers=headers, content=content
    )


def _joined(base: str, location: str) -> str:
    try:
        return urljoin(base, location)
    except ValueError:
        raise _not_followed("its location is no URL") from None


async def _headers(params: HttpRequest, attempt: Attempt) -> tuple[dict[str, str], frozenset[str]]:
    headers = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "cellule"}
    personal, given_names = set(_PERSONAL), set[str]()
    for given, text in params.headers.items():
        name = given.lower()
        if not _TOKEN.fullmatch(name):
            raise _unfit(f"{given[:80]!r} cannot name a header")
        if name in _OURS:
            raise _unfit(f"the header {name} is set by the client alone")
        if name == KEY_HEADER:
            raise _unfit(f"the header {name} is the request's idempotency key: give it as key=...")
        if name in given_names:
            raise _unfit(f"the header {name} is given twice, in different cases")
        given_names.add(name)
        value = await attempt.secrets.resolve(text)
        if not _VALUE.fullmatch(value):
            raise _unfit(f"the value of the header {name} holds control characters")
        if not value.isascii():
            raise _unfit(f"the value of the header {name} is not ASCII; encode it, as the other side expects")
        if isinstance(value, Revealed):
            personal.add(name)
            value = value.strip()
        elif value != value.strip():
            raise _unfit(f"the value of the header {name} begins or ends with a space, which is not sent")
        headers[name] = value
    return headers, frozenset(personal)


def _check_query_once(split: Url, query: Mapping[str, str]) -> None:
    """A parameter stands in the URL or in `query`: of two a grant saw one, a server may take the other."""
    in_url = {unquote_plus(part.partition("=")[0]) for part in split.rest.partition("?")[2].split("&")}
    if both := sorted(in_url & query.keys()):
        raise _unfit(f"the URL and query both give {both[0][:80]!r}: give it once")


async def _filled(split: Url, params: HttpRequest, attempt: Attempt) -> Url:
    """The URL with secrets; the query's are encoded, the path's stand as they are."""
    rest = await attempt.secrets.resolve(split.rest)
    query = {name: str(await attempt.secrets.resolve(text)) for name, text in params.query.items()}
    return split._replace(rest=_rest_with_query(str(rest), query))


def _with_query(split: Url, query: Mapping[str, str]) -> str:
    return f"{split.scheme}://{split.authority}{_rest_with_query(split.rest, query)}"


def _rest_with_query(rest: str, query: Mapping[str, str]) -> str:
    if not query:
        return rest
    return f"{rest}{'&' if '?' in rest else '?'}{urlencode(query)}"


async def _content(params: HttpRequest, attempt: Attempt) -> tuple[bytes, str, bool]:
    """The body, its media type, and whether it holds secrets."""
    given = {name for name in ("body", "text", "json", "form", "blob") if getattr(params, name) is not None}
    if len(given) > 1:
        raise _unfit(f"{' and '.join(sorted(given))} are given; one is sent")
    if params.body is not None:
        return params.body, "application/octet-stream", False
    if params.blob is not None:
        return await _blob(params.blob, attempt), "application/octet-stream", False
    if params.form is not None and MARK in params.form:
        raise _unfit(f"form maps names to texts, and {MARK} is no name of a field")
    for name, kind, write in _WRITERS:
        before = getattr(params, name)
        if before is not None:
            after = await attempt.secrets.resolve(before) if params.body_secrets else before
            return write(after), kind, params.body_secrets
    return b"", "", False


async def _blob(cid: Cid, attempt: Attempt) -> bytes:
    try:
        return await attempt.blobs.get(cid)
    except Rejected as error:
        raise _unfit(f"its blob cannot be read: {error}") from None


def _json(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except (TypeError, ValueError):
        raise _unfit("the json holds something that JSON cannot") from None


def _plain(value: object) -> str:
    """The encoder takes no subclass of a text by itself."""
    if isinstance(value, Revealed):
        return str(value)
    raise TypeError(type(value).__qualname__)


_WRITERS = (
    ("text", "text/plain; charset=utf-8", lambda text: text.encode()),
    ("json", "application/json", _json),
    ("form", "application/x-www-form-urlencoded", lambda form: urlencode(form).encode()),
)


def _unfit(problem: str) -> Failed:
    return Failed("effects.http_params", f"the request is not sent: {problem}")


def _not_followed(problem: str) -> Failed:
    return Failed("effects.http_redirect", f"the redirect is not followed: {problem}")
