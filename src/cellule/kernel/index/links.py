"""Values in *linked form*: links as bare CID bytes, the way the fast codec reads and writes them.

The fast codec writes every byte string that parses as a CID as a link, and reads a link as a byte string.
So linked form is faithful only where no plain byte string is *mistaken* for a CID. Keys are often mistaken
(4 in 100 UUIDv7s are), so mistaken keys are repaired in the output; anything else mistaken makes the node
take the exact codec. Every shortcut here is proven on the bytes, never assumed.

Rejected: the exact codec for all nodes with links. It is 5 to 15 times slower, and most nodes have links.
Rejected: looking for byte strings that start with 01. In Python that walk costs more than the codec.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cellule.values.cbor import decode_linked, encode, encode_linked
from cellule.values.cid import Cid, cid_fault
from cellule.values.link import Link
from cellule.values.writer import BYTES, head

LINK_HEAD = b"\xd8\x2a\x58\x25\x00"  # what stands before the 36 bytes of a CID
TAG = b"\xd8\x2a"  # tag 42 as every link starts with it; also possible by chance inside byte strings


class Mistaken(Exception):
    """A plain byte string would be written as a link."""


def write_linked(value: Any, mistaken: Iterable[bytes] = ()) -> bytes:
    """Encode a value in linked form; each of the `mistaken` byte strings stands in it exactly once."""
    out = encode_linked(value)
    for plain in mistaken:
        wrong = TAG + head(BYTES, len(plain) + 1) + b"\0" + plain
        at = out.find(wrong)
        if out.find(wrong, at + 1) >= 0:
            raise Mistaken  # one of them is part of some other byte string, and which is not known
        out = out[:at] + head(BYTES, len(plain)) + plain + out[at + len(wrong) :]
    return out


def is_mistaken(data: bytes) -> bool:
    """Tell whether the fast codec would write these plain bytes as a link."""
    return data[:1] in (b"\x01", b"\x12") and encode_linked(data)[:2] == TAG


def to_linked(value: Any) -> Any:
    """A value in linked form; raises `Mistaken` where it has none, `Rejected` where it is no value."""
    data = encode(value)
    linked = decode_linked(data)
    if encode_linked(linked) != data:
        raise Mistaken
    return linked


def from_linked(value: Any) -> Any:
    """The value of a linked form that is known to be faithful; `Mistaken` where a link is no CID of ours."""
    kind = type(value)
    if kind is bytes:
        if not is_mistaken(value):
            return value
        if cid_fault(value):
            raise Mistaken
        return Link(Cid(value))
    if kind is list:
        return [from_linked(item) for item in value]
    if kind is dict:
        return {name: from_linked(item) for name, item in value.items()}
    return value
