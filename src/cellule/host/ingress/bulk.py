"""Verbs on many cells: what a frame has no room for goes on in the next beat, until all are done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from cellule.host.read.reader import Reader
from cellule.kernel.items import Verb
from cellule.kernel.journal.records import ControlRecord

BULK: Final = ("cell.resume", "cell.migrate")


async def carry_on(
    reader: Reader, first: int, verb: Verb, arguments: Mapping[str, Any], again: Callable[..., Awaitable[Any]]
) -> None:
    """Do a verb again while its record says that there are more; only for cells that stopped before it."""
    height = first
    while verb in BULK and "key" not in arguments:
        frame = await reader.frame(height)
        if not frame.expect(height, ControlRecord).arguments.get("more"):
            return
        height = (await again(**{**arguments, "until": first})).height
