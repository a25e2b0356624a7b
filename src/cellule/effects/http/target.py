"""Where a request goes: the one reading of its URL, checked against the grant before anything is connected.

The host that is checked is the host that is resolved, sent and verified: all later parts use the `Target`.
Spellings that other programs read in other ways are refused, not guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, NamedTuple

import httpx

from cellule.effects.limits import HTTP_URL_CHARS_MAX
from cellule.effects.outcomes import Failed

PORTS = {"http": 80, "https": 443}
_SPLIT = re.compile(r"(https?)://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE | re.DOTALL)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DOTS = re.compile(r"/(\.|%2e){1,2}(?=/|$)", re.IGNORECASE)
_UNCLEAR = re.compile(r"[\x00-\x20\x7f\\]")


class Split(NamedTuple):
    """A URL cut behind its host, without fragment: nothing in `rest` can change where the request goes."""

    scheme: str
    authority: str
    rest: str


class Target(NamedTuple):
    """A request's destination; `host` is lower-case ASCII without brackets and without a dot at its end."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def url(self) -> httpx.URL:
        """The URL to request."""
        return httpx.URL(f"{self.origin}{self.path}")

    @property
    def origin(self) -> str:
        """Scheme, host, and the port unless it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == PORTS[self.scheme] else f":{self.port}")


def split_url(url: str) -> Split:
    """Cut a URL; `Failed` unless it is an absolute URL of http or https without doubtful characters."""
    if len(url) > HTTP_URL_CHARS_MAX:
        raise _bad_url(f"it has more than {HTTP_URL_CHARS_MAX} characters")
    if _UNCLEAR.search(url):
        raise _bad_url("it holds spaces, control characters or backslashes: percent-encode them")
    found = _SPLIT.fullmatch(url)
    if found is None:
        raise _bad_url("it does not begin with http:// or https://")
    if "@" in found[2]:
        raise _bad_url("it holds credentials: use an Authorization header with a secret")
    if "$" in found[2] or "%" in found[2]:
        raise _bad_url("its host holds a template or percent-encoding")
    return Split(found[1].lower(), found[2], found[3])


def check_no_dot_segments(split: Split) -> None:
    """Raise `Failed` for `/../` in the path: a grant's pattern would be read before it is resolved."""
    if _DOTS.search(split.rest.partition("?")[0]):
        raise _bad_url("its path holds . or .. as a part: write the path it leads to")


def target_of(split: Split) -> Target:
    """Read a cut URL, whose rest may have been filled in meanwhile."""
    try:
        authority = httpx.URL(f"{split.scheme}://{split.authority}/")
        url = httpx.URL(f"{split.scheme}://{split.authority}{split.rest}")
    except (httpx.InvalidURL, UnicodeError):
        # The error's own text may quote a secret of the path.
        raise _bad_url("its host or port is not well formed") from None
    host = _checked_host(authority.raw_host.decode())
    port = PORTS[split.scheme] if authority.port is None else authority.port
    if not 0 < port <= 65_535:
        raise _bad_url("its port is none")
    return Target(split.scheme, host, port, url.raw_path.decode() or "/")


def check_grant(target: Target, method: str, grant: Mapping[str, Any] | None) -> None:
    """Raise `Failed` unless the grant allows the target and the method."""
    if grant is None:
        return
    hosts, methods = grant.get("hosts"), grant.get("methods")
    if hosts is not None and not any(_allows(pattern, target) for pattern in hosts):
        shown = target.host if target.port == PORTS[target.scheme] else f"{target.host}:{target.port}"
        raise Failed(
            "effects.http_host", f"the grant does not allow the host {shown}; add it there if it should"
        )
    if methods is not None and method not in _upper(methods):
        raise Failed("effects.http_method", f"the grant does not allow {method}; add it there if it should")


def is_literal(host: str) -> bool:
    """Whether the host is an address itself."""
    return ":" in host or host.replace(".", "").isdigit()


def _allows(pattern: str, target: Target) -> bool:
    """`host` means the scheme's own port, `host:8080` that port, `host:*` any; `*.host` what is below it."""
    name, port = _pattern_parts(pattern.lower())
    if port != "*" and target.port != (int(port) if port.isdigit() else PORTS[target.scheme]):
        return False
    if name.startswith("*."):
        name = f"*.{_plain(name[2:])}"
        return (
            target.host.endswith(name[1:])
            and len(target.host) > len(name) - 1
            and not is_literal(target.host)
        )
    return name == "*" or _plain(name) == target.host


def _pattern_parts(pattern: str) -> tuple[str, str]:
    if pattern.startswith("["):
        name, _, port = pattern[1:].partition("]")
        return name, port.removeprefix(":")
    if pattern.count(":") > 1:
        return pattern, ""
    name, _, port = pattern.partition(":")
    return name.removesuffix("."), port


def _plain(name: str) -> str:
    """A pattern's host as targets spell theirs: addresses shortest, names in ASCII."""
    try:
        return str(ip_address(name))
    except ValueError:
        pass
    if name.isascii():
        return name
    try:
        return httpx.URL(f"http://{name}/").raw_host.decode()
    except httpx.InvalidURL:
        return name


def _checked_host(host: str) -> str:
    host = host.lower()
    if ":" in host:
        try:
            return str(IPv6Address(host))
        except ValueError:
            raise _bad_url("its IPv6 address is not well formed") from None
    host = host.removesuffix(".")
    labels = host.split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise _bad_url("its IPv4 address is not four decimal numbers") from None
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _bad_url("its host is not well formed")
    return host


def _upper(methods: Iterable[str]) -> set[str]:
    return {method.upper() for method in methods}


def _bad_url(problem: str) -> Failed:
    return Failed("effects.http_url", f"the URL is not used: {problem}")
