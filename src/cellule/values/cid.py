"""Content identifiers: CIDv1, sha2-256, for DAG-CBOR nodes and raw blobs. Nothing else is a CID here.

    01          version 1
    71 | 55     codec: dag-cbor | raw
    12 20       multihash: sha2-256, 32 bytes
    <32 bytes>  digest

A `Cid` is these 36 bytes, so it hashes, compares and sorts as bytes and is a key as it stands. Its text is
multibase base32, lower case (`bafy...`, `bafk...`). The constructor trusts its caller; `parse` and `of_bytes`
check. What a CID names is fetched by the CAS, not here.

Rejected: CIDv0, other hashes, other bases. One identity, one spelling: equal things must compare equal.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, Literal, Self

import libipld

from cellule.errors import Corrupted, Rejected

Codec = Literal["dag-cbor", "raw"]

CID_BYTES: Final = 36
PREFIXES: Final[dict[Codec, bytes]] = {"dag-cbor": b"\x01\x71\x12\x20", "raw": b"\x01\x55\x12\x20"}
_CODECS: Final[dict[bytes, Codec]] = {prefix: codec for codec, prefix in PREFIXES.items()}
_TEXT_CHARS: Final = 59


class Cid(bytes):
    """A binary CID of 36 bytes. Inside a value it must be wrapped in `Link`."""

    __slots__ = ()

    @classmethod
    def of_bytes(cls, raw: bytes) -> Self:
        """Check `raw` and return it as a CID."""
        fault = cid_fault(raw)
        if fault:
            raise Rejected("values.cid_malformed", "{raw} is no CID: {fault}", raw=raw, fault=fault)
        return cls(raw)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form: `b` and 58 characters of base32 in lower case."""
        raw = _from_base32(text)
        fault = "it is not `b` and 58 characters of base32" if raw is None else cid_fault(raw)
        if raw is None or fault:
            raise Rejected(
                "values.cid_malformed", "{raw!r} is no CID: {fault}", raw=text, fault=fault,
                hint="A CID looks like bafyreigbtj4x7ip5legnfznufuopl4sg4knzc2cof6duas4b3q2fy6swua.",
            )  # fmt: skip
        return cls(raw)

    @property
    def codec(self) -> Codec:
        """What the named bytes are: a DAG-CBOR node or a raw blob."""
        return _CODECS[self[:4]]

    @property
    def digest(self) -> bytes:
        """The sha-256 of the named bytes."""
        return self[4:]

    def __str__(self) -> str:
        if cid_fault(self):
            return self.hex()
        text: str = libipld.encode_cid(bytes(self))
        return text

    def __repr__(self) -> str:
        return f"Cid({str(self)!r})"


def cid_of(data: bytes, codec: Codec = "dag-cbor") -> Cid:
    """Return the CID of `data`.

    >>> str(cid_of(b"\\xa0"))
    'bafyreigbtj4x7ip5legnfznufuopl4sg4knzc2cof6duas4b3q2fy6swua'
    """
    return Cid(PREFIXES[codec] + sha256(data).digest())


def check_cid(cid: Cid, data: bytes) -> None:
    """Raise `Corrupted` unless `cid` names `data`."""
    if sha256(data).digest() != cid[4:] or cid[:4] not in _CODECS:
        raise Corrupted(
            "values.cid_mismatch", "{size} bytes were read as {cid} but hash to {found}",
            cid=str(cid), size=len(data), found=sha256(data).hexdigest(),
        )  # fmt: skip


def cid_fault(raw: bytes) -> str:
    """Say what keeps `raw` from being a CID of ours; empty when nothing does."""
    if raw[:4] in _CODECS:
        return "" if len(raw) == CID_BYTES else f"it has {len(raw)} bytes, not {CID_BYTES}"
    if raw[:2] == b"\x12\x20":
        return "it is a CIDv0; only CIDv1 is used"
    if raw[:1] != b"\x01":
        return "it does not begin with version 1"
    if raw[1:2] not in (b"\x71", b"\x55"):
        return "its codec is neither dag-cbor (71) nor raw (55)"
    return "its hash is not sha2-256 of 32 bytes (12 20)"


def _from_base32(text: str) -> bytes | None:
    """Decode the one spelling of 36 bytes: lower case, no padding, unused bits zero."""
    if len(text) != _TEXT_CHARS or text[0] != "b":
        return None
    try:
        raw: bytes = libipld.decode_multibase(text)[1]
    except ValueError:
        return None
    return raw if libipld.encode_multibase("b", raw) == text else None
