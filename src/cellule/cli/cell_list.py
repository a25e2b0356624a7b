"""`cellule cell list`: one page of cells, module by module, as of the newest durable beat.

A cursor is a module and the bytes of a key in it, as hex: `shop/order:` is the start of that module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cellule.cli.errors import usage
from cellule.cli.output import table
from cellule.cli.session import Session, renderer_of
from cellule.host.codecs import StoredCodecs
from cellule.host.read.cell_list import START, KeyRange, Listing, list_world, status_of
from cellule.host.read.record_view import RecordRenderer
from cellule.kernel.manifest.limits import KEY_BYTES_MAX
from cellule.kernel.state.cells import Entry
from cellule.values.schema.text_forms import time_text

_COLUMNS = ("module", "key", "version", "size", "status", "queue", "active")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which cells: of one module or all, and which keys of it, as people write them."""

    module: str | None
    prefix: str | None
    start: str | None
    end: str | None

    def range(self, types: StoredCodecs, base: str | None) -> tuple[bytes, bytes | None]:
        """The bytes of the first key, and of the first beyond; None = to the end."""
        if self.prefix is None and self.start is None and self.end is None:
            return START, None
        if base is None:
            raise usage(
                "--prefix, --from and --to need a module", hint="cellule cell list MODULE --prefix ..."
            )
        key = types.typed_key(base)
        start, end = (None if each is None else key.from_text(each) for each in (self.start, self.end))
        return KeyRange(self.prefix, start, end).of(types, base)


async def list_cells(session: Session, want: Wanted, limit: int, after: str | None) -> None:
    """Show the page behind the cursor `after`."""
    async with session.reading() as node:
        world = await session.world(node)
        renderer = renderer_of(world)
        manifest = await renderer.manifest()
        types = StoredCodecs(manifest)
        only = None if want.module is None else types.module(want.module)
        begin, end = want.range(types, only)
        base, position = _cursor(after, only)
        begin = max(begin, position)
        with session.output.progress("reading the world") as step:
            listing = await list_world(world.follower, step)
        counts = await listing.counts()
        bases = [only] if only is not None else sorted({*manifest.modules, *counts})
        wanted = [each for each in bases if base is None or each >= base]
        found, following = await _page(
            listing, wanted, (begin if base in (None, *wanted) else START, end), limit
        )
        cells = [await _cell(renderer, *each) for each in found]
        total = sum(count for name, count in counts.items() if only in (None, name))
        fresh = {"height": listing.height, "time": time_text(listing.now_ns)}
        data = {"world": world.name, "as_of": fresh, "total": total, "cells": cells, "next": following}
        rows = [[each[name] for name in _COLUMNS] for each in cells]
        session.output.document(data, table([name.upper() for name in _COLUMNS], rows))
        more = f"; more: --after {following}" if following else ""
        session.output.note(
            f"{len(cells)} of {total} cells as of height {listing.height}, {fresh['time']}{more}"
        )


async def _page(
    listing: Listing, bases: list[str], within: tuple[bytes, bytes | None], limit: int
) -> tuple[list[tuple[str, bytes, Entry]], str | None]:
    """Up to `limit` cells from the range in the first module on, and the cursor behind them."""
    found: list[tuple[str, bytes, Entry]] = []
    begin, end = within
    for base in bases:
        if len(found) == limit:
            return found, f"{base}:"
        page = await listing.page(base, begin, end, limit - len(found))
        found += ((base, key, entry) for key, entry in page.entries)
        if page.next is not None:
            return found, f"{base}:{page.next.hex()}"
        begin = START
    return found, None


async def _cell(renderer: RecordRenderer, base: str, key: bytes, entry: Entry) -> dict[str, Any]:
    return {
        "module": base, "key": await renderer.key(base, key, entry.era),
        "version": entry.version, "size": entry.size, "era": entry.era, "status": status_of(entry),
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
        base, cursor = "", b""
    if not base or len(cursor) > KEY_BYTES_MAX + 1 or (only is not None and base != only):
        raise usage("{after} is no cursor of this list", after=after, hint="Take `next` of the page before.")
    return base, cursor
