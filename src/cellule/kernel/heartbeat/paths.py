"""Paths of the world tree: `/seg/seg/...`, where `/` is the empty path.

A name without a leading slash means that path: `op/cont` is `/op/cont`. Segments are UTF-8, not empty, have
no `/`, and order as byte strings. A path in code is its text with the leading slash; `segments_of` takes it
apart, `path_of` puts it together, and both refuse what is no path.

    key    segment 00 segment 00 ...                 a 00 inside a segment is 00 ff
    key    its first bytes, ff, sha-256 of it all    where that is longer than a cell's key may be

Keys order like paths do, segment by segment, and the key of a path is the prefix of all keys below it. A
long key keeps only what it shows of both: the node behind it says its whole path itself.

Rejected: the text as key. `/a/b` would stand behind `/a-x`, apart from `/a` and what else is below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from cellule.errors import Rejected
from cellule.kernel.limits import PATH_BYTES_MAX, PATH_SEGMENTS_MAX
from cellule.kernel.manifest.limits import KEY_BYTES_MAX

ROOT: Final = "/"
_END: Final = b"\0"
_ESCAPED: Final = b"\0\xff"
_LONG: Final = b"\xff"  # no byte of UTF-8; after a 00 it would be an escape
_HEAD_BYTES: Final = KEY_BYTES_MAX - len(_LONG) - sha256().digest_size
_SHOWN_MAX: Final = 200


def parse_path(text: object, what: str = "path") -> str:
    """The path that a text means, with its leading slash; refused where it means none.

    >>> parse_path("op/cont"), parse_path("/")
    ('/op/cont', '/')
    """
    if not isinstance(text, str):
        raise _wrong(what, text, "it is no text")
    text = str.__str__(text)  # a subclass could do anything, later
    if not text:
        raise _wrong(what, text, "it is empty; the empty path is `/`")
    if text == ROOT:
        return ROOT
    path = text if text[0] == "/" else f"/{text}"
    try:
        size = len(path.encode())
    except UnicodeEncodeError as error:
        raise _wrong(what, text, "it is no UTF-8") from error
    if size > PATH_BYTES_MAX:
        raise _wrong(what, text, f"it has {size} bytes; at most {PATH_BYTES_MAX}")
    segments = path.split("/")
    if len(segments) - 1 > PATH_SEGMENTS_MAX:
        raise _wrong(what, text, f"it has {len(segments) - 1} segments; at most {PATH_SEGMENTS_MAX}")
    if "" in segments[1:]:
        raise _wrong(what, text, "a segment is empty")
    return path


def segments_of(path: str) -> tuple[str, ...]:
    """The segments of a path.

    >>> segments_of("/env/fs"), segments_of("/")
    (('env', 'fs'), ())
    """
    return () if path == ROOT else tuple(path[1:].split("/"))


def path_of(segments: Sequence[str]) -> str:
    """The path of segments."""
    return "/" + "/".join(segments)


def child_of(path: str, name: str) -> str:
    """The path one segment down.

    >>> child_of("/", "env"), child_of("/env", "fs")
    ('/env', '/env/fs')
    """
    return f"{path if path != ROOT else ''}/{name}"


def ancestors_of(path: str) -> list[str]:
    """The paths strictly above a path, the root first.

    >>> ancestors_of("/a/b")
    ['/', '/a']
    """
    segments = segments_of(path)
    return [path_of(segments[:count]) for count in range(len(segments))]


def is_below(path: str, above: str) -> bool:
    """Tell whether a path is that one, or below it.

    >>> is_below("/a/b", "/a"), is_below("/ab", "/a"), is_below("/a", "/a")
    (True, False, True)
    """
    return above == ROOT or path == above or path.startswith(f"{above}/")


def tree_key(path: str) -> bytes:
    """The key of a path's cell."""
    full = _full_key(path)
    if len(full) <= KEY_BYTES_MAX:
        return full
    return full[:_HEAD_BYTES] + _LONG + sha256(full).digest()


def tree_prefix(path: str) -> bytes:
    """What the keys of a path and of all below it begin with; of a long path also keys of others do."""
    full = _full_key(path)
    return full if len(full) <= _HEAD_BYTES else full[:_HEAD_BYTES]


def is_long(path: str) -> bool:
    """Tell whether a path has a long key, which does not tell the path."""
    return len(_full_key(path)) > KEY_BYTES_MAX


def path_of_key(key: bytes) -> str | None:
    """The path that a key tells; None of a long key, or of bytes that are no key.

    >>> path_of_key(tree_key("/a/b"))
    '/a/b'
    """
    parts = key.replace(_ESCAPED, _LONG).split(_END)  # no byte of UTF-8 stands for the escaped ones
    try:
        names = [part.replace(_LONG, _END).decode() for part in parts[:-1]]
        path = parse_path(path_of(names))
    except (UnicodeDecodeError, Rejected):
        return None
    return path if _full_key(path) == key else None


def _full_key(path: str) -> bytes:
    parts = (segment.encode().replace(_END, _ESCAPED) + _END for segment in segments_of(path))
    return b"".join(parts)


def _wrong(what: str, text: object, why: str) -> Rejected:
    shown = repr(text) if type(text) is str else f"a {type(text).__name__}"
    return Rejected(
        "heartbeat.path", "{field} {path} is no path: {why}",
        field=what, path=shown if len(shown) <= _SHOWN_MAX else shown[:_SHOWN_MAX] + "...", why=why,
        hint="A path is `/seg/seg/...`, with segments that are not empty.",
    )  # fmt: skip
