"""`Vault`: an encrypted file of secrets, opened whole, replaced whole.

A change holds a lock on the folder, reads the file again, writes a new one beside it, syncs it and renames it
over the old: a crash leaves the one or the other, and two writers lose nothing. Opening holds all values in
memory; their number and size are limited. Everything here is synchronous; `VaultSecrets` waits in a thread.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cellule.effects.limits import SECRETS_MAX, VAULT_BYTES_MAX
from cellule.effects.secrets.reference import check_secret_name
from cellule.effects.secrets.resolver import check_secret_value
from cellule.effects.secrets.vault_bytes import Kept, Sealing, new_sealing, seal, unseal
from cellule.effects.secrets.vault_key import VaultKey
from cellule.errors import CelluleError, Rejected, Unavailable
from cellule.sources import Entropy, SystemEntropy

_Identity = tuple[int, int, int]


class Vault:
    """The open vault; its values are those of the file when it was opened or last changed here."""

    def __init__(self, path: Path, key: VaultKey, entropy: Entropy) -> None:
        self.path = path
        self._key = key
        self._entropy = entropy
        self._contents: dict[str, Kept] = {}
        self._sealing: Sealing | None = None
        self._seen: _Identity | None = None

    @classmethod
    def create(cls, path: Path, key: VaultKey, *, entropy: Entropy | None = None) -> Vault:
        """Make an empty vault; `Rejected` when the file exists."""
        vault = cls(path, key, entropy or SystemEntropy())
        vault._sealing = new_sealing(key, vault._entropy)
        with vault._locked():
            if path.exists():
                raise Rejected(
                    "effects.vault_exists",
                    "{path} exists already",
                    path=path,
                    hint="Open it, or name another.",
                )
            vault._write({})
        return vault

    @classmethod
    def open(cls, path: Path, key: VaultKey, *, entropy: Entropy | None = None) -> Vault:
        """Open a vault; `Rejected` for a wrong key or a file that is none, `Corrupted` for a damaged one."""
        vault = cls(path, key, entropy or SystemEntropy())
        vault._read()
        return vault

    def names(self) -> list[tuple[str, int]]:
        """The names in order, each with the time of its last change."""
        return sorted((name, kept.changed_ns) for name, kept in self._contents.items())

    def get(self, name: str) -> str | None:
        """Return a value, or None."""
        kept = self._contents.get(name)
        return None if kept is None else kept.value

    def put(self, name: str, value: str, now_ns: int) -> None:
        """Add or replace a secret; durable when it returns."""
        check_secret_value(check_secret_name(name), value)
        with self._locked():
            self._read()
            self._write({**self._contents, name: Kept(value, now_ns)})

    def change_key(self, key: VaultKey) -> None:
        """Seal everything anew; from then on only `key` opens the vault."""
        with self._locked():
            self._read()
            before = self._key, self._sealing
            self._key, self._sealing = key, new_sealing(key, self._entropy)
            try:
                self._write(self._contents)
            except CelluleError:
                self._key, self._sealing = before
                raise

    def remove(self, name: str) -> None:
        """Remove a secret; `Rejected` when there is none of that name."""
        with self._locked():
            self._read()
            if name not in self._contents:
                raise Rejected(
                    "effects.secret_unknown", "there is no secret {name} in the vault",
                    name=repr(name)[:80], hint="List the names in it.",
                )  # fmt: skip
            self._write({each: kept for each, kept in self._contents.items() if each != name})

    def is_outdated(self) -> bool:
        """Whether the file was replaced since it was read."""
        return _identity(self.path) != self._seen

    def _read(self) -> None:
        seen = _identity(self.path)
        if seen is not None and seen == self._seen:
            return
        try:
            with self.path.open("rb") as file:
                seen = _identity_of(os.fstat(file.fileno()))
                raw = file.read(VAULT_BYTES_MAX + 1)
        except OSError as error:
            raise _unreadable(self.path, error) from error
        self._sealing, self._contents = unseal(self.path, raw, self._key)
        self._seen = seen

    def _write(self, contents: dict[str, Kept]) -> None:
        assert self._sealing is not None
        sealed = seal(self._sealing, contents, self._entropy)
        if len(contents) > SECRETS_MAX or len(sealed) > VAULT_BYTES_MAX:
            raise Rejected(
                "effects.vault_full", "the vault {path} would hold {count} secrets in {size} bytes",
                path=self.path, count=len(contents), size=len(sealed),
                hint=f"At most {SECRETS_MAX} in {VAULT_BYTES_MAX}: remove some, or use a second vault.",
            )  # fmt: skip
        beside = self.path.with_name(f".{self.path.name}.new")
        try:
            _write_synced(beside, sealed)
            beside.replace(self.path)
            _sync_folder(self.path.parent)
        except OSError as error:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            raise _unreadable(self.path, error) from error
        self._contents, self._seen = contents, _identity(self.path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder's lock, so that reading, changing and replacing are one."""
        try:
            descriptor = os.open(self.path.parent, os.O_RDONLY)
        except OSError as error:
            raise _unreadable(self.path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def __repr__(self) -> str:
        return f"<vault {self.path} of {len(self._contents)} secrets>"


def _write_synced(path: Path, raw: bytes) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _identity(path: Path) -> _Identity | None:
    try:
        return _identity_of(path.stat())
    except OSError:
        return None


def _identity_of(found: os.stat_result) -> _Identity:
    return found.st_ino, found.st_mtime_ns, found.st_size


def _unreadable(path: Path, error: OSError) -> Unavailable | Rejected:
    if isinstance(error, FileNotFoundError):
        return Rejected(
            "effects.vault_missing", "there is no vault {path}", path=path, hint="Create it first."
        )
    return Unavailable(
        "effects.vault_io", "the vault {path} could not be read or written: {reason}",
        path=path, reason=error.strerror or type(error).__name__,
        hint="Check the disk and who may use the file.",
    )  # fmt: skip
