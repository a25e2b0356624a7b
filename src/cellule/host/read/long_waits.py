"""Cells that wait for long: runs of workflows by what they say themselves, others by their open effects.

A cell that waits for nobody but the next event is not waiting: most cells of most worlds do that for ever.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from cellule.host.codecs import StoredCodecs
from cellule.host.read.cell_list import PAGE_MAX, scan_cells
from cellule.host.read.reader import Reader
from cellule.kernel.state.cells import Entry
from cellule.modules.workflow.view import is_workflow
from cellule.values.schema.text_forms import time_of_text

LONG_SCAN_MAX: Final = 100_000  # cells that one look goes over


@dataclass(frozen=True, slots=True)
class LongWait:
    """A cell, since when it waits for what comes first, and for what."""

    module: str
    key: str
    since_ns: int
    what: str


@dataclass(frozen=True, slots=True)
class LongWaits:
    """Those found, the longest first; `more` where not all cells were looked at."""

    waits: list[LongWait]
    more: bool


async def find_long_waits(
    reader: Reader, reason: Callable[[str, bytes], Awaitable[str]], before_ns: int, limit: int
) -> LongWaits:
    """The cells that wait for something since before a time; `reason` tells what a cell waits for."""
    types = StoredCodecs(await reader.manifest())
    found: list[LongWait] = []
    looked_at = 0
    for base, module in types.manifest.modules.items():
        async for key, entry, state in _cells(reader, types, base):
            looked_at += 1
            if looked_at > LONG_SCAN_MAX:
                return LongWaits(_longest(found, limit), more=True)
            name = types.typed_key(base).text(key)
            if is_workflow(module):
                wait = _of_run(base, name, state, before_ns)
            elif entry.get("intents") and entry.active_ns < before_ns:
                wait = LongWait(base, name, entry.active_ns, await reason(base, key))
            else:
                continue
            if wait is not None:
                found.append(wait)
    return LongWaits(_longest(found, limit), more=len(found) > limit)


async def _cells(reader: Reader, types: StoredCodecs, base: str) -> AsyncIterator[tuple[bytes, Entry, Any]]:
    begin: bytes | None = b""
    with_states = is_workflow(types.manifest.modules[base])
    while begin is not None:
        page = await scan_cells(reader, types, base, (begin, None), PAGE_MAX, None, with_states=with_states)
        for key, entry, state, _ in page.cells:
            yield key, entry, state
        begin = None if page.last is None else page.last + b"\0"


def _of_run(base: str, key: str, run: Any, before_ns: int) -> LongWait | None:
    if run is None:
        return None
    waits = [(time_of_text(each["since"]), each) for each in run.get("waits", ())]
    long = [(since_ns, each) for since_ns, each in waits if since_ns < before_ns]
    if not long:
        return None
    return LongWait(
        base, key, min(since_ns for since_ns, _ in long), ", ".join(_text(each) for _, each in long)
    )


def _text(wait: dict[str, Any]) -> str:
    until = f" until {wait['until']}" if wait.get("until") else ""
    return f"{wait['what']}{until} ({wait['place']})" if wait.get("place") else f"{wait['what']}{until}"


def _longest(found: list[LongWait], limit: int) -> list[LongWait]:
    return sorted(found, key=lambda each: (each.since_ns, each.module, each.key))[:limit]
