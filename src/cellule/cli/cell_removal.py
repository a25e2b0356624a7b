"""`cellule cell delete` and `cellule cell erase`: cells that are to be there no more."""

from __future__ import annotations

from typing import Annotated

import typer

from cellule.cli.controls import Act, Once, confirm, perform_on
from cellule.cli.errors import usage
from cellule.cli.lines import cell_text
from cellule.cli.output import harmless
from cellule.cli.session import Session, cell_of, in_session, operator, renderer_of, within
from cellule.host.codecs import StoredCodecs
from cellule.host.ingress.handles import WorldHandle

Module = Annotated[str, typer.Argument(help="The module, with or without its namespace.")]
Keys = Annotated[list[str] | None, typer.Argument(help="Cells, by their keys.")]
SHOWN_MAX = 20  # cells that are named


@in_session
async def delete(session: Session, act: Act, module: Module, keys: Keys = None) -> None:
    """Delete cells: their states are gone, their open effects are abandoned."""
    async with session.world_to_change() as world:
        named = await _named(world, "delete", module, keys)
        async with within(act.timeout_s, "the outcome of cell delete"):
            done = await world.operator(operator()).delete(
                named[0][0], *(key for _, key in named), why=act.why
            )
        cells = [{"module": base, "key": shown} for (base, _), shown in zip(named, keys or [""], strict=True)]
        data = {"world": world.name, "cells": cells, "heights": [each.height for each in done]}
        shown = ", ".join(map(cell_text, cells[:SHOWN_MAX]))
        session.output.document(data, f"cell delete in world {world.name}: {shown}")


@in_session
async def erase(
    session: Session, act: Once, module: Module, keys: Keys = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:  # fmt: skip
    """Destroy the keys of cells: nobody can read what they hold any more, here and in exports."""
    async with session.world_to_change() as world:
        named = await _named(world, "erase", module, keys)
        if not yes:
            cells = ", ".join(f"{named[0][0]}/{key}" for key in (keys or [""])[:SHOWN_MAX])
            confirm(session, f"erasing {cells}", f"Erase {harmless(cells)}? This cannot be undone.")
        await perform_on(
            session, world, "cell.erase", act, module=named[0][0], keys=[key for _, key in named]
        )  # fmt: skip


async def _named(
    world: WorldHandle, command: str, module: str, keys: list[str] | None
) -> list[tuple[str, bytes]]:
    manifest = await renderer_of(world).manifest()
    if not keys and manifest.modules[StoredCodecs(manifest).module(module)].cell_key is not None:
        raise usage(f"cell {command} needs the keys of cells", hint="See them with `cellule cell list`.")
    return [cell_of(manifest, module, key) for key in keys or [""]]
