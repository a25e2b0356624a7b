"""The erasure keys of a world in a file of their own, which the export of the world does not hold.

    {format: 0, kind: "cellule/keys", keys: [[id, key], ...], world}      by their ids

Keys of the worlds that it was forked from are in it, too. Who has the file reads what is sealed in every copy
of the export, whatever is erased later: it is for moving a world, not for keeping.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from cellule.errors import CelluleError, Conflict, Rejected, Unavailable
from cellule.host.erasure_keys import ErasureKeys, key_range, key_rows
from cellule.host.limits import ATTEMPTS_MAX, EXPORT_KEYS_MAX, KEY_ROWS_TOGETHER
from cellule.host.own.directory import WorldInfo
from cellule.kernel.key_ring import KeyRow, parse_row
from cellule.store import keys
from cellule.store.engine import SCAN_LIMIT_MAX, Batch, Engine
from cellule.store.tuples import unpack
from cellule.values.cbor import decode, encode

KIND = "cellule/keys"
FORMAT = 0


@dataclass(frozen=True, slots=True)
class MovedKeys:
    """How many keys a file has, and how many of them were taken: not those of cells that have one here."""

    path: Path
    found: int
    taken: int


async def export_keys(engine: Engine, info: WorldInfo, path: Path) -> MovedKeys:
    """Write the keys of a world to a new file that only its owner may read."""
    found: dict[bytes, bytes] = {}
    for world in (*(each.world for each in info.lineage.ancestors), info.id):
        begin, end = key_range(info.universe, world)
        while True:
            page = await engine.scan(begin, end, limit=SCAN_LIMIT_MAX)
            for name, data in page.items:
                row = parse_row(data)
                if row.key is not None:
                    found[id_of(name)] = row.key
            if len(found) > EXPORT_KEYS_MAX:
                raise Rejected(
                    "archive.keys_max", "world {world} has more than {most} keys", world=info.name,
                    most=EXPORT_KEYS_MAX, hint="Copy the store instead: `cellule backup`.",
                )  # fmt: skip
            if not page.more:
                break
            begin = page.items[-1][0] + b"\0"
    listed: Any = [[each, found[each]] for each in sorted(found)]
    data = encode({"format": FORMAT, "kind": KIND, "keys": listed, "world": info.id.bytes})
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
    except FileExistsError as error:
        raise Rejected(
            "archive.exists", "{path} exists already", path=str(path), hint="Name another file."
        ) from error
    except OSError as error:
        raise Rejected(
            "archive.file", "{path} cannot be written: {why}", path=str(path), why=error.strerror
        ) from error
    return MovedKeys(path, len(found), len(found))


async def import_keys(engine: Engine, info: WorldInfo, path: Path) -> MovedKeys:
    """Take the keys of a file that are away here; what was erased here, or has a key, stays as it is."""
    given = _read(path, info)
    ids, taken = sorted(given), 0
    for start in range(0, len(ids), KEY_ROWS_TOGETHER):
        some = ids[start : start + KEY_ROWS_TOGETHER]
        taken += await _take(engine, info, {each: given[each] for each in some})
    return MovedKeys(path, len(given), taken)


async def _take(engine: Engine, info: WorldInfo, given: dict[bytes, bytes]) -> int:
    for _ in range(ATTEMPTS_MAX):
        rows = await ErasureKeys(engine, info.universe).rows(given)
        wanted = {each: KeyRow(given[each]) for each, row in rows.items() if row.is_free}
        names = [keys.erasure_key(info.universe, each) for each in wanted]
        stored = dict(zip(names, await engine.read(names), strict=True)) if names else {}
        try:
            await engine.commit(Batch(expect=stored, set=key_rows(info.universe, wanted)))
        except Conflict:
            continue
        return len(wanted)
    raise Unavailable("archive.contended", "the keys of world {world} keep changing", world=info.name)


async def leave_away(engine: Engine, universe: UUID, ids: set[bytes]) -> None:
    """Note of keys that an imported world names, and this store does not have, that they are away."""
    ordered = sorted(ids)
    for start in range(0, len(ordered), KEY_ROWS_TOGETHER):
        some = ordered[start : start + KEY_ROWS_TOGETHER]
        names = [keys.erasure_key(universe, each) for each in some]
        stored = await engine.read(names)
        missing = [name for name, data in zip(names, stored, strict=True) if data is None]
        away = KeyRow(away=True).data()
        if missing:
            await engine.commit(Batch(expect=dict.fromkeys(missing), set=dict.fromkeys(missing, away)))


def id_of(key: bytes) -> bytes:
    """The id that the key of a row names."""
    found = unpack(key)[-1]
    assert isinstance(found, bytes)
    return found


def _read(path: Path, info: WorldInfo) -> dict[bytes, bytes]:
    try:
        value: Any = decode(path.read_bytes())
        if value["kind"] != KIND or value["format"] != FORMAT:
            raise ValueError("it is no file of keys, or of another format")
        if value["world"] != info.id.bytes:
            raise ValueError(f"it is of another world than {info.id}")
        given: dict[bytes, bytes] = dict(value["keys"])
        for each, key in given.items():
            keys.erasure_key(info.universe, each)
            parse_row(KeyRow(key).data())
    except (CelluleError, OSError, LookupError, TypeError, ValueError) as error:
        raise Rejected("archive.keys", "{path} cannot be read: {why}", path=path, why=error) from error
    return given
