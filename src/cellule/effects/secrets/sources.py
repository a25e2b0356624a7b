"""Where secrets are kept: the environment, a folder with one file each, or the encrypted vault.

All are read anew whenever an adapter asks, so a change needs no restart. A file that others may change, or
that everyone may read, is refused: a secret in it is none. The ciphers are loaded when a vault is asked.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cellule.effects.limits import SECRET_BYTES_MAX
from cellule.errors import Rejected, Unavailable

if TYPE_CHECKING:
    from cellule.effects.secrets.vault import Vault
    from cellule.effects.secrets.vault_key import VaultKey

PREFIX = "CELLULE_SECRET_"


@dataclass(frozen=True, slots=True)
class EnvironmentSecrets:
    """`CELLULE_SECRET_STRIPE` holds the secret `stripe`."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    async def get(self, name: str, /) -> str | None:
        """Return the variable's value; an empty one counts as none."""
        return self.environ.get(PREFIX + name.upper()) or None

    def how_to_add(self, name: str, /) -> str:
        """Name the variable."""
        return f"Set {PREFIX}{name.upper()} in the environment of the node."


@dataclass(frozen=True, slots=True)
class FolderSecrets:
    """The file `stripe` in the folder holds the secret `stripe`; one line end at its end is not part of it.

    `readable_by_all` is for containers, whose mounts everyone inside may read.
    """

    folder: Path
    readable_by_all: bool = False

    async def get(self, name: str, /) -> str | None:
        """Return the file's text."""
        return await asyncio.to_thread(self._read, self.folder / name)

    def how_to_add(self, name: str, /) -> str:
        """Name the file."""
        return f"Write it into {self.folder / name} (mode 600)."

    def _read(self, path: Path) -> str | None:
        try:
            with path.open("rb") as file:
                self._check(path, os.fstat(file.fileno()))
                raw = file.read(SECRET_BYTES_MAX + 2)
        except FileNotFoundError:
            return None
        except IsADirectoryError:
            raise _refused(path, "it is a folder", "Put a file there.") from None
        except OSError as error:
            raise Unavailable(
                "effects.secret_unreadable", "the file {path} could not be read: {reason}",
                path=path, reason=error.strerror or type(error).__name__,
                hint="Let the user of the node read it.",
            ) from error  # fmt: skip
        return _text(path, raw)

    def _check(self, path: Path, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise _refused(path, "it is no regular file", "Put a file there.")
        if found.st_uid not in (os.geteuid(), 0):
            raise _refused(path, "it belongs to another user", f"Run: chown {os.geteuid()} {path}")
        if found.st_mode & 0o022:
            raise _refused(path, "other users may change it", f"Run: chmod 600 {path}")
        if found.st_mode & 0o004 and not self.readable_by_all:
            raise _refused(
                path, "every user of the machine may read it",
                f"Run: chmod 600 {path}, or use FolderSecrets(..., readable_by_all=True) inside a container.",
            )  # fmt: skip


class VaultSecrets:
    """The secrets of an encrypted vault, which is opened again when its file was replaced."""

    def __init__(self, path: Path, key: VaultKey) -> None:
        self.path = path
        self._key = key
        self._vault: Vault | None = None
        self._opening = asyncio.Lock()

    async def get(self, name: str, /) -> str | None:
        """Return the vault's value; the first call, and one after a change, derives the key in a thread."""
        from cellule.effects.secrets.vault import Vault

        async with self._opening:
            if self._vault is None or self._vault.is_outdated():
                self._vault = await asyncio.to_thread(Vault.open, self.path, self._key)
            return self._vault.get(name)

    def how_to_add(self, name: str, /) -> str:
        """Name the vault."""
        return f"Put {name} into the vault {self.path}."

    def __repr__(self) -> str:
        return f"VaultSecrets({str(self.path)!r})"


def _text(path: Path, raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        # The error's own text would quote the bytes.
        raise _refused(path, "it is no UTF-8 text", "Store the secret as text, or as base64.") from None
    return text.removesuffix("\n").removesuffix("\r")


def _refused(path: Path, problem: str, hint: str) -> Rejected:
    return Rejected(
        "effects.secret_file",
        "the secret in {path} is not used: {problem}",
        path=path,
        problem=problem,
        hint=hint,
    )
