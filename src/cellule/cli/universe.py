"""`cellule universe`: the namespaces of a folder."""

from __future__ import annotations

from typing import Annotated

import typer

from cellule.cli.lines import moment_text
from cellule.cli.output import facts, table
from cellule.cli.session import Session, session_of
from cellule.host.own.directory import UniverseInfo
from cellule.values.schema.text_forms import time_text

app = typer.Typer(help="Universes: isolated namespaces of worlds.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The universe's name.")]


@app.command()
def create(context: typer.Context, name: Name) -> None:
    """Make a universe."""
    session = session_of(context)
    session.run(_create(session, name))


@app.command("list")
def list_(context: typer.Context) -> None:
    """List all universes."""
    session = session_of(context)
    session.run(_list(session))


@app.command()
def show(context: typer.Context, name: Name) -> None:
    """Show one universe and its worlds."""
    session = session_of(context)
    session.run(_show(session, name))


@app.command()
def delete(context: typer.Context, name: Name) -> None:
    """Remove a universe that has no worlds."""
    session = session_of(context)
    session.run(_delete(session, name))


async def _create(session: Session, name: str) -> None:
    async with session.working(create=True) as node:
        made = await node.create_universe(name)
        session.output.document(universe_json(made), f"universe {made.name} made: {made.id}")


async def _list(session: Session) -> None:
    async with session.reading() as node:
        found = await node.universes()
        rows = [(each.name, each.id, moment_text(each.created_ns)) for each in found]
        shown = table(("NAME", "ID", "CREATED"), rows)
        session.output.document({"universes": [universe_json(each) for each in found]}, shown)


async def _show(session: Session, name: str) -> None:
    async with session.reading() as node:
        found = await node.node.directory.universe(name)
        worlds = await node.node.directory.worlds(found.id)
        data = {**universe_json(found), "worlds": [each.name for each in worlds]}
        pairs = {
            "name": found.name, "id": found.id, "created": moment_text(found.created_ns),
            "worlds": ", ".join(each.name for each in worlds) or "none",
        }  # fmt: skip
        session.output.document(data, facts(pairs))


async def _delete(session: Session, name: str) -> None:
    async with session.working() as node:
        await node.delete_universe(name)
        session.output.document({"deleted": name}, f"universe {name} deleted")


def universe_json(info: UniverseInfo) -> dict[str, str]:
    """A universe as JSON data."""
    return {"name": info.name, "id": str(info.id), "created": time_text(info.created_ns)}
