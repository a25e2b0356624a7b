"""Recorded moves of whole maps to cells, applied to a ledger: how they begin, go on and end.

Nothing is decoded or routed: a Step for each entry, and a Control that lists where messages went, say it all.
"""

from __future__ import annotations

from collections.abc import Generator

from cellule.kernel.journal.codes import DELETED, OK
from cellule.kernel.journal.records import ControlRecord, StepRecord
from cellule.kernel.need import Need
from cellule.kernel.prove.replay_intents import Contradiction
from cellule.kernel.state import spill_changes
from cellule.kernel.state.cells import Slot
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.rows import MapMove
from cellule.values.envelope import value_of


class RecordedMoves:
    """Applies the records of moves."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def of_step(self, record: StepRecord) -> MapMove | None:
        """The move that a step which a control made is part of, if it is one of a move."""
        move = self._ledger.moves.get(record.module)
        return move if move is not None and move.control == record.extras["control"] else None

    def control(self, height: int, record: ControlRecord) -> None:
        """Maps begin to move, or messages that wait for one went to cells."""
        if not record.cause:
            for base, key in record.arguments["cells"]:
                self._begin(height, self._ledger.cells(base).slot(key))
            return
        [(base, key)] = record.arguments["cells"]
        slot, move, rows = self._ledger.cells(base).slot(key), self._ledger.moves.get(base), record.arguments
        moved = [(each, height) for each, height, _ in rows["queue"]]
        last = [(base, message.height) for message in reversed(slot.queue)][: len(moved)]
        if move is None or move.control != record.cause or last != moved:
            raise Contradiction("the messages that go to cells are not those that wait for the map")
        spill_changes.hand_over(self._ledger, slot, [cell for _, _, cell in rows["queue"]])

    def _begin(self, height: int, slot: Slot) -> None:
        is_there = slot.entry is not None or slot.queue or spill_changes.is_awaited(self._ledger, slot)
        if slot.key or slot.cells.base in self._ledger.moves or not is_there:
            raise Contradiction(f"{slot.cells.base} has no map that becomes cells")
        spill_changes.begin(self._ledger, slot, height)

    def step(self, height: int, record: StepRecord, slot: Slot, move: MapMove) -> Generator[Need, None, None]:
        """An entry of a map became a cell, or all have, and the cell with the map is gone."""
        ledger, entry, era = self._ledger, slot.entry, record.era
        if era != len(ledger.eras) - 1:
            raise Contradiction(f"the map of {record.module} does not become cells of era {era}")
        if record.status == OK and record.key:
            is_first = entry is None or entry.state is None
            if not is_first or (record.born, record.version, record.prev) != (height, 1, 0):
                raise Contradiction("the cell that is born of an entry is there already")
            if record.key <= move.last:
                raise Contradiction("the entries of the map are not in the order of their keys")
            state = value_of(record.state)
            size = len(state) if isinstance(state, bytes) else record.extras["size"]
            spill_changes.bear(ledger, slot, height, era, state, size)
            return
        found = (0, 0) if entry is None else (entry.last, entry.born)
        if record.status != DELETED or record.key or (record.prev, record.born) != found:
            raise Contradiction("the step does not end the cell that held the map")
        if slot.queue or spill_changes.is_awaited(ledger, slot):
            raise Contradiction("messages wait for the map that ends")
        yield from spill_changes.end(ledger, slot)
