"""What a step does to its cell: a new state, a deletion, a failure; and how a stopped cell goes on.

Called with what a Step record says, live and in replay alike. The slot is the first of the ring; its message
is consumed unless the cell stops, and the slot enters the ring again if it has more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cellule.errors import ensure
from cellule.kernel.index.keys import pair_key
from cellule.kernel.journal.codes import CONFLICT, DELETED, HALTED, OK, PARKED, REFUSED, SKIPPED
from cellule.kernel.journal.records import StepRecord
from cellule.kernel.program import CODE_UNAVAILABLE, LogMark
from cellule.kernel.state import call_changes
from cellule.kernel.state import log_state as log
from cellule.kernel.state.cells import Entry, Slot, ghost, message_value
from cellule.kernel.state.expectation import Call
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.rows import DeadLetter, StoppedRow
from cellule.values.cid import Cid
from cellule.values.envelope import value_of
from cellule.values.link import Link

_KEPT = frozenset(("intents", "calls"))  # what a step leaves as it is
_STOP_FIELDS = ("status", "since", "code", "text")


def step_done(ledger: Ledger, slot: Slot, height: int, status: int, version: int, born: int, era: int,
    state: bytes | Link | None, size: int, extras: dict[str, Any] | None,
) -> None:  # fmt: skip
    """Account for the step of the slot at the front of the ring."""
    front = ledger.ring.popleft()
    ensure(
        front is slot,
        "kernel.ring_order",
        "a step of another cell than the ring's first: {key}",
        key=slot.key,
    )
    ledger.touch(slot)
    if status == OK:
        message, old = slot.queue.popleft(), slot.entry
        if old is not None and old.extras is not None:
            kept = {name: each for name, each in old.extras.items() if name in _KEPT}
            extras = {**(extras or {}), **kept} or None
        now_ns = ledger.now_ns
        is_life = old is not None and old.is_life(born)
        born_ns = old.born_ns if old is not None and is_life else now_ns
        before = old.version if old is not None and is_life else 0
        ensure(
            version == before + 1, "kernel.step_version",
            "cell {key} goes from version {before} to {version}",
            key=slot.key, before=before, version=version,
        )  # fmt: skip
        slot.entry = Entry(state, size, version, born, born_ns, era, now_ns, height, extras)
        if isinstance(message.expected, Call):
            call_changes.take(ledger, slot, message.expected)
    else:
        _step_other(ledger, slot, height, status, era, extras)
    if slot.queue and not slot.stopped:
        ledger.enter(slot)


def _step_other(
    ledger: Ledger, slot: Slot, height: int, status: int, era: int, extras: dict[str, Any] | None
) -> None:
    if status == DELETED:
        slot.queue.popleft()
        slot.entry = None
        return
    reason = extras or {}
    if status in (HALTED, PARKED):
        what = "halted" if status == HALTED else "needs migration"
        if reason.get("code") == CODE_UNAVAILABLE:
            what = "needs code"
        since = {
            "status": what,
            "since": height,
            "code": reason.get("code", ""),
            "text": reason.get("text", ""),
        }
        _stop(ledger, slot, height, era, since)
        return
    message = slot.queue.popleft()
    if slot.entry is not None:
        slot.entry = slot.entry.changed(last=height)
    if status == SKIPPED:
        code, text = reason.get("code", ""), reason.get("text", "")
        letter = DeadLetter(slot.cells.base, slot.key, code, text, message_value(message))
        ledger.dead_letters.insert(pair_key(height, 0), letter)
    else:
        is_known = status in (CONFLICT, REFUSED)
        ensure(is_known, "kernel.step_status", "a step has unknown status {status}", status=status)
        if status == CONFLICT:
            ledger.leave_id(message)


def _stop(ledger: Ledger, slot: Slot, height: int, era: int, since: dict[str, Any]) -> None:
    ensure(not slot.stopped, "kernel.halted_twice", "cell {key} is stopped already", key=slot.key)
    entry = slot.entry or ghost(era, ledger.now_ns)
    slot.entry = entry.changed(last=height, extras={**(entry.extras or {}), **since})
    slot.stopped = True
    ledger.stopped.insert(pair_key(height, 0), StoppedRow(slot.cells.base, slot.key, since["status"]))


def halt(ledger: Ledger, slot: Slot, height: int, era: int, why: str) -> None:
    """Stop a cell by the control at `height`: it keeps its queue, and leaves the ring."""
    ensure(not slot.stopped, "kernel.halted_twice", "cell {key} is stopped already", key=slot.key)
    entry = slot.entry or ghost(era, ledger.now_ns)
    since = {"status": "halted", "since": height, "code": "kernel.cell_halted", "text": why}
    slot.entry = entry.changed(extras={**(entry.extras or {}), **since})
    slot.stopped = True
    ledger.stopped.insert(pair_key(height, 0), StoppedRow(slot.cells.base, slot.key, "halted"))
    if slot.queue:
        ledger.leave(slot)
    ledger.touch(slot)


def release(ledger: Ledger, slot: Slot) -> None:
    """Let a stopped cell run again from the front of its queue."""
    entry = slot.entry
    if not slot.stopped or entry is None:
        return
    ledger.stopped.remove(pair_key(entry.get("since"), 0))
    slot.entry = None if entry.state is None else entry.without(*_STOP_FIELDS)
    slot.stopped = False
    ledger.touch(slot)
    if slot.queue:
        ledger.enter(slot)


def release_all(ledger: Ledger, slots: Iterable[Slot], *, only_empty: bool = False) -> None:
    """Let stopped cells run again; or `only_empty` ones, which failed at their first message."""
    for slot in slots:
        if not only_empty or (slot.entry is not None and slot.entry.state is None):
            release(ledger, slot)


def drop_first(ledger: Ledger, slot: Slot, height: int) -> None:
    """Take the first message out of a stopped cell's queue; the Step is at `height`."""
    entry = slot.entry
    is_stopped = slot.stopped and entry is not None and slot.queue
    ensure(is_stopped, "kernel.drop_running", "cell {key} is not stopped", key=slot.key)
    assert entry is not None
    slot.queue.popleft()
    slot.entry = entry.changed(last=height)
    ledger.touch(slot)


