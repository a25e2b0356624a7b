"""Restore: recorded frames applied to a ledger. No user code, routing or policy runs here.

Every record's effect is one call of the ledger; records that are only told (Upcast, Refused, Snapshot,
Baseline) change nothing. What a record refers to must be there: a step must be of the ring's first cell and
of its oldest message, a fired timer must exist, records about intents must fit each other
(`intents/replaying.py`). If not, the journal contradicts itself and is `Corrupted`.

`Witness` lets `verify` look at each step before it is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NoReturn

from cellule.errors import Corrupted, Rejected
from cellule.kernel.decide import schedules
from cellule.kernel.index.keys import pair_key, pair_of
from cellule.kernel.journal.codes import (
    BASELINE,
    CONTROL,
    DECISION,
    DELETED,
    EMITTED,
    EVENT,
    EXPIRED,
    INTENT,
    MANIFEST,
    MIGRATED,
    OK,
    RECEIPT,
    REFUSED,
    SNAPSHOT,
    STEP,
    TIMER,
    UPCAST,
    Status,
)  # fmt: skip
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.table import Row as Record
from cellule.kernel.need import Need, fetch
from cellule.kernel.prove.replay_intents import Contradiction, RecordedIntents
from cellule.kernel.state.cells import EVENT_MESSAGE, Message, Slot
from cellule.kernel.state.dedupe import dedupe_key, payload_check
from cellule.kernel.state.ledger import Era, Ledger, Target
from cellule.values.envelope import open_envelope
from cellule.values.link import Link

RETENTIONS = ("ttl", "idle")
_STATUSES = frozenset(int(status) for status in Status)
_UNREADABLE = (
    Rejected,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
)  # a field is not what it should be

Witness = Callable[[Frame, int, Slot], Generator[Need, None, None]]


class Replay:
    """Applies one frame after the other to a ledger."""

    def __init__(self, ledger: Ledger, world: bytes, witness: Witness | None = None) -> None:
        self._ledger = ledger
        self._witness = witness
        self._frame: Frame
        self._height = 0
        self._intents = RecordedIntents(ledger, world)
        self._apply: dict[int, Callable[[Record], Generator[Need, None, None] | None]] = {
            EVENT: self._event, EMITTED: self._emitted, TIMER: self._timer, EXPIRED: self._expired,
            CONTROL: self._control, MANIFEST: self._manifest, MIGRATED: self._migrated,
            INTENT: self._intended, DECISION: self._decided, RECEIPT: self._received,
            REFUSED: _told, SNAPSHOT: _told, BASELINE: _told, UPCAST: _told,
        }  # fmt: skip

    def apply(self, frame: Frame) -> Generator[Need, None, None]:
        """Apply `frame`; it must be the next of the chain."""
        self._frame = frame
        self._height = frame.header.first
        try:
            self._check_chain(frame)
            yield from self._apply_records(frame)
        except Contradiction as error:
            self._contradicts(str(error), error)
        except _UNREADABLE as error:
            self._contradicts(f"{type(error).__name__}: {error}", error)

    def _apply_records(self, frame: Frame) -> Generator[Need, None, None]:
        ledger = self._ledger
        ledger.now_ns, ledger.beat = frame.header.now_ns, frame.header.beat
        yield from ledger.slots(self._touched(frame))
        yield from ledger.book.expect(record[1] for record in frame.rows if record[0] == RECEIPT)
        delivered = False
        intents = self._intents
        intents.begin(frame)
        for position, record in enumerate(frame.rows):
            self._height = frame.header.first + position
            kind = record[0]
            if intents.is_asking and kind != DECISION:
                intents.expect_none()
            if not delivered and not _is_timed(record):
                ledger.deliver_pending()
                delivered = True
            if kind == STEP:
                yield from self._step(record)
                continue
            rest = self._apply[kind](record)
            if rest is not None:
                yield from rest
        if not delivered:
            ledger.deliver_pending()
        intents.end()
        ledger.settle(frame.header.last)
        ledger.frame = frame.cid.digest

    def _check_chain(self, frame: Frame) -> None:
        ledger, header = self._ledger, frame.header
        if header.first != ledger.height + 1:
            raise Corrupted(
                "kernel.chain_gap", "frame {cid} starts at height {first}; the world is at {height}",
                cid=str(frame.cid), first=header.first, height=ledger.height,
            )  # fmt: skip
        if header.prev != ledger.frame:
            raise Corrupted(
                "kernel.chain_broken", "frame {cid} at height {first} follows {prev}, not {digest}",
                cid=str(frame.cid), first=header.first, prev=header.prev, digest=ledger.frame,
            )  # fmt: skip
        if header.now_ns < ledger.now_ns or header.beat != ledger.beat + 1:
            raise Corrupted(
                "kernel.chain_time", "frame {cid} at height {first} goes back in time or skips a beat",
                cid=str(frame.cid), first=header.first,
            )  # fmt: skip

    def _touched(self, frame: Frame) -> list[Target]:
        """All cells this frame touches, so that they are read together."""
        touched: dict[Target, None] = {}
        for _, targets in self._ledger.pending:
            touched.update(dict.fromkeys(targets))
        for position, record in enumerate(frame.rows):
            self._height = frame.header.first + position
            kind = record[0]
            if kind == EVENT:
                touched.update(dict.fromkeys(self._targets(record[5])))
            elif kind in (STEP, MIGRATED, RECEIPT):
                touched[self._name(record[2]), record[3]] = None
            elif kind in (INTENT, EXPIRED):
                touched[self._name(record[3]), record[4]] = None
            elif kind == CONTROL and isinstance(record[5], dict):
                touched.update(dict.fromkeys((base, key) for base, key in record[5].get("cells", ())))
        for base, key in touched:
            if type(base) is not str or type(key) is not bytes:
                self._contradicts(f"cell {base!r} {key!r} is not a name and a key")
        return list(touched)

    # Records

    def _event(self, record: Record) -> None:
        _, _, given, schema_at, held, target_list, more = record
        schema, value = self._name(schema_at), self._value(held)
        more = more or {}
        message = Message(self._height, EVENT_MESSAGE, schema, value, 0, more.get("expected"))
        for base, key in self._targets(target_list):
            self._ledger.deliver(self._ledger.modules[base].slots[key], message)
        if more.get("dedupe"):
            if given is None or not isinstance(value, bytes):
                self._contradicts("a deduplicated event has no id")
            self._ledger.dedupe.add(
                dedupe_key(given), self._height, payload_check(schema, value), self._ledger.now_ns
            )

    def _emitted(self, record: Record) -> None:
        _, _, depth, schema_at, held, target_list = record
        targets = self._targets(target_list)
        if targets:
            message = Message(
                self._height, EVENT_MESSAGE, self._name(schema_at), self._value(held), depth, None
            )
            self._ledger.pending.append((message, targets))

    def _step(self, record: Record) -> Generator[Need, None, None]:
        _, cause, module_at, key, born, era, status, version, prev, held, more = record
        ledger = self._ledger
        slot = self._slot(self._name(module_at), key)
        if not ledger.ring or ledger.ring[0] is not slot:
            self._contradicts(f"the step is of {slot.cells.base} {key.hex()}, which is not the next to run")
        if slot.queue[0].height != cause:
            self._contradicts(f"the step handles {cause}, the queue's first is {slot.queue[0].height}")
        if prev != (slot.entry.last if slot.entry is not None else 0):
            self._contradicts("the step does not follow the cell's previous step")
        if status not in _STATUSES or not 0 <= era < len(ledger.eras):
            self._contradicts(f"a step cannot end with status {status} in era {era}")
        if self._witness is not None:
            yield from self._witness(self._frame, self._height, slot)
        more = more or {}
        self._intents.asks(self._height)
        if status != OK:
            if status == DELETED and ledger.has_intents(slot):
                self._intents.abandons(ledger.intents_of(slot))
            reason = {"code": more["code"], "text": more["text"]} if "code" in more else None
            ledger.step_done(slot, self._height, status, version, born, era, None, 0, reason)
            return
        state, size, kept = self._value(held), more.get("size"), None
        if more.get("log"):
            if slot.entry is not None and slot.entry.state is not None:
                yield from ledger.state_bytes(slot)
            added = yield from self._read(state)
            state, size, kept = ledger.append_log(slot.entry, added, None)
        elif isinstance(state, bytes):
            size = len(state)
        if size is None:
            self._contradicts("the step's state is a link, and its size is missing")
        ledger.step_done(slot, self._height, OK, version, born, era, state, size, kept)

    def _timer(self, record: Record) -> Generator[Need, None, None]:
        _, _, fired, due_ns, what = record
        if what is not None and what[0] == "schedule":
            yield from self._scheduled(fired, due_ns, what)
            return
        row = None if what is None else [what[0], self._name(what[1]), what[2], what[3]]
        if row is not None and row[0] not in RETENTIONS:
            self._contradicts(f"a timer cannot be for {row[0]!r}")
        if fired is not None:
            yield from self._fired(fired, row)
        if row is not None:
            self._ledger.timers.insert(pair_key(due_ns, self._height), row)

    def _fired(self, fired: bytes, row: list[Any] | None) -> Generator[Need, None, None]:
        """The timer of a cell's retention was due; `row` is what it has to be, where that is known."""
        found = yield from self._armed(fired)
        if found[0] not in RETENTIONS or (row is not None and found != row):
            self._contradicts(f"timer {fired.hex()} is for {found}, not {row}")
        self._ledger.timers.remove(fired)

    def _scheduled(self, fired: bytes | None, due_ns: int, what: list[Any]) -> Generator[Need, None, None]:
        _, name_at, stamp, paused = what
        name = self._name(name_at)
        known = self._ledger.book.schedules.get(name)
        if (0 if known is None else known[1]) != (0 if fired is None else pair_of(fired)[0]):
            self._contradicts(f"schedule {name} is armed for another time")
        if fired is not None and (yield from self._armed(fired))[:2] != ["schedule", name]:
            self._contradicts(f"timer {fired.hex()} is not that of schedule {name}")
        schedules.applied(self._ledger, self._height, fired, due_ns, name, stamp, paused)

    def _armed(self, fired: bytes) -> Generator[Need, None, list[Any]]:
        found: list[Any] | None = yield from self._ledger.timers.get(fired)
        if found is None:
            self._contradicts(f"no timer {fired!r} is armed")
        return found

    def _received(self, record: Record) -> Generator[Need, None, None]:
        return self._intents.received(self._height, record)

    def _decided(self, record: Record) -> Generator[Need, None, None]:
        return self._intents.decided(record)

    def _intended(self, record: Record) -> None:
        self._name(record[3])
        self._name(record[6])
        self._intents.intended(self._height, record)

    def _expired(self, record: Record) -> Generator[Need, None, None]:
        _, _, fired, module_at, key, born = record
        slot = self._slot(self._name(module_at), key)
        if slot.entry is None or slot.entry.born != born:
            self._contradicts(f"the expired cell was not born at {born}")
        found = yield from self._armed(fired)
        yield from self._fired(fired, [found[0], slot.cells.base, key, born])
        if slot.queue or slot.stopped or self._ledger.has_intents(slot):
            self._contradicts("the expired cell is busy")
        self._ledger.expire(slot)

    def _control(self, record: Record) -> Generator[Need, None, None]:
        _, _, verb, _, _, arguments = record
        ledger = self._ledger
        self._intents.asks(self._height)
        if verb == "pause" or verb == "resume":
            ledger.paused = verb == "pause"
        elif verb == "cell.resume" or verb == "cell.migrate":
            for base, key in arguments["cells"]:
                ledger.release(self._slot(base, key))
        elif verb == "deploy":
            for base in arguments.get("under", ()):
                if base not in ledger.book.over:
                    self._contradicts(f"{base} is not at its limit of open intents")
                ledger.unhold(base)
        elif verb == "effect.retry":
            yield from self._retried(pair_key(arguments["letter"], 1))

    def _retried(self, at: bytes) -> Generator[Need, None, None]:
        letter = yield from self._ledger.dead_letters.get(at)
        if letter is None or not isinstance(letter[4], dict):
            self._contradicts("there is no such dead letter of an effect")
        self._ledger.dead_letters.remove(at)
        self._intents.takes_letter(letter)

    def _manifest(self, record: Record) -> None:
        _, _, link, era = record
        if era != len(self._ledger.eras) or not isinstance(link, Link):
            self._contradicts(f"era {era} does not follow the table of {len(self._ledger.eras)}")
        self._ledger.eras.append(Era(link.cid, self._height))

    def _migrated(self, record: Record) -> Generator[Need, None, None]:
        _, _, module_at, key, born, era_from, era_to, held = record
        slot = self._slot(self._name(module_at), key)
        if slot.entry is None or slot.entry.born != born or slot.entry.era != era_from:
            self._contradicts("the migrated cell is not the one recorded")
        state = yield from self._read(self._value(held))
        self._ledger.migrate(slot, era_to, state)

    # Fields

    def _name(self, position: Any) -> str:
        names = self._frame.names
        if type(position) is not int or not 0 <= position < len(names):
            self._contradicts(f"name {position!r} is not in the frame's table of {len(names)}")
        return names[position]

    def _targets(self, targets: Any) -> list[Target]:
        return [(self._name(position), key) for position, key in targets]

    def _value(self, held: Any) -> bytes | Link:
        return held if isinstance(held, Link) else open_envelope(held).data

    def _read(self, value: bytes | Link) -> Generator[Need, None, bytes]:
        if not isinstance(value, Link):
            return value
        found = yield from fetch(self._ledger.nodes, (value.cid,))
        return found[value.cid]

    def _slot(self, base: str, key: bytes) -> Slot:
        return self._ledger.cells(base).slot(key)

    def _contradicts(self, what: str, cause: Exception | None = None) -> NoReturn:
        raise Corrupted(
            "kernel.journal_contradicts", "height {height} of frame {cid}: {what}",
            height=self._height, cid=str(self._frame.cid), what=what,
        ) from cause  # fmt: skip


def _is_timed(record: Record) -> bool:
    """Tell whether this was written while due timers were handled, before anything was delivered."""
    if record[0] == RECEIPT:
        return bool(record[9]) and "fired" in record[9]
    return record[0] in (TIMER, EXPIRED) and record[2] is not None


def _told(record: Record) -> None:
    """A record for readers; the world does not depend on it."""
