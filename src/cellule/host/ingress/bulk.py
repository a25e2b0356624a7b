"""Verbs on many cells: what a frame has no room for goes on in the next beat, until all are done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from cellule.host.ingress.outcomes import Applied
from cellule.host.read.reader import Reader
from cellule.kernel.items import Verb
from cellule.kernel.journal.records import ControlRecord

BULK: Final = ("cell.resume", "cell.migrate")


async def control_all(
    reader: Reader, act: Callable[..., Awaitable[Applied[Any]]], verb: Verb, who: str, why: str, id: Any,
    arguments: Mapping[str, Any],
) -> Applied[Any]:  # fmt: skip
    """Do a verb, and again while its record says that there are more cells that stopped before it."""
    done = await act(verb, who=who, why=why, id=id, **arguments)
    height = done.height
    while verb in BULK and "key" not in arguments:
        frame = await reader.frame(height)
        written = frame.expect(height, ControlRecord).arguments
        if "next" in written:
            rest = {**arguments, "after": written["next"]}
        elif written.get("more"):
            rest = {**arguments, "until": done.height}
        else:
            break
        height = (await act(verb, who=who, why=why, **rest)).height
    return done
