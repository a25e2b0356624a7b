"""`cellule world`: the worlds of a universe."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cellule.cli.branch import fork, from_template, live, tree
from cellule.cli.compare import diff, merge, what_if
from cellule.cli.controls import Act, Once, confirm, perform
from cellule.cli.deploy import Code, ManifestFile, MaybeName, deploy
from cellule.cli.errors import usage
from cellule.cli.migrate_cells import migrate_cells
from cellule.cli.output import facts, harmless, table
from cellule.cli.session import Session, in_session, operator, owner_of, renderer_of, within
from cellule.host.own.directory import WorldInfo, baseline_of, read_head
from cellule.host.read.cell_list import Listing, list_world
from cellule.host.service import Cellule
from cellule.kernel.manifest.model import Manifest
from cellule.store import keys
from cellule.values.schema.text_forms import time_text

app = typer.Typer(help="Worlds: a journal and the state it leads to.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The world's name.")]


@app.command()
@in_session
async def create(
    session: Session, name: Name, manifest: ManifestFile = None, code: Code = None,
    template: Annotated[
        str | None, typer.Option("--from", help="A world to begin as: NAME, NAME@HEIGHT or NAME@CID.")
    ] = None,
) -> None:  # fmt: skip
    """Make a world that runs the app of --app, or a manifest, or begins as another one."""
    if template is not None:
        if manifest is not None or code is not None:
            raise usage("a world begins as another one, or with a manifest: give --from or --manifest")
        await from_template(session, name, template)
        return
    async with session.working(create=session.app is not None or manifest is not None) as node:
        info = await node.create_world(name, manifest=manifest, code=code, universe=session.universe_name)
        data = world_json(info, session.universe_name)
        session.output.document(data, f"world {info.name} made: {info.id}")


app.command()(deploy)
app.command("migrate-cells")(migrate_cells)
app.command()(fork)
app.command()(tree)
app.command()(live)
app.command()(diff)
app.command("what-if")(what_if)
app.command()(merge)


@app.command("list")
@in_session
async def list_(session: Session) -> None:
    """List the worlds of the universe."""
    async with session.reading() as node:
        worlds = await session.worlds(node)
        heads = [await read_head(node.node.engine, info) for info in worlds]
        data = [
            {**world_json(info, session.universe_name), "height": head.height}
            for info, head in zip(worlds, heads, strict=True)
        ]
        rows = [(each["name"], each["height"], each["id"], each["created"]) for each in data]
        session.output.document({"worlds": data}, table(("NAME", "HEIGHT", "ID", "CREATED"), rows))


@app.command()
@in_session
async def show(session: Session, name: MaybeName = None) -> None:
    """Show one world: where its journal ends, its cells, events and code."""
    async with session.reading() as node:
        world = await session.world(node, name)
        with session.output.progress("reading the world") as step:
            listing = await list_world(world.follower, step)
        manifest = await renderer_of(world).manifest()
        data = await _described(node, world.info, listing, manifest, session.universe_name)
        session.output.document(data, *_shown(data))


@app.command()
@in_session
async def delete(
    session: Session,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also one that others were forked from: they lose that history.")
    ] = False,
) -> None:
    """Remove a world and everything it wrote."""
    async with session.working() as node:
        info = await session.info(node, name)
        await node.node.check_owner()
        if not yes:
            question = f"Delete world {harmless(name)} and everything in it? This cannot be undone."
            confirm(session, f"deleting world {name}", question)
        await node.delete_world(name, force=force, universe=session.universe_name)
        data = {"deleted": name, "id": str(info.id)}
        session.output.document(data, f"world {name} deleted")


@app.command()
@in_session
async def snapshot(session: Session, act: Act, name: MaybeName = None) -> None:
    """Take a snapshot now; the next start begins there."""
    async with session.world_to_change(name) as world:
        async with within(act.timeout_s, "the snapshot"):
            height, cid = await world.snapshot(who=operator(), why=act.why)
        data = {"world": world.name, "height": height, "snapshot": str(cid)}
        session.output.document(data, f"snapshot of {world.name} at height {height}: {cid}")


@app.command()
@in_session
async def pause(session: Session, act: Once, name: MaybeName = None) -> None:
    """Stop all steps and timers; events are still taken and kept."""
    await perform(session, name, "pause", act)


@app.command()
@in_session
async def resume(session: Session, act: Once, name: MaybeName = None) -> None:
    """Let a paused world go on."""
    await perform(session, name, "resume", act)


@app.command("accept-clock")
@in_session
async def accept_clock(session: Session, act: Once, name: MaybeName = None) -> None:
    """Believe this machine's clock although it is far ahead of the world's last beat."""
    await perform(session, name, "clock.accept", act)


async def _described(
    node: Cellule, info: WorldInfo, listing: Listing, manifest: Manifest, universe: str
) -> dict[str, Any]:
    head = await read_head(node.node.engine, info)
    [baseline] = await node.node.engine.read([keys.world_baseline(info.universe, info.id)])
    counts = await listing.counts()
    modules = [
        {
            "name": module.name, "cells": counts.get(base, 0), "events": sorted(module.events),
            "state": module.state,
        }
        for base, module in sorted(manifest.modules.items())
    ]  # fmt: skip
    return {
        **world_json(info, universe), "height": head.height, "beat": head.beat,
        "as_of": {"height": listing.height, "time": time_text(listing.now_ns)},
        "baseline": None if baseline is None else baseline_of(baseline)[0], "paused": listing.paused,
        "owner": await owner_of(node), "eras": len(listing.eras), "manifest": str(manifest.cid),
        "modules": modules, "events": sorted(name for name in manifest.routes if not name.startswith("sys/")),
    }  # fmt: skip


def _shown(data: dict[str, Any]) -> tuple[Any, ...]:
    pairs = {
        "world": f"{data['name']} ({data['id']}) in {data['universe']}", "created": data["created"],
        "height": f"{data['height']} (beat {data['beat']}), newest {data['as_of']['time']}",
        "baseline": data["baseline"], "paused": "yes" if data["paused"] else "no",
        "owner": data["owner"]["text"] if data["owner"] else "nobody: the store is not in use",
        "era": f"{data['eras'] - 1}, manifest {data['manifest']}",
    }  # fmt: skip
    rows = [(each["name"], each["cells"], ", ".join(each["events"])) for each in data["modules"]]
    return facts(pairs), "", table(("MODULE", "CELLS", "TAKES"), rows)


def world_json(info: WorldInfo, universe: str) -> dict[str, Any]:
    """A world as JSON data."""
    created = time_text(info.created_ns)
    return {"name": info.name, "id": str(info.id), "universe": universe, "created": created}
