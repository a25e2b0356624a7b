"""The cells of one module: its index, and the slots of those at work.

A cell is at work while it has messages or the beat under way looks at it; the slot is then the truth. Whoever
makes a slot adds it to the ledger's `active`, so that the end of the beat writes it back or lets it go.
"""

from __future__ import annotations

from dataclasses import dataclass

from cellule.errors import ensure
from cellule.kernel.index.live import LiveIndex, Spill
from cellule.kernel.need import Nodes
from cellule.kernel.state.cells import Entry, Slot, pack, pack_whole, unpack, weigh
from cellule.values.cid import Cid


@dataclass(frozen=True, slots=True)
class Budget:
    """How much memory a world may use; never changes a frame's bytes."""

    hot_cells_max: int = 100_000
    dirty_bytes_max: int = 64_000_000
    nodes_bytes_max: int = 64_000_000


class Cells:
    """All cells of one module: the index at rest, and the slots at work."""

    def __init__(
        self, base: str, root: Cid | None, nodes: Nodes, budget: Budget, spill: Spill | None,
        active: list[Slot], *, count: int = 0,
    ) -> None:  # fmt: skip
        self.base = base
        self.slots: dict[bytes, Slot] = {}
        self._active = active
        self.blocks: dict[Cid, bytes] = {}
        self.live: LiveIndex[Entry] = LiveIndex(
            root,
            nodes,
            pack=lambda entry: pack(entry, self.blocks),
            unpack=unpack,
            hot_max=budget.hot_cells_max,
            dirty_bytes_max=budget.dirty_bytes_max,
            spill=spill,
            spill_pack=pack_whole,
            weigh=weigh,
            count=count,
        )

    def rest(self) -> None:
        """Have the index hold the cells at work, too, as they are between two beats; they go on working."""
        for key, slot in self.slots.items():
            entry = slot.at_rest() if slot.loaded else None
            if entry is not None:
                self.live.put(key, entry)

    def put_to_rest(self, slot: Slot) -> None:
        """Have the index hold a cell with its queue, and forget its slot."""
        entry = slot.at_rest()
        is_here = entry is not None and self.slots.get(slot.key) is slot
        ensure(is_here, "kernel.slot_stale", "cell {key} is not at work, and goes to rest", key=slot.key)
        assert entry is not None
        self.live.put(slot.key, entry)
        del self.slots[slot.key]

    def slot(self, key: bytes) -> Slot:
        """The slot of `key`, made on first touch."""
        slot = self.slots.get(key)
        if slot is None:
            slot = self.slots[key] = Slot(self, key)
            self._active.append(slot)
        return slot
