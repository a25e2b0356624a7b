"""`cellule world snapshots|promote|compact|retention|hold|holds|release|export|import`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from cellule.assembly import Options
from cellule.assembly import open as open_node
from cellule.cli.lines import moment_text
from cellule.cli.output import facts, table
from cellule.cli.session import Session, in_session, operator
from cellule.host.ingress.world_storage import WorldStorage
from cellule.host.own.directory import WorldInfo
from cellule.host.service import Cellule
from cellule.host.storage.policy import KeptHistory, Retention
from cellule.host.storage.snapshot_list import KeptSnapshot
from cellule.store.store import DATABASE
from cellule.values.schema.text_forms import time_text

MaybeName = Annotated[str | None, typer.Argument(help="The world's name.")]
HoldName = Annotated[str, typer.Argument(help="The name of the hold.")]


@in_session
async def snapshots(session: Session, name: MaybeName = None) -> None:
    """List the snapshots that a world keeps; restore starts from the one that is the baseline."""
    async with session.reading() as node:
        found = await (await _storage(session, node, name)).snapshots()
        rows = [
            (
                each.height,
                "*" if each.is_baseline else "",
                moment_text(each.now_ns),
                each.horizon,
                each.cid,
            )
            for each in found
        ]
        shown = table(("HEIGHT", "BASELINE", "TIME", "HORIZON", "SNAPSHOT"), rows)
        session.output.document({"snapshots": [snapshot_json(each) for each in found]}, shown)


@in_session
async def promote(
    session: Session,
    name: Annotated[str, typer.Argument(help="The world's name.")],
    height: Annotated[int, typer.Argument(help="The height of a kept snapshot.")],
    why: Annotated[str, typer.Option(help="Why, for the journal.")] = "asked for",
) -> None:
    """Make an older snapshot the baseline, as when the newest cannot be read."""
    async with session.working() as node:
        made = await (await _storage(session, node, name)).promote(height, who=operator(), why=why)
        session.output.document(snapshot_json(made), f"restore of {name} starts at height {made.height}")


@in_session
async def compact(
    session: Session,
    name: MaybeName = None,
    everything: Annotated[
        bool, typer.Option("--everything", help="All that restore does not need, however new.")
    ] = False,
) -> None:
    """Move old frames of a world out of the rows; a node does it by itself after each snapshot."""
    async with session.reading() as node:
        done = await (await _storage(session, node, name)).compact(everything=everything)
        shown = f"{done.frames:,} frames of {done.bytes / 1e6:,.1f} MB moved into {done.segments} segments"
        if done.dropped:
            shown += f"; heights up to {done.dropped:,} are gone for ever"
        session.output.document(asdict(done), shown)


@in_session
async def retention(
    session: Session,
    name: MaybeName = None,
    history: Annotated[
        str | None, typer.Option(help="keep: for ever. drop: only what the oldest kept snapshot needs.")
    ] = None,
    snapshots: Annotated[int | None, typer.Option(help="How many snapshots are kept.")] = None,
) -> None:
    """Show what is kept of a world, or say it."""
    async with session.reading() as node:
        storage = await _storage(session, node, name)
        if history is None and snapshots is None:
            found = await storage.retention()
        else:
            found = await storage.retain(history=cast("KeptHistory | None", history), snapshots=snapshots)
        session.output.document(asdict(found), _retained(found))


@in_session
async def hold(
    session: Session,
    hold: HoldName,
    height: Annotated[int, typer.Argument(help="The first height that is needed.")],
    name: MaybeName = None,
) -> None:
    """Keep the history of a world from a height on, whatever its retention says."""
    async with session.reading() as node:
        await (await _storage(session, node, name)).hold(hold, height)
        data = {"hold": hold, "height": height}
        session.output.document(data, f"history is kept from height {height} on, for {hold}")


@in_session
async def holds(session: Session, name: MaybeName = None) -> None:
    """List the holds of a world's history."""
    async with session.reading() as node:
        found = await (await _storage(session, node, name)).holds()
        shown = table(("HOLD", "FROM HEIGHT"), [(each.name, each.height) for each in found])
        session.output.document({"holds": [asdict(each) for each in found]}, shown)


@in_session
async def release(session: Session, hold: HoldName, name: MaybeName = None) -> None:
    """Remove a hold of a world's history."""
    async with session.reading() as node:
        await (await _storage(session, node, name)).release(hold)
        session.output.document({"released": hold}, f"the hold {hold} is removed")


