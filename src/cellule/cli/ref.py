"""`cellule ref`: names that point to worlds, and may be moved."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from cellule.cli.errors import usage
from cellule.cli.output import table
from cellule.cli.session import Session, in_session
from cellule.host.own.directory import id_of

app = typer.Typer(help="Refs: names that point to worlds, and may be moved.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The ref.")]
World = Annotated[str, typer.Argument(help="The world it points to: name, ref or id.")]


@app.command("list")
@in_session
async def list_(session: Session) -> None:
    """List all names, and the worlds they point to."""
    async with session.reading() as node:
        universe = await session.universe(node)
        refs = [] if universe is None else await node.refs(session.universe_name)
        names = {each.id: each.name for each in await session.worlds(node)}
        data = [{"name": each.name, "id": str(each.world), "world": names.get(each.world)} for each in refs]
        rows = [(each["name"], each["world"] or "(deleted)", each["id"]) for each in data]
        session.output.document({"refs": data}, table(("REF", "WORLD", "ID"), rows))


@app.command()
@in_session
async def create(session: Session, name: Name, world: World) -> None:
    """Give a world one more name."""
    async with session.working() as node:
        made = await node.create_ref(name, world, universe=session.universe_name)
        data = {"name": name, "id": str(made.world)}
        session.output.document(data, f"ref {name} points to {made.world}")


@app.command()
@in_session
async def move(
    session: Session, name: Name, world: World,
    expected: Annotated[
        str | None, typer.Option(help="Refuse unless it points to the world of this id now.")
    ] = None,
) -> None:  # fmt: skip
    """Let a name point to another world: everyone who opens it from now on gets that one."""
    wanted: UUID | None = None
    if expected is not None:
        wanted = id_of(expected)
        if wanted is None:
            raise usage("--expected is the id of a world, not {given}", given=expected)
    async with session.working() as node:
        before = await node.move_ref(name, world, expected=wanted, universe=session.universe_name)
        info = await node.node.directory.world(await node.node.universe(session.universe_name), name)
        data = {"name": name, "id": str(info.id), "before": str(before.world)}
        session.output.document(data, f"ref {name} points to {info.id} now; it pointed to {before.world}")


@app.command()
@in_session
async def delete(session: Session, name: Name) -> None:
    """Remove a name; the world stays."""
    async with session.working() as node:
        gone = await node.delete_ref(name, universe=session.universe_name)
        data = {"deleted": name, "id": str(gone.world)}
        session.output.document(data, f"ref {name} is gone; world {gone.world} stays")
