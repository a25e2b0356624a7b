"""Where a node looks for secrets when it is told nothing else.

First the environment (`CELLULE_SECRET_STRIPE`), then the files of `<folder>/secrets`, then the vault
`<folder>/secrets.vault`, whose key is the file named by `CELLULE_VAULT_KEY_FILE` or the passphrase
`CELLULE_VAULT_PASSPHRASE`. The folder is the one `CELLULE_SECRETS_FOLDER` names, else the data folder; on a
shared store there is none unless it is named. The vault is opened when a secret is asked for that the others
do not have.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cellule.effects.secrets.resolver import Secrets
from cellule.effects.secrets.sources import EnvironmentSecrets, FolderSecrets
from cellule.errors import Rejected

if TYPE_CHECKING:
    from cellule.effects.secrets.sources import VaultSecrets
    from cellule.effects.secrets.vault_key import VaultKey

SECRETS_FOLDER = "CELLULE_SECRETS_FOLDER"
FOLDER = "secrets"
VAULT = "secrets.vault"
KEY_FILE = "CELLULE_VAULT_KEY_FILE"
PASSPHRASE = "CELLULE_VAULT_PASSPHRASE"  # noqa: S105 - the name of a variable


def secrets_folder(data: Path | None, environment: Mapping[str, str] | None = None) -> Path | None:
    """The folder with files and vault: the one the environment names, else the data folder, else none."""
    named = (os.environ if environment is None else environment).get(SECRETS_FOLDER)
    return Path(named) if named else data


def default_secrets(data: Path | None, environment: Mapping[str, str] | None = None) -> Secrets:
    """The secrets of a node, which may have a data folder."""
    given = os.environ if environment is None else environment
    folder = secrets_folder(data, given)
    if folder is None:
        return Secrets(EnvironmentSecrets(given))
    return Secrets(EnvironmentSecrets(given), FolderSecrets(folder / FOLDER), _FolderVault(folder, given))


def vault_key(environment: Mapping[str, str]) -> VaultKey:
    """The key that the environment names; `Rejected` where it names none."""
    from cellule.effects.secrets.vault_key import VaultKey

    if environment.get(KEY_FILE):
        return VaultKey.of_file(Path(environment[KEY_FILE]))
    if environment.get(PASSPHRASE):
        return VaultKey.of_passphrase(environment[PASSPHRASE])
    raise Rejected(
        "effects.vault_key_missing", "the vault's key is not known",
        hint=f"Set {KEY_FILE} to the path of its key file, or {PASSPHRASE}.",
    )  # fmt: skip


class _FolderVault:
    """The vault of a data folder, if it is there."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._path = folder / VAULT
        self._environment = environment
        self._opened: VaultSecrets | None = None

    async def get(self, name: str, /) -> str | None:
        """Return the vault's value; None where there is no vault."""
        if self._opened is None:
            if not self._path.exists():
                return None
            from cellule.effects.secrets.sources import VaultSecrets

            self._opened = VaultSecrets(self._path, vault_key(self._environment))
        return await self._opened.get(name)

    def how_to_add(self, name: str, /) -> str:
        """Name the command."""
        return f"Or run: cellule secret set {name}"
