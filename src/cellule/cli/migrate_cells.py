"""`cellule world migrate-cells`: whole maps become cells, shown first, followed to the end, and proven."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cellule.cli.controls import Timeout, Why
from cellule.cli.deploy import Code, ManifestFile, MaybeName
from cellule.cli.output import counted
from cellule.cli.session import Session, in_session, operator, within
from cellule.host.read.spill_report import SpilledMap, SpillReport


@in_session
async def migrate_cells(
    session: Session,
    name: MaybeName = None,
    manifest: ManifestFile = None,
    code: Code = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be moved.")] = False,
    why: Why = "asked for",
    timeout_s: Timeout = 60.0,
) -> None:
    """Deploy the app, or a manifest, whose modules have cells where one cell held the map of all keys."""
    async with session.working() as node:
        info = await session.info(node, name)
        async with within(timeout_s, "the move to cells"):
            with session.output.progress(f"map of {info.name} to cells") as step:
                report = await node.migrate_cells(
                    info.name, manifest=manifest, code=code, who=operator(), why=why, dry_run=dry_run,
                    universe=session.universe_name, progress=step,
                )  # fmt: skip
        session.output.document(_json(info.name, report), *_lines(info.name, report, dry_run=dry_run))


def _json(world: str, report: SpillReport) -> dict[str, Any]:
    modules = [
        {
            "module": base, "cells": each.cells, "messages": each.messages, "effects": each.effects,
            "upcast": each.upcast,
        }
        for base, each in sorted(report.modules.items())
    ]  # fmt: skip
    return {"world": world, "moved": report.height > 0, "height": report.height, "modules": modules}


def _lines(world: str, report: SpillReport, *, dry_run: bool) -> list[str]:
    """What was moved, or would be, for people."""
    if not report.modules:
        return [f"world {world} runs this already: there is nothing to move"]
    verb = "would become" if dry_run else "became"
    lines = [f"{base}: its map {verb} {_moved(each)}" for base, each in sorted(report.modules.items())]
    if dry_run:
        return [*lines, "nothing was changed; it can be moved"]
    return [*lines, f"done at height {report.height} of world {world}, and held against the journal"]


def _moved(each: SpilledMap) -> str:
    rest = f"; {counted(each.messages, 'message')} and {counted(each.effects, 'open effect')} go with them"
    return f"{counted(each.cells, 'cell')}{', upcast' if each.upcast else ''}{rest}"
