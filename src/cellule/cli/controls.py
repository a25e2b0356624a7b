"""Operator verbs: journaled with who and why, by the owner or through its inbox."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cellule.cli.errors import usage
from cellule.cli.given import json_of
from cellule.cli.lines import cell_text
from cellule.cli.output import counted
from cellule.cli.session import Session, cell_of, operator, renderer_of, within
from cellule.errors import Rejected
from cellule.host.codecs import StoredCodecs
from cellule.host.ingress.handles import WorldHandle
from cellule.host.read.reader import Reader
from cellule.host.read.record_view import key_text
from cellule.kernel.items import Verb
from cellule.kernel.manifest.model import Manifest

Why = Annotated[str, typer.Option(help="The reason, for the journal.")]
Id = Annotated[str | None, typer.Option(help="Doing it again with the same id changes nothing.")]
Payload = Annotated[str | None, typer.Option(help="A value as JSON; - reads it from standard input.")]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait for the outcome.", min=0.1)]


@dataclass(frozen=True, slots=True)
class Act:
    """The options of every command that changes a world."""

    why: Why = "asked for"
    timeout_s: Timeout = 30.0


@dataclass(frozen=True, slots=True)
class Once(Act):
    """The same, of a command that may be done again with its id."""

    id: Id = None


async def perform(session: Session, name: str | None, verb: Verb, act: Act, **arguments: Any) -> None:
    """Do one verb on a world, and say what it did."""
    async with session.world_to_change(name) as world:
        await perform_on(session, world, verb, act, **arguments)


async def perform_on(session: Session, world: WorldHandle, verb: Verb, act: Act, **arguments: Any) -> None:
    """Do one verb on an open world."""
    id = act.id if isinstance(act, Once) else None
    async with within(act.timeout_s, f"the outcome of {verb}"):
        done = await world.control(verb, who=operator(), why=act.why, id=id, **arguments)
    told = await renderer_of(world).at(done.height)
    before = "done already, " if done.duplicate else ""
    text = f"{before}{verb} of world {world.name} at height {done.height}"
    if "cells" in told.fields:
        cells = ", ".join(cell_text(each) for each in told.fields["cells"][:20])
        text += f": {counted(len(told.fields['cells']), 'cell')}{f' ({cells})' if cells else ''}"
        if {"more", "next"} & told.fields["arguments"].keys():
            text += ", and more in the beats after it"
    session.output.document({"world": world.name, "duplicate": done.duplicate, **told.json()}, text)


def confirm(session: Session, what: str, question: str) -> None:
    """Ask before something that cannot be undone; where nobody can be asked, `--yes` has to be there."""
    if session.output.as_json or not sys.stdin.isatty():
        raise usage("{what} cannot be undone", what=what, hint="Say --yes if you are sure.")
    if not typer.confirm(question):
        raise typer.Abort


def parsed_value(text: str) -> Any:
    """A value as JSON; `-` reads it from standard input."""
    try:
        return json_of(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise Rejected(
            "cli.json", "the value is not JSON: {why}", why=str(error),
            hint="""Quote it for the shell: '{"id": "ch_1"}' is a record, '"ch_1"' a text.""",
        ) from error  # fmt: skip


def given_value(text: str | None) -> Any:
    """The value of an option, None where it was not given."""
    return None if text is None else parsed_value(text)


async def perform_on_cells(
    session: Session, verb: Verb, module: str | None, key: str, act: Act, **extra: Any
) -> None:  # fmt: skip
    """Do one verb on a cell, on a module's cells, or on all."""
    async with session.world_to_change() as world:
        named = _named(await renderer_of(world).manifest(), module, key)
        await perform_on(session, world, verb, act, **extra, **named)


async def tell(session: Session, world: WorldHandle, height: int, text: str, **extra: Any) -> None:
    """Say what a command led to: the record at a height, for people with the outcome it settled by."""
    told = await renderer_of(world).at(height)
    text = text.replace("{status}", str(told.fields.get("status")))
    session.output.document({"world": world.name, **extra, **told.json()}, f"{text} at height {height}")


async def preview_migration(session: Session, module: str | None, key: str, extra: dict[str, Any]) -> None:
    """Show what a migration would do."""
    async with session.working() as node:
        info = await session.info(node)
        reader = Reader(node.node, info)  # a handle would bring the app in
        manifest = await reader.manifest()
        found = await reader.preview_migration({**extra, **_named(manifest, module, key)})
    moves = [
        {"module": base, "from": era, "to": to, "cells": count}
        for (base, era, to), count in sorted(found.moves.items())
    ]
    stays = [
        {"module": each.module, "key": key_text(manifest, each.module, each.key), "why": each.why}
        for each in found.stays
    ]
    lines = [
        f"{base}: {counted(count, 'cell')} of era {era} would move to era {to}"
        for (base, era, to), count in sorted(found.moves.items())
    ]
    lines += [f"! {each['module']}/{each['key']} stays: {each['why']}" for each in stays]
    data = {"world": info.name, "moves": moves, "released": found.released, "stays": stays}
    whole = "" if found.is_whole else "; there are more"
    shown = {**data, "batches": found.batches, "whole": found.is_whole}
    session.output.document(shown, *lines, f"nothing was changed{whole}")


def _named(manifest: Manifest, module: str | None, key: str) -> dict[str, Any]:
    """The cells that a person means, as arguments of a verb."""
    if module is None:
        return {}
    base = StoredCodecs(manifest).module(module)
    if key or manifest.modules[base].cell_key is None:
        return {"module": base, "key": cell_of(manifest, module, key)[1]}
    return {"module": base}
