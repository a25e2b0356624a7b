"""The stored-value envelope: how encoded bytes are kept inside a record, index entry, row or snapshot.

    [bytes]          a value without links
    [bytes, links]   a value with links: each once, sorted by their bytes, never empty

The links of the inner bytes stand in the outer node too, so collection and export walk links and know nothing
of formats. A value that can be erased is sealed before (`sealed_value.py`), and is then one like others.

Rejected: a map with named fields. Envelopes are what is stored most; names would be half of a small one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from cellule.errors import Rejected
from cellule.values.cbor import links_of
from cellule.values.cid import Cid
from cellule.values.link import Link, Value


@dataclass(frozen=True, slots=True)
class Envelope:
    """An opened envelope."""

    data: bytes
    links: tuple[Cid, ...] = ()


def seal(data: bytes) -> list[Value]:
    """Wrap canonical bytes; their links are found here."""
    found = links_of(data)
    return [data, _listed(found)] if found else [data]


def open_envelope(envelope: Value) -> Envelope:
    """Check the shape of a decoded envelope and return its parts; `check_envelope` also checks the links."""
    if not isinstance(envelope, list) or not 1 <= len(envelope) <= 2:
        raise Rejected(
            "values.envelope_shape",
            "an envelope is a list of 1 or 2 items, not {found}",
            found=_described(envelope),
        )
    data = envelope[0]
    if not isinstance(data, bytes):
        raise Rejected(
            "values.envelope_shape", "an envelope holds bytes, not {found}", found=_described(data)
        )
    if len(envelope) == 1:
        return Envelope(data)
    links = _read_links(envelope[1])
    if not links:
        raise Rejected(
            "values.envelope_links", "an envelope lists no links where it could leave the list out",
            hint="Without links it is [bytes].",
        )  # fmt: skip
    return Envelope(data, links)


def value_of(stored: Value) -> bytes | Link:
    """The bytes in an envelope; a value that is a block of its own stands as a link, and stays one."""
    if isinstance(stored, Link):
        return stored
    if isinstance(stored, list) and len(stored) == 1 and isinstance(stored[0], bytes):
        return stored[0]  # most are as plain as that, and a restore opens one for every record
    return open_envelope(stored).data


def check_envelope(envelope: Envelope) -> None:
    """Raise `Rejected` unless the links listed are those of the bytes."""
    found = tuple(sorted(set(links_of(envelope.data))))
    if found != envelope.links:
        raise Rejected(
            "values.envelope_links", "an envelope lists {listed} links where its bytes hold {found}{other}",
            listed=len(envelope.links), found=len(found),
            other="" if len(found) != len(envelope.links) else " others",
            hint="Make envelopes with seal().",
        )  # fmt: skip


def _listed(cids: Iterable[Cid]) -> list[Value]:
    return [Link(cid) for cid in sorted(set(cids))]


def _read_links(listed: Value) -> tuple[Cid, ...]:
    if not isinstance(listed, list):
        raise Rejected(
            "values.envelope_links",
            "an envelope lists links as a list, not {found}",
            found=_described(listed),
        )
    links = tuple(item.cid for item in listed if isinstance(item, Link))
    if len(links) != len(listed):
        raise Rejected("values.envelope_links", "an envelope lists something that is no link")
    if any(first >= second for first, second in pairwise(links)):
        raise Rejected("values.envelope_links", "an envelope lists links unsorted or twice")
    return links


def _described(value: object) -> str:
    """Name a value's kind and size without showing it: it may be private and it may be long."""
    return (
        f"{type(value).__name__} of {len(value)}"
        if isinstance(value, bytes | list | dict | str)
        else repr(value)
    )
