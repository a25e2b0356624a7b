"""`cellule why`: from a record back to the event that started it, or forward to all it led to."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.tree import Tree

from cellule.cli.errors import usage
from cellule.cli.lines import record_line
from cellule.cli.session import Session, cell_of, session_of, teller_of
from cellule.errors import Rejected
from cellule.host.causes import causes_of, effects_of
from cellule.host.handles import CellHandle, WorldHandle
from cellule.host.telling import Teller, Told
from cellule.kernel.manifest.model import Manifest


def why(
    context: typer.Context,
    what: Annotated[str, typer.Argument(help="A height, a cell (order/o1), or its version (order/o1@3).")],
    effects: Annotated[bool, typer.Option("--effects", help="Forward: what it led to.")] = False,
) -> None:  # fmt: skip
    """Tell why something happened, back to the first event; or what came of it."""
    session = session_of(context)
    session.run(_why(session, what, effects=effects))


async def _why(session: Session, what: str, *, effects: bool) -> None:
    async with session.reading() as node:
        world = await session.world(node)
        teller = teller_of(world)
        height = await _height(world, teller, what)
        if effects:
            await _forward(session, world, teller, height)
        else:
            chain = await causes_of(teller, height)
            data: dict[str, Any] = {"world": world.name, "height": height}
            data["causes"] = [told.json() for told in chain]
            session.output.document(data, _chain(chain))


async def _forward(session: Session, world: WorldHandle, teller: Teller, height: int) -> None:
    root = await teller.at(height)
    found = await effects_of(world.follower, teller, height)
    data = {
        "world": world.name, "height": height, "record": root.json(), "complete": found.complete,
        "looked_to": found.looked_to, "effects": [told.json() for told in found.records],
    }  # fmt: skip
    session.output.document(data, _tree(root, found.records))
    if not found.complete:
        session.output.note(f"looked up to height {found.looked_to}; some deliveries have no step yet")


async def _height(world: WorldHandle, teller: Teller, what: str) -> int:
    if what.isascii() and what.isdigit():
        return int(what)
    name, at, version = what.rpartition("@")
    if not at or not version.isdigit():
        name, version = what, ""
    base, key = _named(await teller.manifest(), name)
    cell = CellHandle(world, base, key)
    versions = await cell.history()
    for each in versions:
        if not version or (each.version == int(version) and each.status == "ok"):
            return each.height
    raise Rejected(
        "cli.no_version", "{what} is not in the history of world {world}", what=what, world=world.name,
        hint=f"Its versions are {versions[-1].version} to {versions[0].version}." if versions
        else f"There is no such cell: see `cellule cell list {base}`.",
    )  # fmt: skip


def _named(manifest: Manifest, name: str) -> tuple[str, bytes]:
    """The cell of `module/key`; both may hold slashes, so the longest module that fits is meant."""
    for base in sorted(manifest.modules, key=len, reverse=True):
        for short in (base, base.rpartition("/")[2]):
            if name == short:
                return cell_of(manifest, base, "")
            if name.startswith(f"{short}/"):
                return cell_of(manifest, base, name[len(short) + 1 :])
    if "/" not in name:
        raise usage(
            "{name} is neither a height nor a cell", name=name,
            hint="Write a height, or module/key, or module/key@version.",
        )  # fmt: skip
    module, _, key = name.partition("/")
    return cell_of(manifest, module, key)


def _chain(chain: list[Told]) -> Tree:
    top = Tree(record_line(chain[0], width=0), guide_style="dim")
    branch = top
    for told in chain[1:]:
        branch = branch.add(record_line(told, width=0))
    return top


def _tree(root: Told, records: list[Told]) -> Tree:
    top = Tree(record_line(root, width=0), guide_style="dim")
    branches = {root.height: top}
    for told in records:
        branches[told.height] = branches[told.cause].add(record_line(told, width=0))
    return top
