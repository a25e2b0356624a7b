"""Canonical DAG-CBOR: the fast paths of encoding and decoding.

libipld does the work in one native call, and this module makes it exact. What libipld gets wrong for us:
it writes any byte string that parses as a CID as a link (3% of UUIDv7 do), reads links as plain bytes, writes
-0.0 as 0.0, reads over-long heads and 32-bit floats, and knows no depth but the interpreter's. Each is found
by a search of the bytes that costs a fraction of the call, and whatever is in doubt goes to `writer` or
`scanner`, which are slow, exact, and explain. Schemas and typed values do not live here.

Rejected: looking for links before encoding. The walk costs more than encoding, and libipld refuses a `Link`.
Rejected: a search for over-long heads instead of writing again. Chance hits are frequent, the search slower.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Final, cast

import cbor2
import libipld
import msgspec

from cellule.errors import Corrupted, InvariantBroken, Rejected
from cellule.values.cid import Cid, cid_fault
from cellule.values.limits import BYTES_MAX, DEPTH_MAX, RECURSION_LIMIT_SAFE
from cellule.values.link import Link, Value
from cellule.values.scanner import scan, scan_links
from cellule.values.writer import BYTES, head, write

_write = cast("Callable[[object], bytes]", libipld.encode_dag_cbor)
_read = cast("Callable[[bytes], Value]", libipld.decode_dag_cbor)
read_unchecked = _read
"""libipld itself: for verified bytes that hold no links and no byte strings; raises the driver's errors."""
write_unchecked = _write
"""libipld itself: for shallow values without links, byte strings and -0.0; raises the driver's errors."""
_recursion_limit = sys.getrecursionlimit
_msgpack = msgspec.msgpack.Encoder().encode
_DRIVER_ERRORS: Final = (ValueError, TypeError, OverflowError, RecursionError, cbor2.CBORError)

_LINK_MARK: Final = b"\xd8\x2a"
_LINK_TAG: Final = re.compile(rb"\xd8\x2a(?:[\x41-\x57]|\x58.|\x59..|\x5a....)\0", re.DOTALL)
"""A mark that can be a link: byte strings follow that begin with 0. Reading all is worth it only then."""
_LINK_BYTE: Final = 0xD8
_FLOAT_BYTE: Final = 0xFB
_ZERO: Final = b"\xfb" + bytes(8)
_MSGPACK_NEGATIVE_ZERO: Final = b"\xcb\x80" + bytes(7)
_CONTAINER_HEADS: Final = bytes([*range(0x80, 0x9C), *range(0xA0, 0xBC)])
_PLAIN: Final = frozenset((type(None), bool, int, float, str, bytes))
_LEAVES: Final = _PLAIN | {Cid, Link}
_SEQUENCES: Final = (list, tuple)


def encode(value: Value) -> bytes:
    """Return the canonical bytes of `value`; raise `Rejected` naming what has none, and where it stands.

    Subclasses of the value types are written as their base (an `IntEnum` is an integer), tuples as lists.
    A value is a tree: what is reached twice is written twice.
    """
    if _recursion_limit() > RECURSION_LIMIT_SAFE:
        return write(value)
    try:
        out = _write(value)
        if _LINK_BYTE in out and _LINK_MARK in out:
            out = _without_false_links(out, [])
    except _DRIVER_ERRORS:
        return _encode_rare(value)
    if _FLOAT_BYTE in out and out.find(_ZERO) >= 0 and _may_hold_negative_zero(value):
        return write(value)
    if len(out) > DEPTH_MAX and _may_exceed_limits(out, value):
        return write(value)
    return out


def encode_linked(value: object) -> bytes:
    """Encode a node of ours whose links are given as `Cid`, unchecked.

    The caller guarantees that no other byte string in it starts with `01` or `12 20`, and that it is shallow,
    holds no floats and no more than `BYTES_MAX` bytes.
    """
    try:
        return _write(value)
    except _DRIVER_ERRORS as error:
        raise InvariantBroken(
            "values.linked_node", "a node cannot be encoded: {cause}", cause=str(error)
        ) from error


def encode_flat(value: Value) -> bytes:
    """Encode a structure of ours that is known to be shallow, without floats and within `BYTES_MAX`.

    Its byte strings may be anything and its links are `Link`; only the proofs of depth, size and sign are
    left out, which cost more than the encoding where there are thousands of lists.
    """
    try:
        out = _write(value)
        if _LINK_MARK in out and _LINK_TAG.search(out) is not None:
            return _without_false_links(out, [])
    except _DRIVER_ERRORS:
        return _encode_rare(value)
    return out


def decode(data: bytes) -> Value:
    """Return the value of canonical bytes; raise `Rejected`, saying what and where, for any other."""
    try:
        wide = len(data) > DEPTH_MAX and _heads(data) > DEPTH_MAX
        if (wide and _recursion_limit() > RECURSION_LIMIT_SAFE) or len(data) > BYTES_MAX:
            return scan(data)
        value = plain = _read(data)
        if _LINK_BYTE in data and _LINK_MARK in data:
            value = _read_links(data)
        # The fast writer nearly always gives the same bytes; where it does not, the exact one decides.
        canonical = _write(plain) == data or encode(value) == data
        if canonical and not (wide and _is_too_deep(value)):
            return value
    except (*_DRIVER_ERRORS, Rejected):
        return scan(data)
    return scan(data)


