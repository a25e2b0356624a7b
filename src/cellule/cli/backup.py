"""`cellule backup` and `cellule restore`: a whole store, copied to another address.

A backup is a store itself: it can be checked, read and opened where it lies. Nodes may work on the source
meanwhile; everything acknowledged before the command began is in the copy.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from cellule.assembly import copy
from cellule.cli.session import Session, in_session
from cellule.store.address import StoreAddress, parse_address
from cellule.store.copy import Copied

Beside = Annotated[
    str | None,
    typer.Option(help="Where its large values are: a folder or bucket; without it, with the rows."),
]


@in_session
async def backup(
    session: Session,
    target: Annotated[str, typer.Argument(help="An empty place: a folder or postgresql://...")],
    target_objects: Beside = None,
) -> None:
    """Copy the whole store of --data to TARGET, while nodes work on it."""
    await _copy(session, session.address, parse_address(target, target_objects), "backed up to")


@in_session
async def restore(
    session: Session,
    source: Annotated[str, typer.Argument(help="A backup: what `cellule backup` wrote, or any store.")],
    source_objects: Beside = None,
) -> None:
    """Copy a backup whole into the store of --data, which must be empty."""
    await _copy(session, parse_address(source, source_objects), session.address, "restored into")


async def _copy(session: Session, source: StoreAddress, target: StoreAddress, done: str) -> None:
    with session.output.progress("rows") as step:

        def told(copied: Copied) -> None:
            step(copied.rows, copied.rows)

        copied = await copy(source, target, progress=told)
    data = {"source": str(source), "target": str(target), **asdict(copied)}
    shown = f"{source} {done} {target}: {copied.rows} rows ({copied.bytes / 1e6:.1f} MB)"
    shown += f", {copied.objects} objects ({copied.object_bytes / 1e6:.1f} MB)"
    session.output.document(data, shown)
