"""What is refused: an id that was used for something else; and the record of whatever was acknowledged."""

from __future__ import annotations

from cellule.errors import CelluleError, Rejected
from cellule.kernel.items import Duplicate, RefusedItem
from cellule.kernel.journal.records import RefusedRecord
from cellule.kernel.journal.writer import FrameWriter
from cellule.kernel.state.dedupe import Seen


def earlier(seen: Seen | None, check: int, id: object, what: str) -> Duplicate | None:
    """What was done with this id before, if anything; raises where that was something else."""
    if seen is None:
        return None
    if seen.check != check:
        raise Rejected(
            "kernel.id_reused", "id {id} was used at height {height} for something else",
            id=id, height=seen.height, hint=f"Give every event and every {what} an id of its own.",
        )  # fmt: skip
    return Duplicate(seen.height)


def refused(
    writer: FrameWriter, error: CelluleError, id: str | bytes | None, name: str, *, durable: bool
) -> RefusedItem:
    """An item is refused; of one that was acknowledged (`durable`) a record says so."""
    if not durable:
        return RefusedItem(error, 0)
    text = str(error)
    return RefusedItem(error, writer.add(RefusedRecord(0, id, name, error.code, text)))
