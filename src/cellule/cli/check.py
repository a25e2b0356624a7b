"""`cellule check`: proves the rows, the journals and every block they need, without running anything."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import typer
from rich.text import Text

from cellule.cli.errors import Exit, message_of
from cellule.cli.output import counted
from cellule.cli.session import Session, in_session
from cellule.errors import Corrupted
from cellule.host.own.directory import UniverseInfo, WorldInfo
from cellule.host.own.refs import list_refs
from cellule.host.read.check import check_world
from cellule.host.service import Cellule
from cellule.store.engines.sqlite import CheckReport
from cellule.store.engines.sqlite import check as check_file
from cellule.store.engines.sqlite.check import Problem, Progress
from cellule.store.store import DATABASE, check_data

PROBLEMS_SHOWN = 20


@in_session
async def check(session: Session) -> None:
    """Check the whole store: its file and rows, all frames, all snapshots, all blocks."""
    check_data(session.address)
    with session.output.progress("rows") as step:
        report = await _rows(session, lambda rows: step(rows, rows))
    worlds: list[dict[str, Any]] = []
    if report.ok:
        async with session.reading() as node:
            worlds = await _worlds(session, node)
    ok = report.ok and all("problem" not in each for each in worlds)
    data = {"ok": ok, "file": _file(report), "worlds": worlds}
    session.output.document(data, _shown(report), *map(_line, worlds))
    if not ok:
        raise typer.Exit(Exit.DAMAGED)


async def _rows(session: Session, progress: Progress) -> CheckReport:
    """Prove every row: of a folder the whole file, of other stores what their engine reads."""
    folder = session.address.folder
    if folder is not None:
        return await check_file(folder / DATABASE, progress=progress)
    report = CheckReport(str(session.address))
    async with session.reading() as node:
        try:
            async for page in node.node.engine.rows():
                report.rows += len(page)
                report.bytes += sum(len(key) + len(value) for key, value in page)
                progress(report.rows)
        except Corrupted as error:
            report.add(Problem("row", str(error)))
    return report


async def _worlds(session: Session, node: Cellule) -> list[dict[str, Any]]:
    """Prove the lists of universes and worlds, and every world; a list that lacks rows is a problem, too."""
    found: list[dict[str, Any]] = []
    try:
        for each in await node.universes():
            found += await _universe(session, node, each)
    except Corrupted as error:
        found.append(_damaged("*", error))
    return found


async def _universe(session: Session, node: Cellule, info: UniverseInfo) -> list[dict[str, Any]]:
    """Prove a universe: what is wrong with its lists, or with one of its worlds, hides nothing of others."""
    found: list[dict[str, Any]] = []
    directory = node.node.directory
    lists: list[Awaitable[object]] = [
        directory.find_universe(info.name),
        list_refs(node.node.engine, info.id),
        node.node.storage.pins(info.id).all(),
        node.node.storage.quotas(info.id),
    ]
    for proven in lists:
        try:
            await proven
        except Corrupted as error:
            found.append(_damaged(info.name, error))
    try:
        worlds = await directory.worlds(info.id)
    except Corrupted as error:
        return [*found, _damaged(info.name, error)]
    for each in worlds:
        found.append(await _world(session, node, each, info.name))  # noqa: PERF401 - awaits
    return found


def _damaged(universe: str, error: Corrupted) -> dict[str, Any]:
    problem = {"code": error.code, "text": message_of(error)}
    return {"world": "*", "universe": universe, "problem": problem}


async def _world(session: Session, node: Cellule, info: WorldInfo, universe: str) -> dict[str, Any]:
    data: dict[str, Any] = {"world": info.name, "universe": universe}
    try:
        with session.output.progress(f"{universe}/{info.name}") as step:
            found = await check_world(node.node.loader, info, node.node.cas(info.universe), step)
    except Corrupted as error:
        return {**data, "problem": {"code": error.code, "text": message_of(error)}}
    return {
        **data, "height": found.height, "frames": found.frames, "snapshots": found.snapshots,
        "blocks": found.nodes, "absent_links": found.absent,
    }  # fmt: skip


def _file(report: CheckReport) -> dict[str, Any]:
    problems = [{"kind": each.kind, "text": each.text} for each in report.problems[:PROBLEMS_SHOWN]]
    return {
        "path": report.path, "rows": report.rows, "bytes": report.bytes,
        "problem_count": report.problem_count, "problems": problems,
    }  # fmt: skip


def _shown(report: CheckReport) -> Text:
    text = Text(f"{report.path}: ")
    if report.ok:
        return text.append("sound", style="green").append(f", {report.rows} rows, {report.bytes} bytes")
    text.append(f"{report.problem_count} problems", style="bold red")
    for each in report.problems[:PROBLEMS_SHOWN]:
        text.append(f"\n  {each.kind}: {each.text}")
    return text.append("\nKeep a copy of the store before anything else.")


def _line(row: dict[str, Any]) -> Text:
    line = Text(f"{row['universe']}/{row['world']}: ")
    if "problem" in row:
        line.append("DAMAGED", style="bold red")
        return line.append(f" {row['problem']['text']} [{row['problem']['code']}]")
    line.append("sound", style="green")
    absent = row["absent_links"]
    told = f", not stored: {counted(absent, 'link')} in values" if absent else ""
    return line.append(
        f", {counted(row['frames'], 'frame')} to height {row['height']}, "
        f"{counted(row['snapshots'], 'snapshot')}, {counted(row['blocks'], 'block')}{told}"
    )
