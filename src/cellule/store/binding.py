"""Which object store belongs to a store: proven at every open, so that a wrong bucket is never used.

```
row      objects      -> {id, is_bound, where}      id: 16 random bytes; where: the address, for people
object   store/<id>   -> id in hex                  the marker, written between the two states of the row
```

The row comes first, the marker second, `is_bound` last: whatever a crash leaves, the next open finishes it.
An object store with the marker of another store is refused before anything is written.

Rejected: comparing addresses. A bucket may move, be mounted elsewhere, or be reached by another name.
"""

from __future__ import annotations

from typing import Any

from cellule.errors import Conflict, Corrupted, Rejected
from cellule.sources import Entropy
from cellule.store import keys
from cellule.store.engine import Batch, Engine
from cellule.store.object_store import ObjectStore
from cellule.values.cbor import decode, encode

ID_BYTES = 16
MARKERS = "store/"
MARKERS_MAX = 16


async def bind_objects(
    engine: Engine, objects: ObjectStore | None, where: str, entropy: Entropy, *, create: bool = True
) -> None:
    """Prove that `objects` belongs to the store of `engine`, binding the two if neither is bound yet.

    Without `create` nothing is written, and an unbound store is taken as it is.
    """
    [stored] = await engine.read([keys.store_objects()])
    if objects is None:
        _check_not_needed(stored)
        return
    if stored is None:
        await _check_free(objects, b"", where)
        if not create:
            return
        # The row first, then the marker: after a crash in between the next open goes on from the row.
        fresh = {"id": entropy.bytes(ID_BYTES), "is_bound": False, "where": where}
        stored = await _replaced(engine, None, fresh)
    row = _row(stored)
    if row["is_bound"]:
        await _check_marked(objects, row, where)
        return
    await _check_free(objects, row["id"], where)
    if create:
        await objects.put(_marker(row["id"]), row["id"].hex().encode())
        await _replaced(engine, stored, {**row, "is_bound": True, "where": where})


async def _replaced(engine: Engine, before: bytes | None, row: dict[str, Any]) -> bytes:
    """Write the row if nobody was faster; return the row that is there."""
    key, after = keys.store_objects(), encode(row)
    try:
        await engine.commit(Batch(expect={key: before}, set={key: after}))
    except Conflict:
        [stored] = await engine.read([key])
        return after if stored is None else stored
    return after


async def _check_free(objects: ObjectStore, store_id: bytes, where: str) -> None:
    """Refuse an object store that carries the marker of another store."""
    page = await objects.list(MARKERS, limit=MARKERS_MAX)
    foreign = [each.name for each in page.items if each.name != _marker(store_id)]
    if foreign:
        raise Rejected(
            "store.objects_taken", "the object store {where} belongs to another store (it holds {marker})",
            where=where, marker=foreign[0],
            hint="Use another bucket, folder or prefix: each store needs one of its own.",
        )  # fmt: skip


async def _check_marked(objects: ObjectStore, row: dict[str, Any], where: str) -> None:
    """Refuse an object store without this store's marker."""
    try:
        await objects.get(_marker(row["id"]), bytes_max=4 * ID_BYTES)
    except Rejected as error:
        raise Rejected(
            "store.objects_wrong", "{where} is not the object store of this store, which is {bound}",
            where=where, bound=row["where"],
            hint="Correct the address; if the objects were moved, move all of them, store/ included.",
        ) from error  # fmt: skip


def _check_not_needed(stored: bytes | None) -> None:
    if stored is not None:
        raise Rejected(
            "store.objects_missing", "this store keeps large values in {bound}, and none was named",
            bound=_row(stored)["where"], hint="Open it with objects=..., or --objects on the command line.",
        )  # fmt: skip


def _marker(store_id: bytes) -> str:
    return f"{MARKERS}{store_id.hex()}"


def _row(stored: bytes) -> dict[str, Any]:
    row: Any = decode(stored)
    match row:
        case {"id": bytes(), "is_bound": bool(), "where": str()}:
            return dict(row)
    raise Corrupted(
        "store.objects_damaged", "the row that names the object store holds {stored}", stored=stored,
        hint="Something else wrote into this store: check its address, or restore it from a backup.",
    )  # fmt: skip
