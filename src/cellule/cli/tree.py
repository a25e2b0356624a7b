"""`cellule tree`: the values of a world by paths."""

from __future__ import annotations

from typing import Annotated

import typer

from cellule.cli.controls import Act, parsed_value, perform
from cellule.cli.output import json_text
from cellule.cli.session import Session, in_session, until_interrupted
from cellule.errors import Rejected
from cellule.host.read.heartbeat import PAGE_MAX
from cellule.values.json_view import to_json

app = typer.Typer(help="The tree: values by paths, and what is recorded below /rt.", no_args_is_help=True)

Path = Annotated[str, typer.Argument(help="A path, such as /env/fs/projects.")]


@app.command("list")
@in_session
async def list_(
    session: Session,
    path: Path = "/",
    after: Annotated[str | None, typer.Option(help="Behind this name.")] = None,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=PAGE_MAX)] = 100,
) -> None:
    """List the names right below a path."""
    async with session.world_to_read() as world:
        names = await world.heartbeat.list(path, after=after, limit=limit)
        shown = names or [f"there is nothing below {path}"]
        session.output.document({"world": world.name, "path": path, "names": names}, *shown)


@app.command()
@in_session
async def read(session: Session, path: Path) -> None:
    """Show the value at a path."""
    async with session.reading() as node:
        world = await session.world(node)
        if not await world.heartbeat.exists(path):
            raise Rejected(
                "heartbeat.no_node", "there is no node {path}", path=path,
                hint="`cellule tree list` shows what there is.",
            )  # fmt: skip
        value = to_json(await world.heartbeat.read(path))
        session.output.document(
            {"world": world.name, "path": path, "value": value}, json_text(value, indent=2)
        )


@app.command()
@until_interrupted
async def watch(
    session: Session,
    path: Path = "/",
    after: Annotated[int | None, typer.Option(help="Begin behind this height.", min=0)] = None,
    count: Annotated[int | None, typer.Option(help="Stop after so many changes.", min=1)] = None,
) -> None:
    """Show changes at a path and below it as they come."""
    async with session.world_to_read() as world:
        left = count
        async for change in world.heartbeat.watch(path, after=after):
            value = to_json(change.value)
            data = {
                "path": change.path, "value": value, "exists": change.exists, "height": change.height,
                "beat": change.beat,
            }  # fmt: skip
            text = json_text(value) if change.exists else "is gone"
            session.output.line(data, f"{change.height}  {change.path}  {text}")
            left = None if left is None else left - 1
            if left == 0:
                return


@app.command()
@in_session
async def write(
    session: Session,
    act: Act,
    path: Path,
    value: Annotated[
        str | None, typer.Argument(help="As JSON; - reads standard input; none: a folder.")
    ] = None,
) -> None:
    """Give a node a value, and make those above it that are missing."""
    held = {} if value is None else {"value": parsed_value(value)}
    await perform(session, None, "tree.write", act, path=path, **held)


@app.command()
@in_session
async def delete(session: Session, act: Act, path: Path) -> None:
    """Delete a node and all below it."""
    await perform(session, None, "tree.delete", act, path=path)