@in_session
async def export(
    session: Session,
    name: Annotated[str, typer.Argument(help="The world's name.")],
    file: Annotated[Path, typer.Argument(help="The new file; by custom it ends with .car.")],
    redact: Annotated[
        list[str] | None,
        typer.Option(
            help="A field to leave null; several times. The file is for reading then, and no world."
        ),
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="Write its erasure keys to this file; the export holds none.")
    ] = None,
) -> None:
    """Write a world to one file, for other stores and IPLD tools: journal, snapshots, code, schemas."""
    async with session.reading() as node:
        with session.output.progress("frames") as step:
            done = await node.export_world(
                name, file, redact=redact or (), universe=session.universe_name, progress=step
            )
        moved = None if keys is None else await (await _storage(session, node, name)).export_keys(keys)
        data = {**asdict(done), "path": str(done.path), "root": str(done.root), "redacted": redact or []}
        data["keys"] = 0 if moved is None else moved.found
        size = f"{done.blocks:,} blocks, {done.bytes / 1e6:,.1f} MB"
        left = f" without {', '.join(redact)}, for reading only" if redact else ""
        session.output.document(
            data, f"{name} to height {done.height}{left} in {done.path}: {size}, root {done.root}"
        )


@in_session
async def import_(
    session: Session,
    file: Annotated[Path, typer.Argument(help="What `world export` wrote.")],
    name: Annotated[str | None, typer.Option(help="Another name than the one in the file.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only prove that the file is whole.")] = False,
    keys: Annotated[
        Path | None, typer.Option(help="Take its erasure keys from this file of `world export --keys`.")
    ] = None,
) -> None:
    """Make the world of an exported file; it brings code, so take files only from those you trust."""
    folder = session.address.folder
    if folder is not None and not (folder / DATABASE).exists():
        made = await _proven(file, name)
        if dry_run:
            _tell_proven(session, file, made, here=False)
            return
    async with session.working(create=True) as node:
        made = await node.import_world(file, name=name, dry_run=dry_run, universe=session.universe_name)
        if dry_run:
            here = any(each.id == made.id for each in await node.worlds(session.universe_name))
            _tell_proven(session, file, made, here=here)
            return
        data = _imported(session, made, dry_run=False)
        if keys is not None:
            storage = await node.storage(made.name, universe=session.universe_name)
            moved = await storage.import_keys(keys)
            data |= {"keys": moved.taken, "keys_in_file": moved.found}
        shown = f"world {made.name} is here. Effects that were open wait: cellule effect repair {made.name}"
        session.output.document(data, shown)


async def _proven(file: Path, name: str | None) -> WorldInfo:
    """Prove a file where no store is yet: it is made only for one that is whole."""
    async with open_node("memory:", None, options=Options(tune_process=False, perform=False)) as node:
        return await node.import_world(file, name=name, dry_run=True)


def _imported(session: Session, made: WorldInfo, *, dry_run: bool) -> dict[str, Any]:
    return {"name": made.name, "id": str(made.id), "universe": session.universe_name, "dry_run": dry_run}


def _tell_proven(session: Session, file: Path, made: WorldInfo, *, here: bool) -> None:
    would = "the world is here already" if here else f"it would be world {made.name}"
    data = {**_imported(session, made, dry_run=True), "here": here}
    session.output.document(data, f"{file} is whole: {would}, id {made.id}")


COMMANDS: dict[str, Any] = {
    "snapshots": snapshots, "promote": promote, "compact": compact, "retention": retention, "hold": hold,
    "holds": holds, "release": release, "export": export, "import": import_,
}  # fmt: skip


async def _storage(session: Session, node: Cellule, name: str | None) -> WorldStorage:
    chosen = await session.chosen(node, name)
    return await node.storage(chosen, universe=session.universe_name)


def snapshot_json(each: KeptSnapshot) -> dict[str, Any]:
    """A kept snapshot as JSON data."""
    return {
        "height": each.height, "snapshot": str(each.cid), "beat": each.beat, "time": time_text(each.now_ns),
        "horizon": each.horizon, "baseline": each.is_baseline,
    }  # fmt: skip


def _retained(found: Retention) -> Any:
    history = "for ever" if found.history == "keep" else "what the oldest kept snapshot needs"
    return facts({"history": history, "snapshots": f"{found.snapshots} and the first"})
