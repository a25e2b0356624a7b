"""What opens a vault: a passphrase, stretched by scrypt, or a key file, whose 32 bytes need no stretching.

Both give 64 bytes: the key of the cipher, and a check that tells a wrong key from a damaged file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from cellule.errors import Rejected
from cellule.sources import Entropy

PASSPHRASE, KEY_FILE = 1, 2
COST_LOG2, BLOCK, LANES = 15, 8, 1
"""Scrypt: 32 MB and about a tenth of a second; a vault states its own, within the bounds below."""
COST_LOG2_MIN, COST_LOG2_MAX = 14, 20
PASSPHRASE_CHARS_MIN = 8
KEY_BYTES = 32
_INFO = b"cellule vault 1"


class Cost(NamedTuple):
    """The parameters of scrypt as a vault's header states them; all 0 for a key file."""

    log2: int
    block: int
    lanes: int


class VaultKey:
    """A passphrase or the bytes of a key file; never shown."""

    __slots__ = ("_secret", "kind")

    def __init__(self, kind: int, secret: bytes) -> None:
        self.kind = kind
        self._secret = secret

    @classmethod
    def of_passphrase(cls, text: str) -> VaultKey:
        """Use a passphrase of at least 8 characters."""
        if len(text) < PASSPHRASE_CHARS_MIN:
            raise Rejected(
                "effects.vault_key", "the passphrase has fewer than {least} characters",
                least=PASSPHRASE_CHARS_MIN, hint="Use a sentence, or a key file.",
            )  # fmt: skip
        return cls(PASSPHRASE, text.encode())

    @classmethod
    def of_file(cls, path: Path) -> VaultKey:
        """Use a key file: 64 hex digits, readable by its owner only."""
        try:
            text = path.read_text()
            mode = path.stat().st_mode
        except (OSError, UnicodeDecodeError) as error:
            raise _no_key(path, f"it cannot be read ({type(error).__name__})") from None
        if stat.S_IMODE(mode) & 0o077:
            raise _no_key(path, "other users may read or change it")
        try:
            secret = bytes.fromhex(text.strip())
        except ValueError:
            raise _no_key(path, "it is not hex") from None
        if len(secret) != KEY_BYTES:
            raise _no_key(path, f"it holds {len(secret)} bytes, not {KEY_BYTES}")
        return cls(KEY_FILE, secret)

    @property
    def cost(self) -> Cost:
        """The parameters for a new vault."""
        return Cost(COST_LOG2, BLOCK, LANES) if self.kind == PASSPHRASE else Cost(0, 0, 0)

    def derive(self, salt: bytes, cost: Cost) -> tuple[bytes, bytes]:
        """Return the cipher's key and the check, 32 bytes each."""
        if self.kind == PASSPHRASE:
            kdf = Scrypt(salt=salt, length=64, n=1 << cost.log2, r=cost.block, p=cost.lanes)
            both = kdf.derive(self._secret)
        else:
            both = HKDF(algorithm=SHA256(), length=64, salt=salt, info=_INFO).derive(self._secret)
        return both[:32], both[32:]

    def __repr__(self) -> str:
        return "<vault key: passphrase>" if self.kind == PASSPHRASE else "<vault key: file>"


def create_key_file(path: Path, entropy: Entropy) -> VaultKey:
    """Write a new key file, which must not exist yet."""
    secret = entropy.bytes(KEY_BYTES)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise _no_key(path, "it exists already") from None
    with os.fdopen(descriptor, "w") as file:
        file.write(secret.hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    return VaultKey(KEY_FILE, secret)


def _no_key(path: Path, problem: str) -> Rejected:
    return Rejected(
        "effects.vault_key", "the key file {path} is not used: {problem}", path=path, problem=problem,
        hint="A key file holds 64 hex digits and has mode 600.",
    )  # fmt: skip
