"""The bytes of a vault file: header, nonce, and what only the key can read.

    0   8   "CELVAULT"
    8   1   version, 1
    9   1   key: 1 passphrase (scrypt), 2 key file (HKDF-SHA256)
    10  3   scrypt: log2 of the cost, block size, lanes; 0 0 0 for a key file
    13  16  salt
    29  16  check: tells a wrong key from a damaged file
    45  12  nonce, new for every write
    57      AES-256-GCM of the contents, with bytes 0 to 56 as associated data; its tag is the last 16 bytes

Contents: canonical DAG-CBOR `{name: [value, changed_ns]}`. `docs/formats/vault.md` has the reasons.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cellule.effects.secrets.vault_key import (
    BLOCK,
    COST_LOG2_MAX,
    COST_LOG2_MIN,
    KEY_FILE,
    LANES,
    PASSPHRASE,
    Cost,
    VaultKey,
)
from cellule.errors import CelluleError, Corrupted, Rejected
from cellule.sources import Entropy
from cellule.values import decode, encode

MAGIC: Final = b"CELVAULT"
VERSION: Final = 1
SALT_BYTES, CHECK_BYTES, NONCE_BYTES, TAG_BYTES = 16, 16, 12, 16
_SALT = 13
_CHECK = _SALT + SALT_BYTES
_NONCE = _CHECK + CHECK_BYTES
HEADER_BYTES: Final = _NONCE + NONCE_BYTES


class Kept(NamedTuple):
    """One secret of a vault, and when it was last changed."""

    value: str
    changed_ns: int

    def __repr__(self) -> str:
        return f"Kept(changed_ns={self.changed_ns})"


class Sealing(NamedTuple):
    """What seals a vault's contents: everything of the header that lasts, and the derived key."""

    head: bytes
    key: bytes

    def __repr__(self) -> str:
        return "<sealing>"


def new_sealing(key: VaultKey, entropy: Entropy) -> Sealing:
    """Choose a salt and derive the key of a new vault."""
    salt, cost = entropy.bytes(SALT_BYTES), key.cost
    cipher, check = key.derive(salt, cost)
    return Sealing(MAGIC + bytes([VERSION, key.kind, *cost]) + salt + _shortened(check), cipher)


def seal(sealing: Sealing, contents: dict[str, Kept], entropy: Entropy) -> bytes:
    """Encrypt the contents under a new nonce."""
    nonce = entropy.bytes(NONCE_BYTES)
    header = sealing.head + nonce
    plain = encode({name: [kept.value, kept.changed_ns] for name, kept in contents.items()})
    return header + AESGCM(sealing.key).encrypt(nonce, plain, header)


def unseal(path: Path, raw: bytes, key: VaultKey) -> tuple[Sealing, dict[str, Kept]]:
    """Check the header, derive the key and decrypt; errors never quote contents."""
    cost = _checked_header(path, raw, key)
    cipher, check = key.derive(raw[_SALT:_CHECK], cost)
    if not compare_digest(_shortened(check), raw[_CHECK:_NONCE]):
        raise Rejected(
            "effects.vault_key", "the {kind} does not open the vault {path}",
            kind=_KINDS[key.kind], path=path, hint="Use the one it was made with.",
        )  # fmt: skip
    try:
        plain = AESGCM(cipher).decrypt(raw[_NONCE:HEADER_BYTES], raw[HEADER_BYTES:], raw[:HEADER_BYTES])
    except InvalidTag:
        raise _damaged(path, "its contents do not fit their seal") from None
    return Sealing(raw[:_NONCE], cipher), _contents(path, plain)


def _checked_header(path: Path, raw: bytes, key: VaultKey) -> Cost:
    if raw[: len(MAGIC)] != MAGIC:
        raise Rejected(
            "effects.vault_format", "{path} is no vault", path=path, hint="Name a vault, or create one."
        )
    if len(raw) < HEADER_BYTES + TAG_BYTES:
        raise _damaged(path, "it ends within its header")
    version, kind, cost = raw[8], raw[9], Cost(*raw[10:13])
    if version != VERSION:
        raise Rejected(
            "effects.vault_format", "the vault {path} has version {version}; this program reads {known}",
            path=path, version=version, known=VERSION, hint="Use a newer Cellule.",
        )  # fmt: skip
    if kind not in _KINDS:
        raise _damaged(path, "its kind of key is unknown")
    if kind != key.kind:
        raise Rejected(
            "effects.vault_key", "the vault {path} is opened by a {kind}, not by a {given}",
            path=path, kind=_KINDS[kind], given=_KINDS[key.kind], hint="Use the one it was made with.",
        )  # fmt: skip
    fits = COST_LOG2_MIN <= cost.log2 <= COST_LOG2_MAX and cost[1:] == (BLOCK, LANES)
    if kind == PASSPHRASE and not fits:
        # Unbounded, a forged header could demand all memory of the node.
        raise _damaged(path, "its scrypt parameters are out of bounds")
    return cost


def _contents(path: Path, plain: bytes) -> dict[str, Kept]:
    try:
        found = msgspec.convert(decode(plain), dict[str, tuple[str, int]], strict=True)
        return {name: Kept(*pair) for name, pair in found.items()}
    except (CelluleError, msgspec.ValidationError):
        raise _damaged(path, "its contents are not a map of secrets") from None


def _shortened(check: bytes) -> bytes:
    return sha256(check).digest()[:CHECK_BYTES]


def _damaged(path: Path, problem: str) -> Corrupted:
    return Corrupted(
        "effects.vault_damaged", "the vault {path} is damaged: {problem}",
        path=path, problem=problem, hint="Restore it from a backup.",
    )  # fmt: skip


_KINDS = {PASSPHRASE: "passphrase", KEY_FILE: "key file"}
