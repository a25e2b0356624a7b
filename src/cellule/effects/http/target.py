"""Where a request goes: its URL as `values.hosts` reads it, checked against the grant before it is sent.

The host that is checked is the host that is resolved, sent and verified: all later parts use the `Target`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx

from cellule.effects.limits import HTTP_URL_CHARS_MAX
from cellule.effects.outcomes import Failed
from cellule.values import hosts
from cellule.values.hosts import PORTS, BadHost, Host, Url

_DOTS = re.compile(r"(/|%2f|%5c)(\.|%2e){1,2}(?=/|%2f|%5c|;|%3b|$)", re.IGNORECASE)


class Target(NamedTuple):
    """A request's destination."""

    scheme: str
    host: Host
    path: str

    @property
    def url(self) -> httpx.URL:
        """The URL to request."""
        return httpx.URL(f"{self.origin}{self.path}")

    @property
    def origin(self) -> str:
        """Scheme, host, and the port unless it is the scheme's own."""
        return f"{self.scheme}://{self.host}"


def split_url(url: str) -> Url:
    """Cut a URL; `Failed` unless it is an absolute URL of http or https without doubtful characters."""
    if len(url) > HTTP_URL_CHARS_MAX:
        raise _bad_url(f"it has more than {HTTP_URL_CHARS_MAX} characters")
    try:
        split = hosts.split_url(url)
    except BadHost as error:
        raise _bad_url(str(error)) from None
    if split.scheme not in PORTS:
        raise _bad_url("it does not begin with http:// or https://")
    if "@" in split.authority:  # `host_of` refuses it too; here it is said before secrets are filled in
        raise _bad_url("it holds credentials: use an Authorization header with a secret")
    if "$" in split.authority or "%" in split.authority:
        raise _bad_url("its host holds a template or percent-encoding")
    return split


def check_no_dot_segments(rest: str) -> None:
    """Raise `Failed` for `/../` in the path, in the spellings that servers take for it.

    A grant's pattern would be read before it is resolved.
    """
    if _DOTS.search(rest.partition("?")[0]):
        raise _bad_url("its path holds . or .. as a part: write the path it leads to")


def target_of(split: Url) -> Target:
    """Read a cut URL, whose rest may have been filled in meanwhile."""
    try:
        host = hosts.host_of(split)
        path = httpx.URL(f"{split.scheme}://{host}{split.rest}").raw_path.decode()
    except BadHost as error:
        raise _bad_url(str(error)) from None
    except httpx.InvalidURL:
        # The error's own text may quote a secret of the path.
        raise _bad_url("its path is not well formed") from None
    return Target(split.scheme, host, path or "/")


def check_grant(target: Target, method: str, grant: Mapping[str, Any] | None) -> None:
    """Raise `Failed` unless the grant allows the target and the method."""
    if grant is None:
        return
    patterns, methods = grant.get("hosts"), grant.get("methods")
    if patterns is not None and not hosts.host_fits(target.host, patterns):
        raise Failed(
            "effects.http_host", f"the grant does not allow the host {target.host}; add it there if it should"
        )
    if methods is not None and method not in {each.upper() for each in methods}:
        raise Failed("effects.http_method", f"the grant does not allow {method}; add it there if it should")


def _bad_url(problem: str) -> Failed:
    return Failed("effects.http_url", f"the URL is not used: {problem}")
