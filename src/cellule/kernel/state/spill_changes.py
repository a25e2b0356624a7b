"""What moving a whole map to cells does to the world, live and in replay alike.

From the deploy on the module's cells are held (`Ledger.moves`): events go to the cells of their keys, and
wait there. Entry after entry becomes a cell; then what waited for the map goes to the front of the cells'
queues; then the map is gone, and the cells run. Nothing here decides: how far a beat comes, and where each
message goes, stands in the records.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from cellule.errors import Corrupted, ensure
from cellule.kernel.index.keys import pair_key
from cellule.kernel.need import Need
from cellule.kernel.state import step_changes
from cellule.kernel.state.cells import Entry, Message, Slot
from cellule.kernel.state.expectation import Asker
from cellule.kernel.state.intent_changes import attach
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.rows import MapMove, OpenIntent
from cellule.values.link import Link

Owner = tuple[bytes, int]
"""Who waits for a receipt from now on: a cell of the same module, and its incarnation; 0 if it is gone."""


def begin(ledger: Ledger, slot: Slot, control: int) -> None:
    """The map of this cell begins to become cells by the control at that height; no cell of it runs."""
    base = slot.cells.base
    ensure(base not in ledger.moves, "kernel.moves_twice", "the map of {module} moves already", module=base)
    ledger.moves[base] = MapMove(control)
    if slot.queue and not slot.stopped and not ledger.is_held(slot):
        ledger.leave(slot)
        ledger.enter(slot)


def bear(ledger: Ledger, slot: Slot, height: int, era: int, state: bytes | Link, size: int) -> None:
    """A cell is born at `height` with the state that an entry had; what waits there, or stops it, stays."""
    old, now_ns = slot.entry, ledger.now_ns
    is_new = old is None or old.state is None
    ensure(is_new, "kernel.spill_there", "cell {key} is there already", key=slot.key)
    slot.entry = Entry(state, size, 1, height, now_ns, era, now_ns, height, old.extras if old else None)
    ledger.moves[slot.cells.base].last = slot.key
    ledger.touch(slot)


def hand_over(ledger: Ledger, slot: Slot, keys: Iterable[bytes]) -> None:
    """The last messages that wait for the map go to the front of the queues of these cells, last one first.

    So those of one key stay in their order, and before what was sent since the deploy.
    """
    for key in keys:
        message, cell = slot.queue.pop(), slot.cells.slot(key)
        if not slot.queue and not slot.stopped:
            ledger.leave(slot)
        cell.queue.appendleft(_for(cell, message))
        if len(cell.queue) == 1 and not cell.stopped:
            ledger.enter(cell)
    ledger.touch(slot)


def end(ledger: Ledger, slot: Slot) -> Generator[Need, None, dict[int, Owner]]:
    """All entries are cells, and nothing waits for the map: it is gone, and the cells run.

    Returns who waits for the receipts of its open intents.
    """
    base = slot.cells.base
    is_done = not slot.queue and not is_awaited(ledger, slot)
    ensure(is_done, "kernel.spill_message", "messages wait for the map of {module}", module=base)
    heights = list(ledger.intents_of(slot))
    step_changes.delete(ledger, slot)
    owners = yield from _hand_intents(ledger, slot, heights)
    del ledger.moves[base]
    ledger.release_held(base)
    return owners


def is_awaited(ledger: Ledger, slot: Slot) -> bool:
    """Tell whether a message reaches the map in the next beat."""
    target = (slot.cells.base, slot.key)
    return any(target in targets for _, targets in ledger.pending)


def _hand_intents(
    ledger: Ledger, slot: Slot, heights: list[int]
) -> Generator[Need, None, dict[int, Owner]]:  # fmt: skip
    book, owners, base = ledger.book, dict[int, Owner](), slot.cells.base
    yield from book.expect(heights)
    intents: dict[int, OpenIntent] = {}
    for height in heights:
        intent = yield from book.find(height)
        if intent is None:
            raise Corrupted(
                "kernel.intent_missing", "cell {module} {key} waits for intent {height}, which is not open",
                module=base, key=slot.key, height=height,
            )  # fmt: skip
        intents[height] = intent
    yield from ledger.slots((base, intent.extras["entry"]) for intent in intents.values())
    for height, intent in intents.items():
        key = intent.extras["entry"]
        cell = slot.cells.slot(key)
        born = 0 if cell.entry is None or cell.entry.state is None else cell.entry.born
        owners[height] = (key, born)
        extras = {name: value for name, value in intent.extras.items() if name != "entry"}
        book.open.put(pair_key(height, 0), intent._replace(key=key, born=born, extras=extras))
        timer = (yield from ledger.timers.get(extras["due"])) if "due" in extras else None
        if timer is not None:
            ledger.timers.put(extras["due"], timer._replace(key=key))
        if born:
            attach(ledger, cell, born, height)
    return owners


def _for(cell: Slot, message: Message) -> Message:
    """A receipt is for the cell that its entry became; one of an entry that is gone is for nobody."""
    if not isinstance(message.expected, Asker):
        return message
    return message._replace(expected=0 if cell.entry is None else cell.entry.born)
