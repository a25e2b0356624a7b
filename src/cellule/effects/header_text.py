"""An idempotency key as a header's value: headers hold printable ASCII only, a key is any text.

A key that is printable ASCII stands as it is; any other is `utf-8''` and its percent-encoded UTF-8, the form
that RFC 8187 gives to such texts. The same key gives the same header for every attempt.
"""

from __future__ import annotations

from urllib.parse import quote


def header_key(key: str) -> str:
    """The key as a header carries it."""
    if key.isascii() and key.isprintable() and key == key.strip():
        return key
    return f"utf-8''{quote(key, safe='')}"
