"""`cellule cell archive`, `cell import` and `cellule test-from`: history out of production, and in again."""

from __future__ import annotations

import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cellule.cli.controls import Why
from cellule.cli.errors import usage
from cellule.cli.lines import cell_text
from cellule.cli.output import counted, write_file
from cellule.cli.session import Session, cell_of, in_session, operator, renderer_of
from cellule.host.archive.car import CarFile
from cellule.host.archive.document import WorldDocument
from cellule.host.archive.redacted_world import is_redacted_world, refuse_redacted_world
from cellule.host.ingress.world_storage import WorldStorage

_TEST = '''"""World {name} up to height {height}: its history must go the same under the code of today."""

from pathlib import Path

from {module} import {app}

from cellule.testing import replay_export

EXPORT = Path(__file__).parent / "{export}"


def test_the_history_of_{slug}_goes_the_same():
    report = replay_export(EXPORT, {app})
    assert report.same, report
'''


@in_session
async def export_cell(
    session: Session,
    module: Annotated[str, typer.Argument(help="The module, with or without namespace.")],
    key: Annotated[str, typer.Argument(help="The cell's key.")],
    file: Annotated[Path, typer.Argument(help="The new file; by custom it ends with .car.")],
    redact: Annotated[list[str] | None, typer.Option(help="A field to leave null; several times.")] = None,
) -> None:
    """Write one cell with its whole history to a file for people and IPLD tools."""
    async with session.reading() as node:
        world = await session.world(node)
        base, chosen = cell_of(await renderer_of(world).manifest(), module, key)
        done = await WorldStorage(node.node, world.info).export_cell(base, chosen, file, redact=redact or ())
        data = {**asdict(done), "path": str(done.path), "root": str(done.root)}
        shown = f"{counted(done.frames, 'step')} of {base} {key} in {done.path}: {done.bytes / 1e6:,.1f} MB"
        session.output.document(data, f"{shown}, root {done.root}")


@in_session
async def import_cell(
    session: Session,
    file: Annotated[Path, typer.Argument(help="What `cell archive` wrote.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be imported.")] = False,
    why: Why = "asked for",
) -> None:
    """Make a cell of a file, with the state it has there; its history stays with it."""
    async with session.working() as node:
        world = await session.world(node)
        done = await WorldStorage(node.node, world.info).import_cell(
            file, dry_run=dry_run, who=operator(), why=why
        )
        key = await renderer_of(world).key(done.module, done.key)
        data = {
            **asdict(done), "key": key, "root": str(done.root), "state": str(done.state), "dry_run": dry_run,
            "world": world.name,
        }  # fmt: skip
        where = f"{cell_text(data)} {'would be' if dry_run else 'is'} in world {world.name}"
        steps = counted(done.steps, "step")
        come = f"as it was in {done.from_world} at height {done.from_height}, after {steps}"
        lines = [f"{where}, {come}, root {done.root}"]
        if done.effects or done.messages:
            open_, waiting = counted(done.effects, "open effect"), counted(done.messages, "waiting message")
            lines.append(f"not imported: {open_} and {waiting}")
        session.output.document(data, *lines)


@in_session
async def make_test(
    session: Session,
    export: Annotated[Path, typer.Argument(help="What `cellule world export` wrote.")],
    out: Annotated[
        Path | None, typer.Option(help="The test; test_NAME_history.py beside the export.")
    ] = None,
) -> None:
    """Write a test that runs an exported world again under the app of --app (app.py:app by default)."""
    with CarFile(export) as car:
        if is_redacted_world(car.read(car.root)):
            raise refuse_redacted_world(car)
        document = WorldDocument.of_block(car.read(car.root))
    slug = re.sub(r"\W+", "_", document.name).strip("_").lower() or "world"
    target = out or export.with_name(f"test_{slug}_history.py")
    if target.exists():
        raise usage("{path} exists already", path=str(target), hint="Name another file with --out.")
    place, _, name = (session.app or "app.py:app").partition(":")
    text = _TEST.format(
        name=document.name, height=document.head.height, slug=slug, app=name or "app",
        module=place.removesuffix(".py").replace("/", "."),
        export=_relative(export, target.parent),
    )  # fmt: skip
    write_file(target, text)
    session.output.document({"test": str(target)}, f"{target} is written; run it with pytest")


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
