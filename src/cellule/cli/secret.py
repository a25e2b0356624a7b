"""`cellule secret`: the vault of a data folder. Values come from standard input or a prompt, and stay in it.

The key is the file named by `CELLULE_VAULT_KEY_FILE`, or the passphrase `CELLULE_VAULT_PASSPHRASE`; on a
terminal the passphrase is asked for. No world is opened, so this works beside a running node, which reads the
vault anew when it changed.

Rejected: values as arguments. They would stand in the shell's history and in the list of processes.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from cellule.cli.errors import usage
from cellule.cli.output import harmless, table
from cellule.cli.session import Session, in_session
from cellule.effects.secrets.defaults import (
    KEY_FILE,
    PASSPHRASE,
    SECRETS_FOLDER,
    VAULT,
    secrets_folder,
    vault_key,
)
from cellule.effects.secrets.reference import check_secret_name
from cellule.effects.secrets.vault import Vault
from cellule.effects.secrets.vault_key import VaultKey, create_key_file
from cellule.errors import Rejected
from cellule.host.own.folder import make_folder
from cellule.sources import SystemClock, SystemEntropy
from cellule.values.schema.text_forms import time_text

app = typer.Typer(help="Secrets: values for adapters, encrypted at rest.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Lower-case letters, digits and _, a letter first.")]


@app.command()
@in_session
async def init(
    session: Session,
    key_file: Annotated[
        Path | None, typer.Option(help="Make this key file, and let it open the vault.", dir_okay=False)
    ] = None,
) -> None:
    """Make the vault of the data folder, which must not exist yet."""
    await asyncio.to_thread(_init, session, key_file)


@app.command("set")
@in_session
async def set_(session: Session, name: Name) -> None:
    """Add or replace a secret; its value is read from standard input, or asked for on a terminal."""
    await asyncio.to_thread(_set, session, name)


@app.command("list")
@in_session
async def list_(session: Session) -> None:
    """List the names in the vault and when each was changed, never the values."""
    await asyncio.to_thread(_list, session)


@app.command()
@in_session
async def remove(session: Session, name: Name) -> None:
    """Remove a secret."""
    await asyncio.to_thread(_remove, session, name)


def _init(session: Session, key_file: Path | None) -> None:
    path = _vault(session)
    make_folder(path.parent)
    if path.exists():
        raise Rejected(
            "effects.vault_exists",
            "{path} exists already",
            path=path,
            hint="Use it: cellule secret set NAME.",
        )
    key = _key(confirm=True) if key_file is None else _made_key(key_file)
    Vault.create(path, key)
    data = {"vault": str(path), "key_file": None if key_file is None else str(key_file)}
    shown = f"vault {path} made"
    if key_file is not None:
        shown += f"; its key is {key_file}: keep a copy, and set {KEY_FILE}={key_file.absolute()}"
    session.output.document(data, shown)


def _set(session: Session, name: str) -> None:
    check_secret_name(name)
    vault = _opened(session)
    is_new = vault.get(name) is None
    vault.put(name, _value(name), SystemClock().now_ns())
    data = {"secret": name, "new": is_new, "vault": str(vault.path)}
    session.output.document(data, f"secret {name} {'added' if is_new else 'replaced'}")


def _list(session: Session) -> None:
    vault = _opened(session)
    rows = [{"name": name, "changed": time_text(changed_ns)} for name, changed_ns in vault.names()]
    shown = table(("NAME", "CHANGED"), [(each["name"], each["changed"]) for each in rows])
    session.output.document({"vault": str(vault.path), "secrets": rows}, shown if rows else "no secrets")


def _remove(session: Session, name: str) -> None:
    vault = _opened(session)
    vault.remove(check_secret_name(name))
    session.output.document({"removed": name, "vault": str(vault.path)}, f"secret {name} removed")


def _vault(session: Session) -> Path:
    folder = secrets_folder(session.address.folder)
    if folder is None:
        raise Rejected(
            "effects.no_secrets_folder", "a store without a data folder has no place for a vault",
            hint=f"Set {SECRETS_FOLDER} to a folder, here and for the node that performs effects.",
        )  # fmt: skip
    return folder / VAULT


def _opened(session: Session) -> Vault:
    path = _vault(session)
    if not path.is_file():
        raise Rejected(
            "effects.vault_missing",
            "there is no vault {path}",
            path=path,
            hint="Make it: cellule secret init.",
        )
    return Vault.open(path, _key(confirm=False))


def _key(*, confirm: bool) -> VaultKey:
    """The key that the environment names, or a passphrase asked for."""
    if os.environ.get(KEY_FILE) or os.environ.get(PASSPHRASE) or not sys.stdin.isatty():
        return vault_key(os.environ)
    return VaultKey.of_passphrase(
        typer.prompt("Passphrase of the vault", hide_input=True, confirmation_prompt=confirm, err=True)
    )


def _made_key(path: Path) -> VaultKey:
    try:
        return create_key_file(path, SystemEntropy())
    except OSError as error:
        raise Rejected(
            "cli.output", "{file} cannot be written: {why}", file=str(path), why=error.strerror
        ) from error


def _value(name: str) -> str:
    if sys.stdin.isatty():
        asked: str = typer.prompt(
            f"Value of {harmless(name)}", hide_input=True, confirmation_prompt=True, err=True
        )
        return asked
    try:
        return sys.stdin.read().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise usage("the value on standard input is no text", hint="Write it in base64.") from error
