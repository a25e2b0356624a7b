"""Worlds as branches on the command line: forking, templates, the tree of forks, going live."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cellule.cli.controls import Once, Why, perform
from cellule.cli.errors import usage
from cellule.cli.given import json_of
from cellule.cli.output import write_file
from cellule.cli.session import Session, in_session, operator
from cellule.cli.tree_picture import tree_svg, tree_text
from cellule.errors import Rejected
from cellule.host.branches.fork import parse_point
from cellule.host.branches.lineage import Branching, tree_of
from cellule.host.ingress.handles import WorldHandle
from cellule.host.service import Cellule
from cellule.kernel.state.branch import DROP

At = Annotated[
    str | None, typer.Option("--at", help="Where: HEIGHT, TIME, or another world: REF or REF@HEIGHT.")
]
Effects = Annotated[str, typer.Option(help="Effects that are open there: drop, keep, recorded or scripted.")]
ScriptFile = Annotated[
    Path | None, typer.Option("--script", help="A JSON file of answers, for --effects scripted.")
]
Live = Annotated[bool, typer.Option("--live", help="Perform external effects; without it they are held.")]


@in_session
async def fork(
    session: Session, name: Annotated[str, typer.Argument(help="The name of the new world.")],
    at: At = None, effects: Effects = DROP, live: Live = False, script: ScriptFile = None,
    why: Why = "asked for",
) -> None:  # fmt: skip
    """Make a world that begins where another one stands, or stood."""
    answers = read_script(script)
    async with session.working() as node:
        point = parse_point(at)
        source = point.world or await session.chosen(node)
        with session.output.progress("restoring the world up to there") as step:
            made = await node.fork_world(
                source, name, at=point.at, effects=effects, live=live, script=answers, who=operator(),
                why=why, universe=session.universe_name, progress=step,
            )  # fmt: skip
        session.output.document(await _described(session, node, made), await _said(node, made))


async def from_template(session: Session, name: str, template: str) -> None:
    """Make a world that begins as another one stands, and performs its effects."""
    async with session.working() as node:
        point = parse_point(template, is_world=True)
        assert point.world is not None
        made = await node.fork_world(
            point.world, name, at=point.at, live=True, who=operator(), why=f"made from {template}",
            universe=session.universe_name,
        )  # fmt: skip
        session.output.document(await _described(session, node, made), await _said(node, made))


@in_session
async def live(
    session: Session, act: Once, name: Annotated[str | None, typer.Argument(help="The world's name.")] = None
) -> None:
    """Let a fork perform its external effects from now on; those that it holds wait to be approved."""
    await perform(session, name, "fork.live", act)


@in_session
async def tree(
    session: Session,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write it as a picture to this file.")] = None,
) -> None:
    """Show which worlds were forked from which."""
    async with session.reading() as node:
        trees = tree_of(await session.worlds(node))
        if svg is not None:
            write_file(svg, tree_svg(trees))
        data = {"worlds": [_json(each) for each in trees]}
        session.output.document(data, tree_text(trees) or "there is no world yet")
        if svg is not None:
            session.output.note(f"written to {svg}")


def read_script(path: Path | None) -> Any:
    """The answers that a file holds; `-` is standard input."""
    if path is None:
        return None
    try:
        return json_of(path.read_text("utf-8"))
    except OSError as error:
        raise usage(
            "the script {path} cannot be read: {why}", path=str(path), why=error.strerror or error
        ) from error
    except ValueError as error:
        raise usage("the script {path} is no JSON: {why}", path=str(path), why=error) from error


async def _described(session: Session, node: Cellule, made: WorldHandle) -> dict[str, Any]:
    origin = made.info.origin
    assert origin is not None
    return {
        "name": made.name, "id": str(made.id), "universe": session.universe_name,
        "parent": str(origin.parent), "parent_name": await _name_of(node, made), "height": origin.height,
        "effects": origin.effects, "live": origin.live,
        "answers": 0 if origin.answers is None else origin.answers[1],
    }  # fmt: skip


async def _said(node: Cellule, made: WorldHandle) -> str:
    origin = made.info.origin
    assert origin is not None
    text = f"world {made.name} begins as {await _name_of(node, made)} at height {origin.height}: {made.id}"
    return (
        text
        if origin.live
        else f"{text}\nits external effects are held: cellule effect list --world {made.name}"
    )


async def _name_of(node: Cellule, made: WorldHandle) -> str:
    assert made.info.origin is not None
    parent = made.info.origin.parent
    try:
        info = await node.node.directory.listed(made.info.universe, parent)
    except Rejected:
        info = None
    return str(parent) if info is None else info.name


def _json(branching: Branching) -> dict[str, Any]:
    return {
        "name": branching.name, "id": str(branching.world), "deleted": branching.info is None,
        "height": branching.height, "forks": [_json(each) for each in branching.children],
    }  # fmt: skip
