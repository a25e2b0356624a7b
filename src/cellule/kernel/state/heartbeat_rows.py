"""The rows of the heartbeat's indexes, and their keys: what each holds, proven when it is read.

Nobody else knows how a row or a key is put together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

from cellule.errors import Corrupted, Rejected
from cellule.kernel.heartbeat.entries import Entry, parse_entry
from cellule.kernel.heartbeat.impulses import is_notice
from cellule.kernel.heartbeat.paths import path_of, tree_key
from cellule.kernel.index.keys import pair_of
from cellule.kernel.state.snapshot_schema import is_count, is_held
from cellule.values.cbor import encode
from cellule.values.cid import cid_of
from cellule.values.link import Link

TREE: Final = "sys/Tree"
NUMBER_BYTES: Final = 8
RETRY: Final = "retry"
CONTINUATION: Final = "continuation"
WARNING: Final = "warning"
END: Final = b"\0"
LITERAL: Final = b"\0"
OTHER: Final = b"\1"
PRESENT: Final = 0
_KINDS: Final = ("", RETRY, CONTINUATION, WARNING)


class Impulse(NamedTuple):
    """An impulse that is queued, under its beat and the height of its Signal record.

    `payload` is a held value. `retries` counts, for entries that had it, how often they sent it again.
    """

    signal: str | None
    target: str | None
    payload: Any
    kind: str
    depth: int
    retries: Sequence[Sequence[int]]


def passes_pause(impulse: Impulse) -> bool:
    """Tell whether an impulse runs although the heartbeat is paused."""
    return impulse.kind in (CONTINUATION, WARNING) or is_notice(impulse.signal)


def is_promoted(kind: str) -> bool:
    """Tell whether an impulse of this kind counts in the stage note."""
    return kind in ("", RETRY)


def is_logged(kind: str) -> bool:
    """Tell whether an impulse of this kind stands in the log of its beat."""
    return not kind


def payload_digest(payload: Any) -> bytes:
    """By this held payloads are the same; empty for none."""
    if payload is None:
        return b""
    return payload.cid.digest if isinstance(payload, Link) else cid_of(payload[0]).digest


def impulse_check(signal: str | None, target: str | None, payload: bytes | None) -> int:
    """By this two impulses with one id are told apart; `payload` is its digest."""
    return crc32(encode([signal, target, payload or b""]))


def unpack_entry(value: Any) -> Entry:
    """The entry of a stored row; its number is that of its key."""
    try:
        return parse_entry(0, value)
    except Rejected as error:
        raise _damaged("heartbeat.registry", value) from error


def pack_entry(entry: Entry) -> dict[str, Any]:
    """An entry as the index stores it."""
    return entry.as_data()


def unpack_impulse(value: Any) -> Impulse:
    """The impulse of a stored row."""
    if not isinstance(value, list) or len(value) != len(Impulse._fields):
        raise _damaged("heartbeat.impulses", value)
    signal, target, payload, kind, depth, retries = value
    paths = [each for each in (signal, target) if each is not None]
    fits = (
        bool(paths) and all(type(each) is str and each.startswith("/") for each in paths)
        and (payload is None or is_held(payload)) and kind in _KINDS and is_count(depth)
        and isinstance(retries, list)
        and all(isinstance(each, list) and len(each) == 2 and all(map(is_count, each)) for each in retries)
    )  # fmt: skip
    if not fits:
        raise _damaged("heartbeat.impulses", value)
    return Impulse(signal, target, payload, kind, depth, retries)


def place_of(key: bytes) -> tuple[int, int]:
    """The beat and the height of an impulse."""
    return pair_of(key)


def _unpack_present(value: Any) -> int:
    if value != PRESENT or type(value) is not int:
        raise _damaged("heartbeat.by_name", value)
    return PRESENT


def _unpack_how(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= 2:
        raise _damaged("heartbeat.bindings", value)
    return value


def _unpack_counts(value: Any) -> list[int]:
    if not isinstance(value, list) or len(value) != 2 or not all(map(is_count, value)):
        raise _damaged("heartbeat.counts", value)
    return value


def _damaged(what: str, value: Any) -> Corrupted:
    return Corrupted(
        "kernel.heartbeat_damaged", "a stored row of {what} is not what it should be: {found}",
        what=what, found=repr(value)[:200],
    )  # fmt: skip


def number_key(number: int) -> bytes:
    """The key of an entry."""
    return number.to_bytes(NUMBER_BYTES, "big")


def head_key(entry: Entry, number: int) -> bytes:
    """The key of an entry in the index by heads."""
    query = entry.query
    is_literal = query.policy == "exact" and len(query.head) == len(query.segments) > 0
    kind = LITERAL if is_literal else OTHER
    return tree_key(path_of(query.head)) + END + kind + number_key(number)


def name_key(name: str, number: int) -> bytes:
    """The key of an entry in the index by names."""
    return name.encode() + END + number_key(number)


def binding_key(node: bytes, name: str) -> bytes:
    """The key of a binding at a node."""
    return node + END + name.encode()


def name_of_binding(key: bytes) -> str:
    """The name that a binding's key holds."""
    return key[key.rindex(END) + 1 :].decode()


UNPACKS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "bindings": _unpack_how, "by_head": _unpack_present, "by_name": _unpack_present,
    "counts": _unpack_counts, "impulses": unpack_impulse, "registry": unpack_entry,
}  # fmt: skip
