"""The `format` row: which version of everything durable a store was written in, checked before anything else.

One number covers keys, rows, frames and snapshots. It is 0 until those are settled; a store of version 0
makes no promise to later releases. A durable engine calls `check_format` when it is opened.

Rejected: a version per kind of row. Any mix of them would have to be tested against any other.
"""

from __future__ import annotations

from cellule.errors import CelluleError, Conflict, Corrupted, Rejected
from cellule.store import keys
from cellule.store.engine import Batch, Engine
from cellule.values.cbor import decode, encode

FORMAT_VERSION = 0
FORMAT_OLDEST = 0


async def check_format(engine: Engine, *, newest: int = FORMAT_VERSION, oldest: int = FORMAT_OLDEST) -> int:
    """Return the store's format version; a store without one gets `newest`, once, whoever comes first.

    Raises `Rejected` for a store that is newer than `newest` or older than `oldest`; nothing was changed.
    """
    [stored] = await engine.read([keys.format_version()])
    if stored is None:
        stored = await _claimed(engine, encode({"version": newest}))
    version = _version(stored)
    if version > newest:
        raise Rejected(
            "store.format_newer", "the store has format {version}; this Cellule knows formats up to {newest}",
            version=version, newest=newest,
            hint="Upgrade Cellule to the version that wrote the store, or open another store.",
        )  # fmt: skip
    if version < oldest:
        raise Rejected(
            "store.format_older", "the store has format {version}; this Cellule reads {oldest} and later",
            version=version, oldest=oldest,
            hint="Open it with the version that wrote it, export its worlds, and import them here.",
        )  # fmt: skip
    return version


async def _claimed(engine: Engine, row: bytes) -> bytes:
    """Write the row if it is still absent; return the row that is there."""
    key = keys.format_version()
    try:
        await engine.commit(Batch(expect={key: None}, set={key: row}))
    except Conflict:
        [stored] = await engine.read([key])
        return row if stored is None else stored
    return row


def _version(stored: bytes) -> int:
    try:
        row = decode(stored)
    except CelluleError as error:
        raise _damaged(stored) from error
    version = row.get("version") if isinstance(row, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise _damaged(stored)
    return version


def _damaged(stored: bytes) -> Corrupted:
    return Corrupted(
        "store.format_damaged", "the format row holds {stored}, which names no version", stored=stored,
        hint="This is no Cellule store, or something else wrote into it: check its address.",
    )  # fmt: skip
