"""`cellule universe`: the namespaces of a folder."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Annotated, Any

import typer

from cellule.cli.lines import moment_text
from cellule.cli.output import facts, table
from cellule.cli.session import Session, in_session, session_json
from cellule.host.own.directory import UniverseInfo
from cellule.host.own.ownership import SessionInfo
from cellule.host.storage.quotas import Quotas, Usage
from cellule.values.schema.text_forms import time_text

app = typer.Typer(help="Universes: isolated namespaces of worlds.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The universe's name.")]


@app.command()
@in_session
async def create(session: Session, name: Name) -> None:
    """Make a universe."""
    async with session.working(create=True) as node:
        made = await node.create_universe(name)
        session.output.document(universe_json(made), f"universe {made.name} made: {made.id}")


@app.command("list")
@in_session
async def list_(session: Session) -> None:
    """List all universes."""
    async with session.reading() as node:
        found = await node.universes()
        rows = [(each.name, each.id, moment_text(each.created_ns)) for each in found]
        shown = table(("NAME", "ID", "CREATED"), rows)
        session.output.document({"universes": [universe_json(each) for each in found]}, shown)


@app.command()
@in_session
async def show(session: Session, name: Name) -> None:
    """Show one universe and its worlds."""
    async with session.reading() as node:
        found = await node.node.directory.universe(name)
        worlds = await node.node.directory.worlds(found.id)
        data = {**universe_json(found), "worlds": [each.name for each in worlds]}
        pairs = {
            "name": found.name, "id": found.id, "created": moment_text(found.created_ns),
            "worlds": ", ".join(each.name for each in worlds) or "none",
        }  # fmt: skip
        session.output.document(data, facts(pairs))


@app.command()
@in_session
async def sessions(session: Session) -> None:
    """List the nodes of the store: who owns it, since when, and how long that lasts unless it is renewed."""
    async with session.reading() as node:
        found = sorted(await node.sessions(), key=lambda each: (not each.owns, each.since_ns))
        rows = [
            ("owner" if each.owns else "guest", each.host, each.pid, moment_text(each.since_ns), _lasts(each))
            for each in found
        ]
        shown = table(("ROLE", "HOST", "PROCESS", "SINCE", "LASTS"), rows)
        session.output.document({"sessions": [session_json(each) for each in found]}, shown)


@app.command()
@in_session
async def delete(session: Session, name: Name) -> None:
    """Remove a universe that has no worlds."""
    async with session.working() as node:
        await node.delete_universe(name)
        session.output.document({"deleted": name}, f"universe {name} deleted")


def _lasts(session: SessionInfo) -> str:
    """How long a node counts as alive if it is silent from now on."""
    return "as its process" if session.expires_ms is None else f"{session.expires_ms / 1_000:.1f} s"


def universe_json(info: UniverseInfo) -> dict[str, str]:
    """A universe as JSON data."""
    return {"name": info.name, "id": str(info.id), "created": time_text(info.created_ns)}


Most = Annotated[int | None, typer.Option(help="How many it may have; 0 to allow none more.")]


@app.command()
@in_session
async def quota(
    session: Session,
    name: Annotated[str | None, typer.Argument(help="The universe; --universe if it is left out.")] = None,
    worlds: Most = None, snapshots: Most = None, stored_bytes: Most = None, cells: Most = None,
    events_per_s: Most = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all quotas first.")] = False,
) -> None:  # fmt: skip
    """Show the quotas of a universe and how much of each is used, or set some."""
    given = {
        "worlds": worlds, "snapshots": snapshots, "stored_bytes": stored_bytes, "cells": cells,
        "events_per_s": events_per_s,
    }  # fmt: skip
    changes = {each: most for each, most in given.items() if most is not None}
    universe = name or session.universe_name
    async with session.reading() as node:
        quotas = await node.quotas(universe)
        if changes or clear:
            quotas = replace(Quotas() if clear else quotas, **changes)
            await node.set_quotas(quotas, universe=universe)
        usage = await node.usage(universe)
        data = {"universe": universe, "quotas": asdict(quotas), "usage": asdict(usage)}
        session.output.document(data, table(("QUOTA", "USED", "ALLOWED"), _rows(quotas, usage)))


def _rows(quotas: Quotas, usage: Usage) -> list[tuple[Any, ...]]:
    rows = []
    for field in fields(Quotas):
        most, used = getattr(quotas, field.name), getattr(usage, field.name, "")
        rows.append((field.name, used, "any" if most is None else most))
    return rows
