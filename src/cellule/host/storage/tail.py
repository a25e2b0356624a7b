"""The frames of one world that are rows of its own, oldest first: for those who move or keep them.

Whoever reads history reads it through `host/journal.py`, which knows segments and ancestors too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

from cellule.host.limits import FRAMES_PAGE
from cellule.store import keys
from cellule.store.engine import Engine
from cellule.store.tuples import INT_MAX


async def tail_frames(
    engine: Engine, universe: UUID, world: UUID, first: int = 0, last: int = INT_MAX
) -> AsyncIterator[tuple[int, bytes]]:
    """The frames in rows whose last heights are `first` to `last`, each with its last height.

    One whose rows went while it was read is in a segment by now, and is left out.
    """
    begin, end = keys.journal_range(universe, world, first, last)
    parts: list[bytes] = []
    height, is_whole = 0, True
    while True:
        page = await engine.scan(begin, end, limit=FRAMES_PAGE)
        for key, value in page.items:
            found = keys.journal_height(key)
            if found != height:
                if parts and (is_whole or await _is_there(engine, universe, world, height)):
                    yield height, b"".join(parts)
                height, parts, is_whole = found, [], True
            if parts or key == keys.journal(universe, world, found):
                parts.append(value)
        if not page.more:
            break
        begin = page.items[-1][0] + b"\0"
        is_whole = False  # the rest of this frame comes from another page, if it is still there
    if parts and (is_whole or await _is_there(engine, universe, world, height)):
        yield height, b"".join(parts)


async def _is_there(engine: Engine, universe: UUID, world: UUID, height: int) -> bool:
    """Rows of a frame go together, so its first stands for all of them."""
    return (await engine.read([keys.journal(universe, world, height)]))[0] is not None