def decode_trusted(data: bytes) -> Value:
    """Decode bytes whose CID or checksum was verified: they are ours, so canonicity is not proven again.

    Raises `Corrupted` where `decode` would raise `Rejected`: a verified value that cannot be read was
    damaged before it was stored.
    """
    try:
        value = _read(data)
        return _read_links(data) if _LINK_BYTE in data and _LINK_MARK in data else value
    except _DRIVER_ERRORS:
        return _scan_trusted(data)


def decode_linked(data: bytes) -> Value:
    """Decode a verified node of ours; links come back as plain bytes, told apart by where they stand."""
    try:
        return _read(data)
    except _DRIVER_ERRORS:
        return _scan_trusted(data)


def links_of(data: bytes) -> list[Cid]:
    """Return every link in canonical bytes, in document order; costs one search when there is none."""
    if _LINK_MARK not in data:
        return []
    if len(data) > BYTES_MAX or _recursion_limit() > RECURSION_LIMIT_SAFE:
        return scan_links(data)
    links: list[Cid] = []
    try:
        _read(data)
        cbor2.loads(data, tag_hook=lambda tag, _immutable: links.append(_link(tag).cid))
    except _DRIVER_ERRORS:
        return scan_links(data)
    return links


def _encode_rare(value: Value) -> bytes:
    """Encode what libipld refused or muddled: a value with links, tuples or CID-like bytes, or a bad one."""
    links: list[Cid] = []
    try:
        bare = _bare(value, links, DEPTH_MAX)
        out = _without_false_links(_write(bare), links)
    except _DRIVER_ERRORS:
        return write(value)
    if (_ZERO in out and _may_hold_negative_zero(bare)) or _may_exceed_limits(out, bare):
        return write(value)
    return out


def _bare(value: object, links: list[Cid], depth_left: int) -> object:
    """Copy `value` with every link as its CID's bytes and every tuple as a list, collecting the links."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is Link:
        cid = cast("Link", value).cid
        if cid_fault(cid):
            raise ValueError(cid)
        links.append(cid)
        return bytes(cid)
    if depth_left == 0 or kind is Cid:
        raise ValueError(kind)
    left = depth_left - 1
    if isinstance(value, dict):
        entries = dict.items(value)
        return {key: item if type(item) in _PLAIN else _bare(item, links, left) for key, item in entries}
    if isinstance(value, _SEQUENCES):
        items = list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)
        return [item if type(item) in _PLAIN else _bare(item, links, left) for item in items]
    return value


def _without_false_links(out: bytes, links: list[Cid]) -> bytes:
    """Turn byte strings that libipld took for CIDs back into byte strings, or raise `ValueError` if in doubt.

    Each link given is one tag, so as many tags as links leave no false one. Otherwise, if every mark is a
    tag, a false tag's bytes occur nowhere but at the tag and can be replaced. In doubt are a false tag that
    holds a CID of ours (it may be a bare `Cid`) and one whose bytes also stand as a link.
    """
    marks = out.count(_LINK_MARK)
    if marks == len(links):
        return out
    tags: list[bytes] = []
    cbor2.loads(out, tag_hook=lambda tag, _immutable: tags.append(tag.value))
    if len(tags) == len(links):
        return out
    given = set(links)
    false = {raw for raw in tags if raw[1:] not in given}
    certain = marks == len(tags) and len(links) == sum(raw[1:] in given for raw in tags)
    if not certain or not all(cid_fault(raw[1:]) for raw in false):
        raise ValueError(false)
    for raw in false:
        out = out.replace(_LINK_MARK + head(BYTES, len(raw)) + raw, head(BYTES, len(raw) - 1) + raw[1:])
    return out


def _read_links(data: bytes) -> Value:
    """Read well-formed bytes with cbor2, which tells links from bytes."""
    value: Value = cbor2.loads(data, tag_hook=lambda tag, _immutable: _link(tag))
    return value


def _link(tag: cbor2.CBORTag) -> Link:
    raw: bytes = tag.value
    if cid_fault(raw[1:]):
        raise ValueError(raw)
    return Link(Cid(raw[1:]))


def _scan_trusted(data: bytes) -> Value:
    try:
        return scan(data)
    except Rejected as error:
        raise Corrupted(error.code, error.template, hint=error.hint, **error.fields) from error


def _may_exceed_limits(out: bytes, value: object) -> bool:
    """Tell whether `value`, encoded as `out`, is too long or may be too deep."""
    if _heads(out) > DEPTH_MAX and _is_too_deep(value):
        return True
    return len(out) > BYTES_MAX


def _may_hold_negative_zero(value: object) -> bool:
    """Tell whether -0.0 may be in `value`: msgspec keeps its sign and is as fast as libipld."""
    try:
        return _MSGPACK_NEGATIVE_ZERO in _msgpack(value)
    except (*_DRIVER_ERRORS, msgspec.MsgspecError):
        return True


def _heads(data: bytes) -> int:
    """Count the bytes that may begin a list or map: no value is deeper than that."""
    return len(data) - len(data.translate(None, _CONTAINER_HEADS))


def _is_too_deep(value: object) -> bool:
    """Tell whether `value` may nest more than `DEPTH_MAX` levels."""
    level: list[object] = [value]
    for _ in range(DEPTH_MAX):
        below: list[object] = []
        for item in level:
            if type(item) is list:
                below += item
            elif isinstance(item, dict):
                below += dict.values(item)
            elif isinstance(item, list):
                below += list.__iter__(item)
        level = [item for item in below if type(item) not in _LEAVES]
        if not level:
            return False
    return True
