"""Receipts at hand: what this node's own pool wrote into a world's inbox, and need not be read from it.

The rows are durable when they are brought. A look may have taken one before its writer was answered; such a
row is told from a new one by its key. Where the inbox stands, and its `ready` row, is `inbox.py`'s.
"""

from __future__ import annotations

from collections.abc import Sequence

from cellule.host.limits import BEAT_BYTES_MAX, BROUGHT_MAX, READ_KEPT
from cellule.host.outbox.receipts import Rows
from cellule.kernel.items import ReceiptItem


class LocalReceipts:
    """The receipts at hand for one world, in the order of their rows; the key `by` vouches for them."""

    __slots__ = ("_at_hand", "_by", "_read")

    def __init__(self, by: str | None) -> None:
        self._by = by
        self._at_hand: dict[bytes, ReceiptItem] = {}
        self._read: dict[bytes, None] = {}  # taken by a look, and perhaps still to be brought

    def __bool__(self) -> bool:
        return bool(self._at_hand)

    def add(self, rows: Rows) -> bool:
        """Keep these; False if some of them have to be looked for."""
        if len(self._at_hand) > BROUGHT_MAX:
            return False
        is_whole = True
        for key, item in rows:
            if key in self._read:
                del self._read[key]
            elif item is not None and item.by == self._by:
                self._at_hand[key] = item
            else:
                is_whole = False
        return is_whole

    def take(self, limit: int) -> list[tuple[bytes, ReceiptItem]]:
        """Take the first, as many as a beat may have."""
        taken: list[tuple[bytes, ReceiptItem]] = []
        size = 0
        for row in self._at_hand.items():
            if len(taken) >= limit or size >= BEAT_BYTES_MAX:
                break
            taken.append(row)
            size += len(row[1].value or b"")
        for key, _ in taken:
            del self._at_hand[key]
        return taken

    def find(self, key: bytes) -> ReceiptItem | None:
        """The receipt of a row, if it is at hand."""
        return self._at_hand.get(key)

    def looked(self, keys: Sequence[bytes]) -> None:
        """A look took these rows, at hand or not."""
        for key in keys:
            if self._at_hand.pop(key, None) is None:
                self._read[key] = None
        for key in list(self._read)[: max(0, len(self._read) - READ_KEPT)]:
            del self._read[key]
