"""`cellule cell list`: one page of cells, module by module, as of the newest durable beat.

A cursor is a module and a position in it: `shop/order:` is the start of that module.
"""

from __future__ import annotations

from typing import Any

from cellule.cli.errors import usage
from cellule.cli.output import table
from cellule.cli.session import Session, renderer_of
from cellule.host.codecs import StoredCodecs
from cellule.host.read.cell_list import START, Listed, Listing, list_world
from cellule.host.read.record_view import RecordRenderer
from cellule.values.schema.text_forms import time_text

_COLUMNS = ("module", "key", "version", "size", "status", "queue", "active")


async def list_cells(session: Session, module: str | None, limit: int, after: str | None) -> None:
    """Show the page behind the cursor `after`."""
    async with session.reading() as node:
        world = await session.world(node)
        renderer = renderer_of(world)
        manifest = await renderer.manifest()
        only = None if module is None else StoredCodecs(manifest).module(module)
        base, position = _cursor(after, only)
        with session.output.progress("reading the world") as step:
            listing = await list_world(world.follower, step)
        bases = [only] if only is not None else sorted({*manifest.modules, *listing.counts})
        wanted = [each for each in bases if base is None or each >= base]
        found, following = await _page(listing, wanted, position if base in wanted else START, limit)
        cells = [await _cell(renderer, each) for each in found]
        total = sum(count for name, count in listing.counts.items() if only in (None, name))
        fresh = {"height": listing.height, "time": time_text(listing.now_ns)}
        data = {"world": world.name, "as_of": fresh, "total": total, "cells": cells, "next": following}
        rows = [[each[name] for name in _COLUMNS] for each in cells]
        session.output.document(data, table([name.upper() for name in _COLUMNS], rows))
        more = f"; more: --after {following}" if following else ""
        session.output.note(
            f"{len(cells)} of {total} cells as of height {listing.height}, {fresh['time']}{more}"
        )


async def _page(
    listing: Listing, bases: list[str], position: bytes, limit: int
) -> tuple[list[Listed], str | None]:
    """Up to `limit` cells from `position` in the first module on, and the cursor behind them."""
    found: list[Listed] = []
    for base in bases:
        if len(found) == limit:
            return found, f"{base}:"
        page = await listing.page(base, position, limit - len(found))
        found += sorted(page.cells, key=lambda cell: cell.key)
        if page.cursor is not None:
            return found, f"{base}:{page.cursor.hex()}"
        position = START
    return found, None


async def _cell(renderer: RecordRenderer, cell: Listed) -> dict[str, Any]:
    entry = cell.entry
    return {
        "module": cell.base, "key": await renderer.key(cell.base, cell.key, entry.era),
        "version": entry.version, "size": entry.size, "era": entry.era, "status": cell.status,
        "queue": len(entry.get("queue", ())), "height": entry.last,
        "active": time_text(entry.active_ns),
    }  # fmt: skip


def _cursor(after: str | None, only: str | None) -> tuple[str | None, bytes]:
    if after is None:
        return None, START
    base, _, position = after.rpartition(":")
    try:
        cursor = bytes.fromhex(position)
    except ValueError:
        base, cursor = "", START
    if not base or (only is not None and base != only):
        raise usage("{after} is no cursor of this list", after=after, hint="Take `next` of the page before.")
    return base, cursor
