"""What moving a whole map to cells does to the world, live and in replay alike.

Nothing here decides: which entry becomes which cell, and where each message goes, stands in the records.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from cellule.errors import Corrupted, ensure
from cellule.kernel.index.keys import pair_key
from cellule.kernel.need import Need
from cellule.kernel.state import step_changes
from cellule.kernel.state.cells import Entry, Message, Slot
from cellule.kernel.state.expectation import Asker
from cellule.kernel.state.intent_changes import attach
from cellule.kernel.state.ledger import Ledger, Target
from cellule.values.link import Link

Owner = tuple[bytes, int]
"""Who waits for a receipt from now on: a cell of the same module, and its incarnation; 0 if it is gone."""


def begin(ledger: Ledger, slot: Slot, height: int, era: int, state: bytes | Link, size: int) -> None:
    """A cell is born at `height` with the state that an entry had."""
    ensure(slot.entry is None, "kernel.spill_there", "cell {key} is there already", key=slot.key)
    now_ns = ledger.now_ns
    slot.entry = Entry(state, size, 1, height, now_ns, era, now_ns, height, None)
    ledger.touch(slot)


def end(
    ledger: Ledger, slot: Slot, messages: Mapping[int, bytes]
) -> Generator[Need, None, dict[int, Owner]]:  # fmt: skip
    """The cell with the map is gone: what waited for it goes to the cells of these keys, by height.

    Returns who waits for the receipts of its open intents.
    """
    heights, queue = list(ledger.intents_of(slot)), list(slot.queue)
    if queue and not slot.stopped:
        ledger.leave(slot)
    slot.queue.clear()
    step_changes.delete(ledger, slot)
    owners = yield from _hand_over(ledger, slot, heights)
    for message in queue:
        cell = _cell(slot, messages, message)
        ledger.deliver(cell, _for(cell, message))
    _redirect_pending(ledger, slot, messages)
    return owners


def pending_of(ledger: Ledger, target: Target) -> list[Message]:
    """The messages that reach a cell in the next beat."""
    return [message for message, targets in ledger.pending if target in targets]


def _redirect_pending(ledger: Ledger, slot: Slot, messages: Mapping[int, bytes]) -> None:
    """What would reach the map in the next beat reaches the cells of its entries."""
    old = (slot.cells.base, slot.key)
    for place, (message, targets) in enumerate(ledger.pending):
        if old in targets:
            cell = _cell(slot, messages, message)
            new = [(cell.cells.base, cell.key) if target == old else target for target in targets]
            ledger.pending[place] = (_for(cell, message), new)  # a receipt has no other target


def _hand_over(
    ledger: Ledger, slot: Slot, heights: list[int]
) -> Generator[Need, None, dict[int, Owner]]:  # fmt: skip
    book, owners = ledger.book, dict[int, Owner]()
    yield from book.expect(heights)
    for height in heights:
        intent = yield from book.find(height)
        if intent is None:
            raise Corrupted(
                "kernel.intent_missing", "cell {module} {key} waits for intent {height}, which is not open",
                module=slot.cells.base, key=slot.key, height=height,
            )  # fmt: skip
        key = intent.extras["entry"]
        cell = slot.cells.slots.get(key)
        born = 0 if cell is None or cell.entry is None else cell.entry.born
        owners[height] = (key, born)
        extras = {name: value for name, value in intent.extras.items() if name != "entry"}
        book.open.put(pair_key(height, 0), intent._replace(key=key, born=born, extras=extras))
        timer = (yield from ledger.timers.get(extras["due"])) if "due" in extras else None
        if timer is not None:
            ledger.timers.put(extras["due"], timer._replace(key=key))
        if cell is not None and born:
            attach(ledger, cell, born, height)
    return owners


def _cell(slot: Slot, messages: Mapping[int, bytes], message: Message) -> Slot:
    key = messages.get(message.height)
    ensure(key is not None, "kernel.spill_message", "message {height} has no cell", height=message.height)
    return slot.cells.slot(key)  # type: ignore[no-any-return]


def _for(cell: Slot, message: Message) -> Message:
    """A receipt is for the cell that its entry became; one of an entry that is gone is for nobody."""
    if not isinstance(message.expected, Asker):
        return message
    return message._replace(expected=0 if cell.entry is None else cell.entry.born)
