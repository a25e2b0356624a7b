"""`cellule cell`: the cells of a world, now and in the past."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.json import JSON

from cellule.cli.cell_list import Wanted, list_cells
from cellule.cli.cell_removal import delete, erase
from cellule.cli.cell_versions import history_json, read_versions, version_line
from cellule.cli.controls import Once, perform_on_cells, preview_migration
from cellule.cli.correlation import Correlation, correlations
from cellule.cli.errors import usage
from cellule.cli.given import number_of
from cellule.cli.lines import record_line
from cellule.cli.output import compact, counted, facts, write_file
from cellule.cli.session import (
    Session,
    cell_of,
    in_session,
    renderer_of,
    until_interrupted,
)
from cellule.errors import Rejected
from cellule.host.codecs import StoredCodecs
from cellule.host.ingress.cell_handle import CellHandle
from cellule.host.ingress.handles import WorldHandle
from cellule.host.ingress.outcomes import CellView
from cellule.host.limits import HISTORY_MAX
from cellule.host.own.suggestions import suggestion
from cellule.host.read.cell_list import PAGE_MAX, START, list_world
from cellule.host.read.record_view import RecordRenderer
from cellule.kernel.journal.records import Record, StepRecord
from cellule.kernel.limits import DROP_PER_CONTROL_MAX
from cellule.values.schema.text_forms import time_of_text, time_text

app = typer.Typer(help="Cells: one instance of a module per key.", no_args_is_help=True)

Module = Annotated[str, typer.Argument(help="The module, with or without its namespace.")]
Key = Annotated[str, typer.Argument(help="The cell's key; leave it out for a module without keys.")]
At = Annotated[str | None, typer.Option(help="A height, or a time such as 2026-01-31T12:00:00Z.")]


@app.command("list")
@in_session
async def list_(
    session: Session,
    module: Annotated[str | None, typer.Argument(help="Only cells of this module.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Only keys (of text) that begin with this.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="Only this key and those after it.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Only keys before this one.")] = None,
    limit: Annotated[int, typer.Option(help="Cells a page has at most.", min=1, max=PAGE_MAX)] = 50,
    after: Annotated[str | None, typer.Option(help="The cursor of the page before.")] = None,
    where: Annotated[
        str | None, typer.Option(help="Only cells of which this is true: CEL over state, key, status ...")
    ] = None,
    states: Annotated[bool, typer.Option("--states", help="With their states.")] = False,
    correlation: Annotated[str | None, typer.Option(help="Only runs of plans with this id.")] = None,
) -> None:
    """List cells in the order of their keys, a page at a time, as of the newest durable beat."""
    await list_cells(session, Wanted(module, prefix, start, end, where, states, correlation), limit, after)


@app.command()
@in_session
async def show(session: Session, module: Module, key: Key = "", at: At = None) -> None:
    """Show a cell's state, now or as it was."""
    async with session.world_to_read() as world:
        renderer = renderer_of(world)
        cell = await _cell(world, renderer, module, key)
        height = None if at is None else await _height(world, renderer, at)
        view = await cell.view(at=height)
        if view is None:
            raise await _no_cell(world, renderer, cell, height)
        data = {"world": world.name, **await _view_json(renderer, cell, view)}
        if height is not None:
            data["at"] = height
        pairs = {
            "cell": f"{data['module']} {data['key']}".strip(), "version": view.version,
            "status": view.status + (f": {view.reason}" if view.reason != "an event" else ""),
            "queue": view.queue, "last step": f"height {view.height}, {data['active']}",
            "born": f"height {view.born}, era {view.era}",
            "size": f"{view.size} bytes",
        }  # fmt: skip
        if height is not None:
            pairs["as of"] = f"height {height}"
        session.output.document(data, facts(pairs), JSON(compact(view.state), ensure_ascii=False))


