"""`cellule cell list`: one page of cells, module by module, as of the newest durable beat.

A cursor is a module and the bytes of a key in it, as hex: `shop/order:` is the start of that module.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from cellule.cli.errors import usage
from cellule.cli.output import counted, table
from cellule.cli.session import Session, renderer_of
from cellule.host.codecs import StoredCodecs
from cellule.host.ingress.handles import WorldHandle
from cellule.host.read.cell_filter import status_of
from cellule.host.read.cell_list import START, KeyRange, list_world, scan_cells
from cellule.host.read.correlation import runs_of
from cellule.host.read.record_view import RecordRenderer
from cellule.kernel.manifest.limits import KEY_BYTES_MAX
from cellule.kernel.state.cells import Entry
from cellule.values.schema.text_forms import time_text

Listed = tuple[str, bytes, Entry, Any, str]
"""A cell's module, key and entry; its state, or why it cannot be read."""

AFTER = b"\0"  # behind a key: the first that could follow it
_COLUMNS = ("module", "key", "version", "size", "status", "queue", "active")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which cells: of one module or all, and which keys of it, as people write them."""

    module: str | None
    prefix: str | None
    start: str | None
    end: str | None
    where: str | None = None
    states: bool = False
    correlation: str | None = None  # only the runs of plans that have it

    def range(self, types: StoredCodecs, base: str | None) -> tuple[bytes, bytes | None]:
        """The bytes of the first key, and of the first beyond; None = to the end."""
        if self.correlation is not None and (self.prefix, self.start, self.end) != (None, None, None):
            raise usage(
                "--correlation names one run of each plan; --prefix, --from and --to name cells by keys",
                hint="Leave one of them out.",
            )
        chosen = (self.prefix, self.start, self.end, None if self.correlation else self.where)
        if base is None and chosen != (None, None, None, None):
            raise usage(
                "--prefix, --from, --to and --where need a module",
                hint="cellule cell list MODULE --prefix ...",
            )
        if base is None:
            return START, None
        key = types.typed_key(base)
        start, end = (None if each is None else key.from_text(each) for each in (self.start, self.end))
        return KeyRange(self.prefix, start, end).of(types, base)


async def list_cells(session: Session, want: Wanted, limit: int, after: str | None) -> None:
    """Show the page behind the cursor `after`."""
    async with session.world_to_read() as world:
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
        within = (begin if base in (None, *wanted) else START, end)
        if want.correlation is None:
            page = await _page(world, types, wanted, within, limit, want)
        else:
            page = await _runs(world, renderer, types, wanted, want)
        cells = [await _cell(renderer, each, with_state=want.states) for each in page.found]
        total = sum(count for name, count in counts.items() if only in (None, name))
        fresh = {"height": listing.height, "time": time_text(listing.now_ns)}
        data = {"world": world.name, "as_of": fresh, "total": total, "cells": cells, "next": page.next}
        if want.where is not None:
            data |= {"scanned": page.scanned, "failed": page.failed, "failure": page.failure}
        columns = (*_COLUMNS, "state") if want.states else _COLUMNS
        rows = [[_shown(each[name]) for name in columns] for each in cells]
        session.output.document(data, table([name.upper() for name in columns], rows))
        session.output.note(_note(page, total, want) + f" as of height {listing.height}, {fresh['time']}")
        if page.failed:
            session.output.note(f"--where gave no answer for {page.failed} of them. First: {page.failure}")
        if page.next:
            session.output.note(f"more: --after {page.next}")


@dataclass(slots=True)
class _Page:
    """Cells of one or more modules, and where to go on."""

    found: list[Listed]
    next: str | None = None
    scanned: int = 0
    failed: int = 0
    failure: str = ""


def _note(page: _Page, total: int, want: Wanted) -> str:
    if want.where is None:
        return f"{len(page.found)} of {counted(total, 'cell')}"
    return f"{len(page.found)} found; looked at {page.scanned} of {counted(total, 'cell')},"


async def _page(
    world: WorldHandle, types: StoredCodecs, bases: list[str], within: tuple[bytes, bytes | None],
    limit: int, want: Wanted,
) -> _Page:  # fmt: skip
    """Up to `limit` cells from the range in the first module on, and the cursor behind them."""
    page = _Page([])
    begin, end = within
    for base in bases:
        if len(page.found) == limit:
            page.next = f"{base}:"
            return page
        left = limit - len(page.found)
        scan = await scan_cells(
            world.reader, types, base, (begin, end), left, want.where, with_states=want.states
        )
        page.found += ((base, *cell) for cell in scan.cells)
        page.scanned, page.failed, page.failure = scan.scanned, scan.failed, scan.failure
        if scan.last is not None:
            page.next = f"{base}:{(scan.last + AFTER).hex()}"
            return page
        begin = START
    return page


async def _runs(
    world: WorldHandle, renderer: RecordRenderer, types: StoredCodecs, bases: list[str], want: Wanted
) -> _Page:
    """The runs that have the correlation: at most one of each plan, so one page holds them all."""
    page = _Page([])
    for base, key in sorted(await runs_of(renderer, want.correlation or "")):
        if base not in bases:
            continue
        scan = await scan_cells(
            world.reader, types, base, (key, key + AFTER), 1, want.where, with_states=want.states
        )
        page.found += ((base, *cell) for cell in scan.cells)
        page.scanned, page.failed = page.scanned + scan.scanned, page.failed + scan.failed
        page.failure = page.failure or scan.failure
    return page


def _shown(value: Any) -> Any:
    """A value of a column; states are JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


async def _cell(renderer: RecordRenderer, listed: Listed, *, with_state: bool) -> dict[str, Any]:
    base, key, entry, state, error = listed
    row = {
        "module": base, "key": await renderer.key(base, key, entry.era),
        "version": entry.version, "size": entry.size, "era": entry.era, "status": status_of(entry),
        "queue": len(entry.get("queue", ())), "height": entry.last,
        "active": time_text(entry.active_ns),
    }  # fmt: skip
    if with_state:
        row["state"] = state
        if error:
            row["error"] = error
    return row


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
