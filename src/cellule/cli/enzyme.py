"""`cellule enzyme`: the functions that signals run, and where their names are bound."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from cellule.cli.controls import Act, perform, perform_on
from cellule.cli.output import table
from cellule.cli.session import Session, in_session
from cellule.host.read.heartbeat import PAGE_MAX, EnzymeView

app = typer.Typer(help="Enzymes: functions that signals run.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The name that enzymes are registered by.")]
Path = Annotated[str, typer.Argument(help="A node of the tree.")]


@app.command("list")
@in_session
async def list_(
    session: Session,
    after: Annotated[int | None, typer.Option(help="Behind the entry of this number.", min=0)] = None,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=PAGE_MAX)] = 100,
) -> None:
    """List the registry in the order of registration."""
    async with session.world_to_read() as world:
        found = await world.heartbeat.enzymes(after=after, limit=limit)
        columns = ("NUMBER", "NAME", "QUERY", "MATCH", "ACCESS", "ORDER", "MODULE")
        shown = table(columns, map(_row, found)) if found else f"world {world.name} has no enzymes"
        data = {"world": world.name, "enzymes": [asdict(each) for each in found]}
        session.output.document(data, shown)


@app.command()
@in_session
async def register(
    session: Session,
    act: Act,
    query: Annotated[str, typer.Argument(help="The signals it runs for, such as /signals/image/*.")],
    name: Name,
    module: Annotated[str, typer.Argument(help="Its code: a module of the app, such as shop/resize.")],
    match: Annotated[str, typer.Option(help="exact, or prefix for signals that go on behind it.")] = "exact",
    before: Annotated[list[str] | None, typer.Option(help="Names that it runs ahead of.")] = None,
    after: Annotated[list[str] | None, typer.Option(help="Names that it runs behind.")] = None,
    access: Annotated[str, typer.Option(help="rw, or ro for one that may not write.")] = "rw",
) -> None:
    """Register one more entry, for code that the world has."""
    entry: dict[str, Any] = {
        "query": query, "name": name, "module": module, "match": match, "before": before or [],
        "after": after or [], "access": access,
    }  # fmt: skip
    await perform(session, None, "enzyme.register", act, entry=entry)


@app.command()
@in_session
async def unregister(
    session: Session,
    act: Act,
    number: Annotated[int, typer.Argument(help="The entry's number, as `enzyme list` tells it.", min=0)],
) -> None:
    """Take an entry out of the registry."""
    await perform(session, None, "enzyme.unregister", act, number=number)


@app.command()
@in_session
async def bind(
    session: Session,
    act: Act,
    path: Path,
    name: Name,
    propagate: Annotated[bool, typer.Option("--propagate", help="For all nodes below it, too.")] = False,
) -> None:
    """Bind the enzymes of a name to a node."""
    async with session.world_to_change() as world:
        arguments: dict[str, Any] = {"path": path, "name": name, "propagate": propagate}
        await perform_on(session, world, "enzyme.bind", act, **arguments)


@app.command()
@in_session
async def unbind(session: Session, act: Act, path: Path, name: Name) -> None:
    """End a binding at a node, also one that is passed on to it."""
    async with session.world_to_change() as world:
        arguments: dict[str, Any] = {"path": path, "name": name}
        await perform_on(session, world, "enzyme.unbind", act, **arguments)


@app.command()
@in_session
async def bindings(session: Session, path: Path) -> None:
    """Show what is bound at one node."""
    async with session.world_to_read() as world:
        found = await world.heartbeat.bindings(path)
        shown = table(("NAME", "BINDING"), found.items()) if found else f"nothing is bound at {path}"
        session.output.document({"world": world.name, "path": path, "bindings": dict(found)}, shown)


def _row(each: EnzymeView) -> tuple[str, ...]:
    order = [f"before {', '.join(each.before)}"] if each.before else []
    order += [f"after {', '.join(each.after)}"] if each.after else []
    return (str(each.number), each.name, each.query, each.match, each.access, "; ".join(order), each.module)
