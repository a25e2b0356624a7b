"""Sealed values: what a value looks like once it can be erased.

    {"$sealed": [keys, nonce, ciphertext]}            or, where the value it hides has links
    {"$sealed": [keys, nonce, ciphertext, links]}

`keys` are the references of the keys that it takes to read it, one after the other, all of them. A sealed
value is a canonical value itself: it stands wherever the value would, inline or as a block of its own, and
what walks links finds those of the value it hides. A text that is sealed stays a text: `$sealed:` and the
same in base64. Encryption is in `cipher.py`; where keys are kept, is the store's business.

Rejected: a third part of the envelope. A long value is a block without an envelope, and would need another
form there.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Final, NamedTuple

from cellule.errors import Rejected
from cellule.values.cbor import decode, encode, links_of
from cellule.values.cid import Cid
from cellule.values.link import Link, Value

FIELD: Final = "$sealed"
HEAD: Final = encode({FIELD: 0})[:-1]
TEXT_HEAD: Final = f"{FIELD}:"
KEY_ID_BYTES: Final = 32
MARK_BYTES: Final = 8
REFERENCE_BYTES: Final = KEY_ID_BYTES + MARK_BYTES
NONCE_BYTES: Final = 12


class KeyReference(NamedTuple):
    """A key: the id of its row, and a mark by which it is told from others that this row had or will have."""

    id: bytes
    mark: bytes

    def __bytes__(self) -> bytes:
        return self.id + self.mark


class Sealed(NamedTuple):
    """The parts of a sealed value."""

    keys: tuple[KeyReference, ...]
    nonce: bytes
    ciphertext: bytes
    links: tuple[Cid, ...]

    @property
    def key_ids(self) -> tuple[bytes, ...]:
        """The ids of the keys that it takes to read it."""
        return tuple(each.id for each in self.keys)

    @property
    def bound(self) -> bytes:
        """What the ciphertext is bound to: it cannot be read beside other keys or links."""
        return encode([b"".join(map(bytes, self.keys)), [Link(cid) for cid in self.links]])


def is_sealed(data: bytes) -> bool:
    """Tell whether canonical bytes are those of a sealed value."""
    return data.startswith(HEAD) and parts_of(data) is not None


def parts_of(data: bytes) -> Sealed | None:
    """The parts of a sealed value; None of any other."""
    if not data.startswith(HEAD):
        return None
    try:
        return unwrap(data)
    except Rejected:
        return None


def wrap(sealed: Sealed) -> bytes:
    """The canonical bytes of a sealed value."""
    parts: list[Value] = [b"".join(map(bytes, sealed.keys)), sealed.nonce, sealed.ciphertext]
    if sealed.links:
        parts.append([Link(cid) for cid in sealed.links])
    return encode({FIELD: parts})


def unwrap(data: bytes) -> Sealed:
    """The parts of a sealed value; `Rejected` where it is none."""
    value: Any = decode(data)
    parts = value.get(FIELD) if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(parts, list) or not 3 <= len(parts) <= 4:
        raise _not_sealed("it is a list of 3 or 4 parts")
    keys, nonce, ciphertext, *rest = parts
    if not (isinstance(keys, bytes) and keys and len(keys) % REFERENCE_BYTES == 0):
        raise _not_sealed(f"its keys are references of {REFERENCE_BYTES} bytes")
    if not (isinstance(nonce, bytes) and len(nonce) == NONCE_BYTES and isinstance(ciphertext, bytes)):
        raise _not_sealed(f"it has a nonce of {NONCE_BYTES} bytes, and ciphertext")
    links = rest[0] if rest else []
    if rest and not (isinstance(links, list) and links and all(isinstance(each, Link) for each in links)):
        raise _not_sealed("its links are a list of links")
    return Sealed(references(keys), nonce, ciphertext, tuple(link.cid for link in links))


def references(joined: bytes) -> tuple[KeyReference, ...]:
    """The references that stand one after the other in these bytes."""
    found = []
    for at in range(0, len(joined), REFERENCE_BYTES):
        end = at + KEY_ID_BYTES
        found.append(KeyReference(joined[at:end], joined[end : end + MARK_BYTES]))
    return tuple(found)


def key_ids_within(data: bytes) -> set[bytes]:
    """The ids of the keys that sealed values name which stand in these bytes, at any depth."""
    found: set[bytes] = set()
    at = data.find(HEAD)
    while at >= 0:
        start = at + len(HEAD) + 2  # behind the heads of the list, and of the keys
        width = {0x58: 1, 0x59: 2}.get(data[start - 1] if start <= len(data) else 0, 0)
        size = int.from_bytes(data[start : start + width], "big")
        keys = data[start + width : start + width + size]
        if size and len(keys) == size and size % REFERENCE_BYTES == 0:
            found.update(each.id for each in references(keys))
        at = data.find(HEAD, at + 1)
    return found


def links_within(data: bytes) -> tuple[Cid, ...]:
    """The links of a value that is to be sealed, each once, in the order of their bytes."""
    return tuple(sorted(set(links_of(data))))


def is_sealed_text(text: str) -> bool:
    """Tell whether a text is one that was sealed."""
    if not text.startswith(TEXT_HEAD):
        return False
    try:
        return is_sealed(sealed_of(text))
    except Rejected:
        return False


def text_of(sealed: bytes) -> str:
    """A sealed value as it stands in the place of a text."""
    return TEXT_HEAD + urlsafe_b64encode(sealed).decode()


def sealed_of(text: str) -> bytes:
    """The sealed value that stands in the place of a text; `Rejected` where it is none."""
    try:
        return urlsafe_b64decode(text[len(TEXT_HEAD) :])
    except ValueError as error:
        raise _not_sealed("its text is not base64") from error


class Erased:
    """What stands in the place of a value that nobody can read any more; there is one: `ERASED`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<erased>"

    def __bool__(self) -> bool:
        return False


ERASED: Final[Any] = Erased()  # it stands where a value of any type would, and compares with all of them


def _not_sealed(why: str) -> Rejected:
    return Rejected("values.sealed", "this is not a sealed value: {why}", why=why)