@app.command()
@in_session
async def history(
    session: Session,
    module: Module,
    key: Key = "",
    limit: Annotated[int, typer.Option(help="Versions, newest first.", min=1, max=HISTORY_MAX - 1)] = 20,
    correlation: Correlation = None,
) -> None:
    """Show a cell's versions and what changed in each."""
    async with session.world_to_read() as world:
        renderer = renderer_of(world)
        cell = await _cell(world, renderer, module, key)
        with session.output.progress("reading the history") as step:
            versions, more = await read_versions(cell, limit + 1 if correlation is None else None, step)
        if not versions:
            raise await _no_cell(world, renderer, cell, None)
        story = await correlations(world, renderer, correlation)
        rows = [each for each in history_json(versions) if await story.has(each["height"])]
        shown = rows[:limit]
        name = {"module": cell.module, "key": await renderer.key(cell.module, cell.key)}
        data = {"world": world.name, **name, "versions": shown, "more": more or len(rows) > limit}
        session.output.document(data, *(version_line(each) for each in shown))


@app.command()
@until_interrupted
async def tail(
    session: Session, module: Module, key: Key = "",
    count: Annotated[int | None, typer.Option(help="Stop after so many steps.", min=1)] = None,
    correlation: Correlation = None,
) -> None:  # fmt: skip
    """Follow a cell: its steps as they happen, until interrupted."""
    async with session.world_to_read() as world:
        renderer = renderer_of(world)
        cell = await _cell(world, renderer, module, key)
        name = await renderer.key(cell.module, cell.key)
        left = count
        head = await world.head()
        session.output.note(f"following {cell.module} {name} in {world.name} from height {head.height}")
        story = await correlations(world, renderer, correlation)
        async for frame in world.tail(head.height):
            for told in await renderer.frame(frame, _steps_of(cell)):
                if not await story.has(told.height):
                    continue
                session.output.line(told.json(), record_line(told))
                left = None if left is None else left - 1
                if left == 0:
                    return


@app.command()
@in_session
async def export(
    session: Session, module: Module, key: Key = "",
    output: Annotated[Path | None, typer.Option(help="Write to this file.", dir_okay=False)] = None,
) -> None:  # fmt: skip
    """Write a cell's state and whole history as one JSON document."""
    async with session.world_to_read() as world:
        renderer = renderer_of(world)
        cell = await _cell(world, renderer, module, key)
        view = await cell.view()
        with session.output.progress("reading the history") as step:
            found, _ = await read_versions(cell, None, step)
        if view is None and not found:
            raise await _no_cell(world, renderer, cell, None)
        versions = history_json(found)
        name = {"module": cell.module, "key": await renderer.key(cell.module, cell.key), "state": None}
        data: dict[str, Any] = {"world": world.name, "world_id": str(world.id)}
        data |= name if view is None else await _view_json(renderer, cell, view)
        data["history"] = versions
        text = json.dumps(data, ensure_ascii=False, indent=2)
        if output is None:
            session.output.document(data, JSON(text))
            return
        write_file(output, text + "\n")
        told = {"file": str(output), "versions": len(versions)}
        session.output.document(told, f"{counted(len(versions), 'version')} written to {output}")


@app.command()
@in_session
async def resume(
    session: Session, act: Once,
    module: Annotated[str | None, typer.Argument(help="Of this module only.")] = None,
    key: Annotated[str, typer.Argument(help="This cell only.")] = "",
) -> None:  # fmt: skip
    """Let stopped cells try again: one, a module's, or all."""
    await perform_on_cells(session, "cell.resume", module, key, act)


@app.command()
@in_session
async def halt(
    session: Session, act: Once, module: Annotated[str, typer.Argument(help="The cell's module.")],
    key: Annotated[str, typer.Argument(help="The cell's key.")] = "",
) -> None:  # fmt: skip
    """Stop one cell until it is resumed; its messages are kept."""
    await perform_on_cells(session, "cell.halt", module, key, act)


