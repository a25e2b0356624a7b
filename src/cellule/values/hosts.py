"""Hosts: where a URL leads, and the patterns by which a grant names hosts. There is one reading of both.

The host that a grant is decided by is the host that is resolved, sent and verified, so what other programs
read in other ways is refused, not guessed at: control characters, backslashes, credentials before the host,
numbers that stand for an address, names that two editions of IDNA spell differently.

Rejected: `urllib.parse` for deciding and the HTTP client for sending. They disagree on such spellings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

PORTS: Final = {"http": 80, "https": 443}
"""The usual port of a scheme."""

_URL: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://([^/?#]*)([^#]*)(?:#.*)?", re.ASCII | re.DOTALL)
_PLACE: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?", re.ASCII)
_PATTERN: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([1-9][0-9]{0,4}|\*))?", re.ASCII)
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMERIC: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_UNCLEAR: Final = re.compile(r"[\x00-\x20\x7f\\]")
_DOTS: Final = re.compile("[\u3002\uff0e\uff61]")
_NAME_MAX: Final = 253
_PORT_MAX: Final = 65_535


class BadHost(ValueError):
    """A text that is no URL, no host or no pattern; its text says why."""


class Url(NamedTuple):
    """A URL cut behind its host, without fragment: nothing in `rest` can change where the request goes."""

    scheme: str
    authority: str
    rest: str


class Host(NamedTuple):
    """Where a URL leads: `name` is lower-case ASCII without brackets and without a dot at its end.

    `port` is what the URL says, else `usual`, the scheme's own; both are None for schemes that are not HTTP.
    """

    name: str
    port: int | None
    usual: int | None

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port == self.usual else f"{name}:{self.port}"


class HostPattern(NamedTuple):
    """`name` means the usual port, `name:8443` that one, `name:*` any; `*.name` what is below, `*` all."""

    name: str
    port: int | str | None = None

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"

    def fits(self, host: Host) -> bool:
        """Tell whether the pattern names this host."""
        if self.port != "*" and host.port != (self.port or host.usual):
            return False
        if self.name.startswith("*."):
            return host.name.endswith(self.name[1:]) and not is_address(host.name)
        return self.name in ("*", host.name)


def is_address(name: str) -> bool:
    """Whether a host's name is an address itself."""
    return ":" in name or name.replace(".", "").isdigit()


def split_url(url: str) -> Url:
    """Cut an absolute URL; raises `BadHost`."""
    if _UNCLEAR.search(url):
        raise BadHost("it holds spaces, control characters or backslashes: percent-encode them")
    found = _URL.fullmatch(url)
    if found is None:
        raise BadHost("it does not begin with a scheme, such as https://")
    return Url(found[1].lower(), found[2], found[3])


def host_of(url: Url) -> Host:
    """Where a URL leads; raises `BadHost`."""
    before, _, place = url.authority.rpartition("@")
    if url.scheme in PORTS and "@" in url.authority:
        raise BadHost("it holds credentials: use an Authorization header with a secret")
    if "@" in before:
        raise BadHost("it holds more than one @, which is not read alike everywhere")
    found = _PLACE.fullmatch(place)
    if found is None:
        raise BadHost("its host or port is not well formed")
    usual = PORTS.get(url.scheme)
    port = int(found[2]) if found[2] else usual
    if port is not None and not 0 < port <= _PORT_MAX:
        raise BadHost("its port is none")
    return Host(_name(found[1]), port, usual)


@lru_cache(maxsize=1_024)
def host_pattern(text: str) -> HostPattern:
    """Read a pattern; its text is the normal form. Raises `BadHost`."""
    found = _PATTERN.fullmatch(f"[{text}]" if text.count(":") > 1 and "]" not in text else text)
    if found is None:
        raise BadHost("a pattern is a host, with or without a port")
    port = int(found[2]) if found[2] and found[2] != "*" else found[2]
    if isinstance(port, int) and port > _PORT_MAX:
        raise BadHost("there is no such port")
    if found[1] == "*":
        return HostPattern("*", port)
    if found[1].startswith("*."):
        return HostPattern(f"*.{_name(found[1][2:])}", port)
    return HostPattern(_name(found[1]), port)


def host_fits(host: Host | None, patterns: Iterable[str]) -> bool:
    """Tell whether one of the patterns names this host; what is no pattern names none."""
    if host is None:
        return False
    for pattern in patterns:
        try:
            if host_pattern(pattern).fits(host):
                return True
        except BadHost:
            continue
    return False


def _name(text: str) -> str:
    """The one spelling of a host's name or address."""
    if text.startswith("["):
        try:
            return str(IPv6Address(text[1:-1]))
        except ValueError:
            raise BadHost("its IPv6 address is not well formed") from None
    name = _ascii(text).removesuffix(".")
    labels = name.split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise BadHost("its IPv4 address is not four decimal numbers") from None
    if len(name) > _NAME_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadHost("its host is not well formed")
    return name


def _ascii(text: str) -> str:
    name = _DOTS.sub(".", text).lower()
    if name.isascii():
        return name
    try:
        encoded = name.encode("idna")
        if encoded.decode("idna") == name:
            return encoded.decode()
    except UnicodeError:
        pass
    raise BadHost("its host is not read alike everywhere: write it in ASCII (xn--...)")
