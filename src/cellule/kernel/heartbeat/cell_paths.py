"""The path of a domain cell: `/cells/<namespace>/<name>/<key>`, without the last segment for the empty key.

Bytes of a key that may stand in a segment of a path do; others, and `%`, are `%` and two hex digits.
"""

from __future__ import annotations

import re
from typing import Final

from cellule.errors import Rejected
from cellule.kernel.heartbeat.paths import path_of, segments_of
from cellule.kernel.manifest.limits import KEY_BYTES_MAX

CELLS: Final = "cells"
_ESCAPE: Final = re.compile(rb"%([0-9A-F]{2})")
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~@:+=,;!$&'()* ")


def is_cell_path(path: str) -> bool:
    """Tell whether a path is under `/cells`."""
    return segments_of(path)[:1] == (CELLS,)


def cell_path(module: str, key: bytes) -> str:
    """The path of a cell.

    >>> cell_path("shop/order", b"o/1"), cell_path("shop/total", b"")
    ('/cells/shop/order/o%2F1', '/cells/shop/total')
    """
    return path_of((CELLS, *module.split("/"), *((_escaped(key),) if key else ())))


def cell_of(path: str) -> tuple[str, bytes]:
    """The module and the key that a path under `/cells` names; refused where it names none.

    >>> cell_of("/cells/shop/order/o%2F1")
    ('shop/order', b'o/1')
    """
    _, *parts = segments_of(path)
    if not 2 <= len(parts) <= 3:
        raise _wrong(path, "it is not /cells/<namespace>/<name>/<key>")
    given = parts[2].encode() if len(parts) == 3 else b""
    if b"%" in _ESCAPE.sub(b"", given):
        raise _wrong(path, "a % in a key is followed by two digits, as in %2F")
    key = _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), given)
    if len(key) > KEY_BYTES_MAX:
        raise _wrong(path, f"the key has {len(key)} bytes; at most {KEY_BYTES_MAX}")
    return f"{parts[0]}/{parts[1]}", key


def _escaped(key: bytes) -> str:
    """Text stays text, as far as a segment can hold it; of other bytes only what is plain does."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return "".join(chr(each) if each in _PLAIN else f"%{each:02X}" for each in key)
    return text.replace("%", "%25").replace("/", "%2F").replace("\0", "%00")


def _wrong(path: str, why: str) -> Rejected:
    return Rejected("heartbeat.cell_path", "{path} is the path of no cell: {why}", path=path, why=why)