@app.command()
@in_session
async def migrate(
    session: Session, act: Once,
    module: Annotated[str | None, typer.Argument(help="Of this module only.")] = None,
    key: Annotated[str, typer.Argument(help="This cell only.")] = "",
    all: Annotated[
        bool, typer.Option("--all", help="Also cells that would follow at their next event, or are pinned.")
    ] = False,
    to: Annotated[int | None, typer.Option(help="Move pinned cells to this era.", min=0)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would move.")] = False,
) -> None:  # fmt: skip
    """Move cells to the current code: one, or those of a module or of the world that wait for it."""
    if key and all:
        raise usage("--all is for a module or the world, not for one cell", hint="Leave out the key.")
    extra: dict[str, Any] = {"all": True} if all else {}
    extra |= {} if to is None else {"to": to}
    if dry_run:
        await preview_migration(session, module, key, extra)
    else:
        await perform_on_cells(session, "cell.migrate", module, key, act, **extra)


@app.command()
@in_session
async def drop(
    session: Session, act: Once, module: Module,
    key: Annotated[str, typer.Argument(help="This cell only; else every stopped cell of the module.")] = "",
    count: Annotated[
        int, typer.Option(help="So many events of one cell.", min=1, max=DROP_PER_CONTROL_MAX)
    ] = 1,
) -> None:  # fmt: skip
    """Take the first event out of a stopped cell's queue; the cell goes on with the next one."""
    extra = {"count": count} if count > 1 else {}
    await perform_on_cells(session, "cell.drop", module, key, act, **extra)


app.command()(delete)
app.command()(erase)


def _steps_of(cell: CellHandle[Any]) -> Callable[[int, Record], bool]:
    def is_step(_height: int, record: Record) -> bool:
        return isinstance(record, StepRecord) and (record.module, record.key) == (cell.module, cell.key)

    return is_step


async def _cell(world: WorldHandle, renderer: RecordRenderer, module: str, key: str) -> CellHandle[Any]:
    manifest = await renderer.manifest()
    base = StoredCodecs(manifest).module(module)
    if not key and manifest.modules[base].cell_key is not None and await _was_one_cell(world, base):
        return CellHandle(world, base, b"")  # the map from which its cells were made
    return CellHandle(world, *cell_of(manifest, module, key))


async def _was_one_cell(world: WorldHandle, base: str) -> bool:
    """Tell whether the module had one cell for all keys in an earlier era."""
    earlier = [each.modules.get(base) for each in await world.reader.earlier_manifests()]
    return any(each is not None and each.cell_key is None for each in earlier)


async def _height(world: WorldHandle, renderer: RecordRenderer, at: str) -> int:
    """The end of the beat that holds a height, or of the last one at or before a time.

    A beat happens as a whole: between two of its records there is no state to show.
    """
    height = number_of(at)
    if height is not None:
        return (await renderer.frame_with(height)).header.last if height else 0
    try:
        moment = time_of_text(at)
    except Exception:  # noqa: BLE001 - whatever makes it no time, the person sees both forms
        raise usage(
            "{at} is neither a height nor a time", at=at, hint="Write 1234 or 2026-01-31T12:00:00Z."
        ) from None
    return await world.follower.journal.height_at(moment)


async def _view_json(renderer: RecordRenderer, cell: CellHandle[Any], view: CellView[Any]) -> dict[str, Any]:
    return {
        "module": cell.module, "key": await renderer.key(cell.module, cell.key), "version": view.version,
        "born": view.born, "era": view.era, "status": view.status, "reason": view.reason,
        "queue": view.queue, "size": view.size, "height": view.height, "active": time_text(view.active_ns),
        "state": view.state,
    }  # fmt: skip


async def _no_cell(
    world: WorldHandle, renderer: RecordRenderer, cell: CellHandle[Any], height: int | None
) -> Rejected:
    """There is no such cell: name those with keys like it."""
    name = await renderer.key(cell.module, cell.key)
    page = await (await list_world(world.follower)).page(cell.module, START, None, PAGE_MAX)
    known = [await renderer.key(cell.module, key) for key, _ in page.entries]
    return Rejected(
        "cli.no_cell", "there is no cell {module} {key} in world {world}{when}",
        module=cell.module, key=name, world=world.name,
        when="" if height is None else f" at height {height}", hint=suggestion(name, known),
    )  # fmt: skip
