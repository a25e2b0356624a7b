"""Canonical bytes, CIDs, names, schemas.

`encode` and `decode` turn values into canonical DAG-CBOR and back; `cid_of` names bytes; `Link` is a CID
inside a value; `seal` and `open_envelope` keep bytes inside other values; `Name` names code and schemas.
Typed values live in `cellule.values.schema`, the form for people in `cellule.values.json_view`.
"""

from __future__ import annotations

from cellule.values.cbor import decode, decode_linked, decode_trusted, encode, encode_linked, links_of
from cellule.values.cid import Cid, Codec, check_cid, cid_of
from cellule.values.envelope import Envelope, check_envelope, open_envelope, seal
from cellule.values.limits import BYTES_MAX, DEPTH_MAX, INT_MAX, INT_MIN
from cellule.values.link import Link, Value
from cellule.values.names import ModuleName, Name, check_not_reserved

__all__ = [
    "BYTES_MAX",
    "DEPTH_MAX",
    "INT_MAX",
    "INT_MIN",
    "Cid",
    "Codec",
    "Envelope",
    "Link",
    "ModuleName",
    "Name",
    "Value",
    "check_cid",
    "check_envelope",
    "check_not_reserved",
    "cid_of",
    "decode",
    "decode_linked",
    "decode_trusted",
    "encode",
    "encode_linked",
    "links_of",
    "open_envelope",
    "seal",
]
