"""`cellule verify`: runs every recorded step again with the stored code, and compares.

It does so in a process whose hash seed is not the one that worlds were recorded with.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import typer
from rich.text import Text

from cellule.cli.errors import Exit
from cellule.cli.output import counted
from cellule.cli.session import Session, in_session, renderer_of
from cellule.host.own.directory import WorldInfo
from cellule.host.read.record_view import key_text
from cellule.host.read.verify import Verified, verify_world
from cellule.host.service import Cellule
from cellule.kernel.prove.verify import Difference
from cellule.values.json_view import to_json

_RESEEDED = "CELLULE_RESEEDED"


def reseed(arguments: Sequence[str]) -> None:
    """Start `cellule verify` again with another hash seed, where the environment fixes one.

    Worlds are often recorded and verified in the same environment. With the same seed a step that lets the
    order of a set out would do the same again, and nobody would know.
    """
    seed = os.environ.get("PYTHONHASHSEED", "random")
    if "verify" not in arguments or seed in {"", "random"} or _RESEEDED in os.environ:
        return
    other = str((int(seed) + 1) % 2**32) if seed.isdigit() else "random"
    environment = {**os.environ, "PYTHONHASHSEED": other, _RESEEDED: "1"}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606 - ourselves


@in_session
async def verify(session: Session) -> None:
    """Run all recorded steps again and print the first difference; the world of --world, or all."""
    differs = False
    rows: list[dict[str, Any]] = []
    async with session.reading() as node:
        wanted = [await session.info(node)] if session.world_name else await session.worlds(node)
        for info in wanted:
            found = await _verified(session, node, info)
            differs = differs or found.difference is not None
            rows.append(await _json(session, node, info, found))
    ran = not any(row["not_run"] for row in rows)
    shown = Text("\n").join(map(_line, rows)) if rows else "there is no world yet"
    session.output.document({"ok": ran and not differs, "worlds": rows}, shown)
    if differs or not ran:
        raise typer.Exit(Exit.DAMAGED if differs else Exit.UNAVAILABLE)


async def _verified(session: Session, node: Cellule, info: WorldInfo) -> Verified:
    with session.output.progress(f"verifying {info.name}") as step:
        return await verify_world(node.node.loader, info, node.node.cas(info.universe), step)


async def _json(session: Session, node: Cellule, info: WorldInfo, found: Verified) -> dict[str, Any]:
    data: dict[str, Any] = {
        "world": info.name, "height": found.height, "steps": found.steps, "skipped": found.skipped,
        "erased": found.erased,
        "baseline": found.baseline,
        "not_run": [{"steps": count, "why": why} for why, count in sorted(found.not_run.items())],
    }  # fmt: skip
    if found.difference is not None:
        manifest = await renderer_of(await session.world(node, info.name)).manifest()
        key = key_text(manifest, *found.difference.cell)
        data["difference"] = _difference(found.difference, key)
    return data


def _difference(difference: Difference, key: str) -> dict[str, Any]:
    return {
        "height": difference.height, "module": difference.cell[0], "key": key,
        "event": difference.event[1], "cause": difference.event[0], "field": difference.field,
        "recorded": _plain(difference.recorded), "computed": _plain(difference.computed),
    }  # fmt: skip


def _plain(value: Any) -> Any:
    try:
        return to_json(value)
    except (TypeError, ValueError):
        return str(value)


def _line(row: dict[str, Any]) -> Text:
    line = Text(f"{row['world']}: ")
    found = row.get("difference")
    if found is None:
        if row["not_run"]:
            line.append("NOT VERIFIED in part", style="bold yellow")
        else:
            line.append("verified", style="green")
        steps = counted(row["steps"], "step")
        skipped = f"; not run again, as timed out or parked: {row['skipped']}" if row["skipped"] else ""
        erased = f"; erased, and not run again: {row['erased']}" if row["erased"] else ""
        line.append(f", {steps} to height {row['height']} gave the same bytes{skipped}{erased}")
        for each in row["not_run"]:
            line.append(f"\n  {counted(each['steps'], 'step')} cannot be run here: {each['why']}")
        return line
    line.append("DIFFERENT", style="bold red")
    return line.append(
        f" at height {found['height']}: {found['module']}/{found['key']} on {found['event']}, "
        f"{found['field']}: recorded {found['recorded']!r}, computed {found['computed']!r}"
    )