def delete(ledger: Ledger, slot: Slot) -> None:
    """Delete a cell; what waits in its queue finds none."""
    release(ledger, slot)
    slot.entry = None
    ledger.touch(slot)


def put(ledger: Ledger, slot: Slot, height: int, version: int, born: int, era: int, state: bytes | Link,
    size: int,
) -> None:  # fmt: skip
    """A cell at rest has another state now: by a person, in the Step at `height`."""
    is_busy = slot.queue or slot.stopped or ledger.has_intents(slot)
    ensure(not is_busy, "kernel.put_busy", "cell {key} gets a state while it is busy", key=slot.key)
    now_ns, old = ledger.now_ns, slot.entry
    born_ns = now_ns if old is None else old.born_ns
    slot.entry = Entry(state, size, version, born, born_ns, era, now_ns, height, None)
    ledger.touch(slot)


def put_recorded(ledger: Ledger, slot: Slot, height: int, step: StepRecord) -> None:
    """The same as a Step record says it; raises `ValueError` where that is not of the cell as it is."""
    old, state = slot.entry, value_of(step.state)
    expected = (height, 1, 0) if old is None else (old.born, old.version + 1, old.last)
    if (step.born, step.version, step.prev) != expected or step.era != len(ledger.eras) - 1:
        raise ValueError("the merged state is not of the cell as it is")
    size = len(state) if isinstance(state, bytes) else step.extras["size"]
    put(ledger, slot, height, step.version, step.born, step.era, state, size)


def migrate(ledger: Ledger, slot: Slot, era: int, state: bytes) -> None:
    """Move a cell to another era."""
    is_known = 0 <= era < len(ledger.eras)
    ensure(
        is_known, "kernel.era_order", "cell {key} moves to era {era}, which is none", key=slot.key, era=era
    )
    entry = slot.entry
    assert entry is not None
    size = len(state) if entry.get("log") is None else entry.size  # a log moves as it is, or not at all
    slot.entry = entry.changed(state=state, size=size, era=era)
    ledger.touch(slot)


def expire(ledger: Ledger, slot: Slot, fired: bytes) -> None:
    """Remove a cell whose time is over, by the timer that fired."""
    ensure(not slot.queue, "kernel.expired_busy", "cell {key} expires with messages", key=slot.key)
    ledger.timers.remove(fired)
    slot.entry = None
    ledger.touch(slot)


def append_log(
    ledger: Ledger, entry: Entry | None, added: bytes, blocks: dict[Cid, bytes] | None
) -> tuple[bytes, int, dict[str, Any] | None]:
    """A log's new tail, size and chunks; a sealed one goes to `blocks` (None in replay: it exists)."""
    mark, sealed = log.NOTHING, 0
    if entry is not None and isinstance(entry.state, bytes):
        mark, sealed = LogMark(entry.get("log", ()), entry.state), entry.size - len(entry.state)
    ensure(
        sealed >= 0, "kernel.log_size", "a log of {size} bytes has a longer tail", size=entry and entry.size
    )
    mark, chunk = log.advanced(mark, added)
    if chunk is not None:
        sealed += len(chunk)
        if blocks is not None:
            cid = mark.chunks[-1].cid
            blocks[cid] = chunk
            ledger.keep_block(cid, chunk)  # the next step reads it, and its frame is not durable yet
    return mark.tail, sealed + len(mark.tail), ({"log": mark.chunks} if mark.chunks else None)
