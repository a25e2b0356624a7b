"""`cellule cell archive` and `cellule test-from`: history out of production, for people and for tests."""

from __future__ import annotations

import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cellule.cli.errors import usage
from cellule.cli.session import Session, cell_of, in_session, renderer_of
from cellule.host.archive.car import CarFile
from cellule.host.archive.document import WorldDocument
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
        shown = f"{done.frames:,} steps of {base} {key} in {done.path}: {done.bytes / 1e6:,.1f} MB"
        session.output.document(data, f"{shown}, root {done.root}")


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
    target.write_text(text)
    session.output.document({"test": str(target)}, f"{target} is written; run it with pytest")


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
