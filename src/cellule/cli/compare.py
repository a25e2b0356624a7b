"""Comparing worlds on the command line: `world diff`, `world what-if` and `world merge`."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any

import typer

from cellule.cli.branch import Effects, ScriptFile, read_script
from cellule.cli.controls import Why
from cellule.cli.deploy import Code, ManifestFile
from cellule.cli.errors import usage
from cellule.cli.given import json_of
from cellule.cli.output import counted, harmless
from cellule.cli.session import Session, in_session, operator
from cellule.host.branches.difference import CellDifference, EffectDifference, WorldDifference
from cellule.host.branches.fork import parse_point
from cellule.host.branches.what_if import WhatIf
from cellule.kernel.state.branch import DROP

SHOWN_MAX = 100  # cells and effects that people see; --json has all

Point = Annotated[str, typer.Argument(help="WORLD, WORLD@HEIGHT, WORLD@TIME or WORLD@CID.")]


@in_session
async def diff(session: Session, left: Point, right: Point) -> None:
    """Show what differs between two worlds, or two heights of one."""
    one, other = parse_point(left, is_world=True), parse_point(right, is_world=True)
    assert one.world is not None
    assert other.world is not None
    async with session.reading() as node:
        with session.output.progress("restoring the worlds up to there") as step:
            found = await node.diff_worlds(
                one.world, other.world, left_at=one.at, right_at=other.at, universe=session.universe_name,
                progress=step,
            )  # fmt: skip
        session.output.document(difference_json(found), *difference_lines(found))


ADVANCE_S_MAX = 3_155_760_000.0  # a hundred years


@in_session
async def what_if(
    session: Session,
    event: Annotated[
        list[str] | None, typer.Option("--event", help="An event to send: SCHEMA=JSON. May be repeated.")
    ] = None,
    at: Annotated[str | None, typer.Option("--at", help="Where to begin: HEIGHT or TIME.")] = None,
    deploy: Annotated[bool, typer.Option("--deploy", help="With the app of --app.")] = False,
    manifest: ManifestFile = None, code: Code = None, effects: Effects = DROP, script: ScriptFile = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Send the world's own events from there on again.")
    ] = False,
    advance_s: Annotated[
        float, typer.Option("--advance", help="Seconds that pass after it.", min=0, max=ADVANCE_S_MAX)
    ] = 0,
) -> None:  # fmt: skip
    """Show what would happen: other code, further events, other answers; nothing is written."""
    if deploy and session.app is None:
        raise usage("--deploy tries the app of --app, and none is given")
    events: list[Any] = [_event(each) for each in event or ()]
    async with session.trying() as node:
        with session.output.progress("trying it") as step:
            found = await node.what_if(
                await session.chosen(node), events, at=parse_point(at).at, deploy=deploy, manifest=manifest,
                code=code, effects=effects, script=read_script(script), replay=replay,
                advance=timedelta(seconds=advance_s), universe=session.universe_name, progress=step,
            )  # fmt: skip
        session.output.document(_what_if_json(found), *_what_if_lines(found))


@in_session
async def merge(
    session: Session,
    source: Annotated[str, typer.Argument(help="The world whose changes are taken: a fork.")],
    into: Annotated[str, typer.Argument(help="The world that takes them.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be merged.")] = False,
    why: Why = "asked for",
) -> None:  # fmt: skip
    """Bring the cells that a fork changed into another world, each as a step of its journal."""
    async with session.working() as node:
        found = await node.merge_worlds(
            source, into, dry_run=dry_run, who=operator(), why=why, universe=session.universe_name
        )
        parts = {"merged": found.merged, "overlaps": found.overlaps, "left": found.left}
        data = {
            name: [{"module": each.module, "key": _key(each.key), "outcome": each.outcome} for each in cells]
            for name, cells in parts.items()
        }
        would = "would be " if dry_run else ""
        lines = [f"{counted(len(found.merged), 'cell')} {would}merged from {source} into {into}"]
        lines += [harmless(f"{'-' if each.outcome == 'deleted' else '+'} {each}") for each in found.merged]
        lines += [harmless(f"! changed in both: {each}") for each in found.overlaps]
        lines += [harmless(f"  left out: {each}: {each.outcome}") for each in found.left]
        session.output.document({"common": found.common, "dry_run": dry_run, **data}, *lines)


def _event(text: str) -> tuple[str, Any]:
    schema, separator, value = text.partition("=")
    try:
        return schema, json_of(value if separator else "{}")
    except ValueError as error:
        raise usage("--event {given} is not SCHEMA=JSON: {why}", given=text, why=error) from error


def difference_json(found: WorldDifference) -> dict[str, Any]:
    """A difference as JSON data."""
    return {
        "left": {"world": found.left, "height": found.left_height},
        "right": {"world": found.right, "height": found.right_height},
        "common": found.common, "same": found.same, "complete": found.complete,
        "cells": [{**asdict(each), "key": _key(each.key)} for each in found.cells],
        "effects": [{**asdict(each), "key": _key(each.key)} for each in found.effects],
    }  # fmt: skip


def difference_lines(found: WorldDifference) -> list[str]:
    """The same for people: one line a cell and field, with + - and ~ before them."""
    left, right = f"{found.left} at {found.left_height}", f"{found.right} at {found.right_height}"
    if found.same:
        return [f"{left} and {right} are the same"]
    what = f"{counted(len(found.cells), 'cell')} and {counted(len(found.effects), 'effect')} differ"
    lines = [f"{left}  ->  {right}: {what}; both share the history up to height {found.common}"]
    for cell in found.cells[:SHOWN_MAX]:
        lines += _cell_lines(cell)
    lines += [_effect_line(each) for each in found.effects[:SHOWN_MAX]]
    hidden = max(0, len(found.cells) - SHOWN_MAX) + max(0, len(found.effects) - SHOWN_MAX)
    if hidden:
        lines.append(f"... and {hidden} more: --json shows all")
    if not found.complete:
        lines.append("there is more than one difference tells: compare nearer heights")
    return lines


def _cell_lines(cell: CellDifference) -> list[str]:
    sign = {"added": "+", "removed": "-"}.get(cell.change, "~")
    lines = [f"{sign} {cell.module}/{_key(cell.key)}"]
    if cell.change == "changed":
        told = (f"    {each.path}: {_value(each.left)} -> {_value(each.right)}" for each in cell.fields)
        lines += map(harmless, told)
    else:
        for each in cell.fields:
            value = each.right if cell.change == "added" else each.left
            lines.append(harmless(f"    {each.path}: {_value(value)}"))
    return lines


def _effect_line(each: EffectDifference) -> str:
    sign = "-" if each.side == "left" else "+"
    return harmless(f"{sign} effect {each.kind} of {each.module}/{_key(each.key)}: {_value(each.params)}")


def _what_if_json(found: WhatIf) -> dict[str, Any]:
    return {
        "difference": difference_json(found.difference), "beats": found.beats, "steps": found.steps,
        "failed": list(found.failed), "refused": list(found.refused), "limited": found.limited or None,
    }  # fmt: skip


def _what_if_lines(found: WhatIf) -> list[str]:
    lines = difference_lines(found.difference)
    lines.append(f"{counted(found.steps, 'step')} ran in {counted(found.beats, 'beat')}; nothing was written")
    lines += [harmless(f"! a step failed: {each}") for each in found.failed]
    lines += [harmless(f"! refused: {each}") for each in found.refused]
    return lines + ([f"! {found.limited}"] if found.limited else [])


def _key(key: bytes) -> str:
    try:
        return harmless(key.decode())
    except UnicodeDecodeError:
        return f"0x{key.hex()}"


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
