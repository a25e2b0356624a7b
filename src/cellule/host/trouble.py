"""What a world's owner cannot do for now, told to everyone who looks: a row beside the world's others.

    w/<universe>/<world>/trouble    {attempts, since_ns, what: "snapshot", why}

It is written when a snapshot fails, as well as that is possible then, and cleared by the next one that is
saved. The world itself goes on meanwhile; only its next start takes longer.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from cellule.errors import CelluleError
from cellule.store import keys
from cellule.store.engine import Engine
from cellule.values.cbor import decode, encode


class Trouble(NamedTuple):
    """Snapshots of a world fail: since when, how often, and why the last one did."""

    since_ns: int
    attempts: int
    why: str

    def row(self) -> bytes:
        """As the store holds it."""
        return encode({"what": "snapshot", **self._asdict()})


async def read_trouble(engine: Engine, universe: UUID, world: UUID) -> Trouble | None:
    """What the owner of a world last said; None where all is well."""
    [stored] = await engine.read([keys.world_trouble(universe, world)])
    if stored is None:
        return None
    try:
        row: Any = decode(stored)
        return Trouble(row["since_ns"], row["attempts"], row["why"])
    except (CelluleError, LookupError, TypeError) as error:
        return Trouble(0, 0, f"the row that tells of it cannot be read: {error}")
