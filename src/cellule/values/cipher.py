"""The cipher of sealed values: AES-256-GCM-SIV (RFC 8452).

The bytes depend on nothing but the arguments. The cipher is one that forgives a nonce used twice: then it
shows whether the two values are equal, and nothing else. A value under several keys is encrypted with one
that all of them together give, so each of them is enough to make it unreadable.

Rejected: AES-GCM and ChaCha20-Poly1305. A beat that was never made durable may be done again at its height
with other values, after its blocks have reached the object store: a nonce used twice would give them away.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

KEY_BYTES: Final = 32
_LABEL: Final = b"cellule erasure 1"


def seal_bytes(keys: Sequence[bytes], nonce: bytes, data: bytes, bound: bytes) -> bytes:
    """Encrypt under all these keys; `bound` is not hidden, and cannot be exchanged."""
    sealed: bytes = _cipher(keys).encrypt(nonce, data, bound)
    return sealed


def open_bytes(keys: Sequence[bytes], nonce: bytes, ciphertext: bytes, bound: bytes) -> bytes | None:
    """What was encrypted; None where it was not under these keys, or is damaged."""
    from cryptography.exceptions import InvalidTag

    try:
        opened: bytes = _cipher(keys).decrypt(nonce, ciphertext, bound)
    except InvalidTag:
        return None
    return opened


def nonce_for(keys: Sequence[bytes], place: bytes, data: bytes | None = None) -> bytes:
    """The nonce of a value at a place; with `data`, equal values there get the same."""
    key = b"" if data is None else _joint(keys)
    return hmac.digest(key, place if data is None else sha256(place).digest() + data, "sha256")[:12]


def mark_of(key: bytes) -> bytes:
    """By what a key is told from others; it says nothing about the key."""
    return hmac.digest(key, b"cellule mark 1", "sha256")[:8]


def _cipher(keys: Sequence[bytes]) -> Any:
    # Loaded here: most worlds seal nothing, and it takes longer to load than all of the kernel.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

    return AESGCMSIV(_joint(keys))


def _joint(keys: Sequence[bytes]) -> bytes:
    return hmac.digest(b"".join(keys), _LABEL, "sha256")
