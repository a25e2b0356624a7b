"""`cellule why`: from a record back to the event that started it, or forward to all it led to.

A record is named by its height; a step also by its cell and version, a request for an effect by its id, an
event by the id it was sent with.
"""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import typer
from rich.tree import Tree

from cellule.cli.errors import usage
from cellule.cli.given import number_of
from cellule.cli.lines import record_line
from cellule.cli.session import Session, cell_named, in_session, renderer_of
from cellule.errors import Rejected
from cellule.host.ingress.cell_handle import CellHandle
from cellule.host.ingress.handles import WorldHandle
from cellule.host.read.causes import beside, causes_of, effects_of
from cellule.host.read.effects.references import parse_reference
from cellule.host.read.record_view import RecordRenderer, RecordView
from cellule.kernel.manifest.model import Manifest


@in_session
async def why(
    session: Session,
    what: Annotated[
        str, typer.Argument(help="A height, a cell (order/o1), version (order/o1@3), effect or event id.")
    ],
    effects: Annotated[bool, typer.Option("--effects", help="Show what it led to instead.")] = False,
) -> None:  # fmt: skip
    """Show why something happened, back to the first event; or what it led to."""
    async with session.world_to_read() as world:
        renderer = renderer_of(world)
        height = await _height(session, world, renderer, what)
        if effects:
            await _forward(session, world, renderer, height)
        else:
            chain = await causes_of(renderer, height)
            data: dict[str, Any] = {"world": world.name, "height": height}
            data["causes"] = [told.json() for told in chain]
            also = await beside(renderer, world.follower, chain)
            data["beside"] = [told.json() for some in also.values() for told in some]
            session.output.document(data, _chain(chain, also))


async def _forward(session: Session, world: WorldHandle, renderer: RecordRenderer, height: int) -> None:
    root = await renderer.at(height)
    found = await effects_of(world.follower, renderer, height)
    data = {
        "world": world.name, "height": height, "record": root.json(), "complete": found.complete,
        "looked_to": found.looked_to, "effects": [told.json() for told in found.records],
    }  # fmt: skip
    session.output.document(data, _tree(root, found.records))
    if not found.complete:
        session.output.note(
            f"looked up to height {found.looked_to}; something still waits for a step or a receipt"
        )


async def _height(session: Session, world: WorldHandle, renderer: RecordRenderer, what: str) -> int:
    height = number_of(what)
    if height is not None:
        return height
    if _is_intent(what):
        with session.output.progress("reading the journal") as step:
            return (await world.effect(what, progress=step)).view.height
    if not _is_cell(await renderer.manifest(), what):
        height = await _event(world, what)
        if height:
            return height
    name, _, digits = what.rpartition("@")
    version = number_of(digits) if name else None
    if version is None:
        name = what
    manifest = await renderer.manifest()
    if "/" not in name and not _is_cell(manifest, name):
        raise usage(
            "{name} is neither a height nor a cell, nor the id of an effect or of a remembered event",
            name=name, hint="Write a height, module/key, module/key@version, or an id.",
        )  # fmt: skip
    base, key = cell_named(manifest, name)
    cell: CellHandle[Any] = CellHandle(world, base, key)
    versions = await cell.history()
    for each in versions:
        if version is None or (each.version == version and each.status == "ok"):
            return each.height
    raise Rejected(
        "cli.no_version", "{what} is not in the history of world {world}", what=what, world=world.name,
        hint=f"Its versions are {versions[-1].version} to {versions[0].version}." if versions
        else f"There is no such cell: see `cellule cell list {base}`.",
    )  # fmt: skip


async def _event(world: WorldHandle, event_id: str) -> int:
    """The height of the event with an id, as far as the world remembers ids; 0 where it does not."""
    try:
        return await world.find_event(_id(event_id))
    except Rejected:
        return 0


def _id(text: str) -> str | bytes | UUID:
    """An event's id as it is shown: a UUID, other bytes in hex, else text."""
    try:
        return bytes.fromhex(text[2:]) if text.startswith("0x") else UUID(text)
    except ValueError:
        return text


def _is_intent(what: str) -> bool:
    try:
        return isinstance(parse_reference(what), bytes)
    except Rejected:
        return False


def _is_cell(manifest: Manifest, what: str) -> bool:
    """Tell whether this names a module, with or without key and version."""
    name = what.partition("@")[0]
    return any(
        name == short or name.startswith(f"{short}/")
        for base in manifest.modules
        for short in (base, base.rpartition("/")[2])
    )


def _chain(chain: list[RecordView], also: dict[int, list[RecordView]]) -> Tree:
    top = branch = Tree(record_line(chain[0], width=0), guide_style="dim")
    for at, told in enumerate(chain):
        branch = branch.add(record_line(told, width=0)) if at else top
        for each in also.get(told.height, ()):
            branch.add(record_line(each, width=0))
    return top


def _tree(root: RecordView, records: list[RecordView]) -> Tree:
    top = Tree(record_line(root, width=0), guide_style="dim")
    branches = {root.height: top}
    for told in records:
        branches[told.height] = branches[told.cause].add(record_line(told, width=0))
    return top
