"""The params of a request as grants and rules see them, so that what is decided upon is what is sent.

Names of headers have no case outside, so they are seen in lower case, and two that differ by case alone are
refused: an adapter would send one of them, and a grant might have been asked about the other. The host of a
URL is read by `values.hosts`, as adapters read it.
"""

from __future__ import annotations

from typing import Any, Final

from cellule.values.cbor import decode_trusted
from cellule.values.hosts import BadHost, Host, host_of, split_url
from cellule.values.link import Link

_URLS: Final = ("url", "base_url")
_HEADERS: Final = "headers"


class Unclear(ValueError):
    """Params that others may read in another way than they would be decided by."""


def seen_params(params: bytes) -> Any:
    """What expressions and grants see of canonical params; raises `Unclear`."""
    found = plain(decode_trusted(params))
    if isinstance(found, dict) and isinstance(found.get(_HEADERS), dict):
        found[_HEADERS] = _lower_names(found[_HEADERS])
    return found


def plain(value: Any) -> Any:
    """A value as expressions and grants see it: a link is its text."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return str(value.cid) if isinstance(value, Link) else value


def _lower_names(headers: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in headers.items():
        if name.lower() in found:
            raise Unclear(f"the header {name.lower()} is given twice, in different cases: give it once")
        found[name.lower()] = value
    return found


def hosts_of(params: Any) -> list[Host]:
    """Where a request goes, as adapters read it: one host for each URL among its params; raises `BadHost`."""
    if not isinstance(params, dict):
        return []
    return [host_of(split_url(params[name])) for name in _URLS if isinstance(params.get(name), str)]


def shown_host(params: Any) -> str | None:
    """The host of the request as a rule sees it; None where there is none, or more than one reading."""
    try:
        hosts = {str(host) for host in hosts_of(params)}
    except BadHost:
        return None
    return hosts.pop() if len(hosts) == 1 else None
