"""Restore: recorded frames applied to a ledger. No user code, routing or policy runs here.

Every record's effect is one call of the ledger; records that are only told (Upcast, Refused, Snapshot,
Baseline) change nothing. What a record refers to must be there: a step of the ring's first cell and of its
oldest message, a timer that fires, intents that fit each other (`replay_intents.py`). If not, the journal
contradicts itself and is `Corrupted`. `Witness` lets `verify` look at each step before it is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NoReturn

from cellule.errors import Corrupted, InvariantBroken, Rejected
from cellule.kernel.index.keys import pair_key, pair_of
from cellule.kernel.journal.codes import DELETED, DROPPED, OK, Status
from cellule.kernel.journal.fields import RetentionTimer, ScheduleTimer
from cellule.kernel.journal.frame import Frame
from cellule.kernel.journal.heartbeat_records import (
    AgendaRecord,
    BindingRecord,
    EnzymeRecord,
    SignalRecord,
    StageRecord,
    WriteRecord,
)
from cellule.kernel.journal.records import (
    BaselineRecord,
    ControlRecord,
    DecisionRecord,
    EmittedRecord,
    EventRecord,
    ExpiredRecord,
    ForkRecord,
    IntentRecord,
    ManifestRecord,
    MigratedRecord,
    ReceiptRecord,
    Record,
    RefusedRecord,
    SnapshotRecord,
    StepRecord,
    TimerRecord,
    UpcastRecord,
)
from cellule.kernel.lineage import Lineage
from cellule.kernel.manifest.system import CALL_FAILED
from cellule.kernel.need import Need, fetch
from cellule.kernel.prove.replay_heartbeat import RecordedHeartbeat
from cellule.kernel.prove.replay_intents import Contradiction, RecordedIntents
from cellule.kernel.prove.replay_moves import RecordedMoves
from cellule.kernel.state import call_changes, step_changes
from cellule.kernel.state.branch import Branch, open_answers
from cellule.kernel.state.cells import EVENT_MESSAGE, Message, Slot
from cellule.kernel.state.dedupe import control_check, dedupe_key, payload_check
from cellule.kernel.state.expectation import Call, Expected
from cellule.kernel.state.intent_changes import begin_fork
from cellule.kernel.state.ledger import Ledger, Target
from cellule.kernel.state.rows import ScheduleRow, TimerRow
from cellule.values.envelope import value_of
from cellule.values.link import Link

RETENTIONS = ("ttl", "idle", "sweep", "answer")
_STATUSES = frozenset(int(status) for status in Status if status != DROPPED)  # of steps that ran
# A field does not fit, or what the records say breaks an invariant of the ledger: no live beat does that.
_UNREADABLE = (Rejected, InvariantBroken, TypeError, ValueError, LookupError, AttributeError)

Witness = Callable[[Frame, int, StepRecord | AgendaRecord, Slot | None], Generator[Need, None, None]]
"""Called before a step is applied, and before the first Agenda record of a frame (without a slot)."""


class Replay:
    """Applies one frame after the other to a ledger."""

    def __init__(self, ledger: Ledger, lineage: Lineage, witness: Witness | None = None) -> None:
        self._ledger = ledger
        self._witness = witness
        self._frame: Frame
        self._height = 0
        self._has_agenda = False  # an Agenda record of the frame was applied
        self._intents = RecordedIntents(ledger, lineage)
        self._heartbeat = RecordedHeartbeat(ledger)
        self._moves = RecordedMoves(ledger)
        self._apply: dict[type[Record], Callable[[Any], Generator[Need, None, None] | None]] = {
            EventRecord: self._event, EmittedRecord: self._emitted, StepRecord: self._step,
            TimerRecord: self._timer, ExpiredRecord: self._expired, ControlRecord: self._control,
            ManifestRecord: self._manifest, MigratedRecord: self._migrated, IntentRecord: self._intended,
            DecisionRecord: self._intents.decided, ReceiptRecord: self._received, RefusedRecord: _told,
            SnapshotRecord: _told, BaselineRecord: _told, UpcastRecord: _told, StageRecord: _told,
            SignalRecord: self._signal, AgendaRecord: self._agenda, WriteRecord: self._written,
            EnzymeRecord: self._heartbeat.enzyme, BindingRecord: self._heartbeat.binding,
            ForkRecord: self._forked,
        }  # fmt: skip

    def apply(self, frame: Frame) -> Generator[Need, None, None]:
        """Apply `frame`; it must be the next of the chain."""
        self._frame = frame
        try:
            self._check_chain(frame)
            yield from self._apply_records(frame)
        except Contradiction as error:
            self._contradicts(str(error), error)
        except _UNREADABLE as error:
            self._contradicts(f"{type(error).__name__}: {error}", error)

    def _apply_records(self, frame: Frame) -> Generator[Need, None, None]:
        ledger = self._ledger
        ledger.begin_beat(frame.header.beat, frame.header.now_ns)
        yield from ledger.slots(self._touched(frame))
        yield from ledger.book.expect(receipt.cause for _, receipt in frame.of(ReceiptRecord))
        delivered = self._has_agenda = False
        intents = self._intents
        intents.begin(frame)
        for self._height, record in frame.numbered():
            kind = record.__class__
            if intents.is_asking and kind is not DecisionRecord:
                intents.expect_none()
            if not delivered and not _is_timed(record):
                ledger.deliver_pending()
                delivered = True
            rest = self._apply[kind](record)
            if rest is not None:
                yield from rest
        if not delivered:
            ledger.deliver_pending()
        intents.end()
        ledger.settle(frame.header.last)
        ledger.end_frame(frame.cid.digest)

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
        for self._height, record in frame.numbered():
            match record:
                case EventRecord():
                    touched.update(dict.fromkeys(record.targets))
                case StepRecord() | MigratedRecord() | ReceiptRecord() | IntentRecord() | ExpiredRecord():
                    touched[record.module, record.key] = None
                case ControlRecord(arguments=arguments):
                    touched.update(dict.fromkeys((base, key) for base, key in arguments.get("cells", ())))
                    touched.update(dict.fromkeys((base, key) for base, _, key in arguments.get("queue", ())))
        for base, key in touched:
            if type(base) is not str or type(key) is not bytes:
                self._contradicts(f"cell {base!r} {key!r} is not a name and a key")
        return list(touched)

    # Records

    def _event(self, record: EventRecord) -> None:
        schema, value, extras = record.schema, value_of(record.value), record.extras
        given: bytes | None = None
        if extras.get("dedupe"):
            if record.id is None or not isinstance(value, bytes):
                self._contradicts("a deduplicated event has no id")
            given = dedupe_key(record.id)
            self._ledger.dedupe.add(given, self._height, payload_check(schema, value), self._ledger.now_ns)
        expected = None
        if "expected" in extras:
            expected = Expected(extras["expected"], extras.get("expected_born"), given)
        message = Message(self._height, EVENT_MESSAGE, schema, value, extras.get("depth", 0), expected)
        for base, key in record.targets:
            self._ledger.deliver(self._ledger.modules[base].slots[key], message)

    def _emitted(self, record: EmittedRecord) -> None:
        if not record.targets:
            return
        value, schema, targets = value_of(record.value), record.schema, [*record.targets]
        step = self._frame.at(record.cause) if record.cause >= self._frame.header.first else None
        expected: Call | int | None = None
        if schema == CALL_FAILED:
            assert isinstance(value, bytes), "what tells of a call is short"
            expected = call_changes.born_of(value)
        elif isinstance(step, StepRecord):
            made = {record.cause + at: said for at, *said in step.extras.get("calls", ())}
            if self._height in made:
                expected = Call(step.module, step.key, step.born, *made[self._height])
        self._ledger.emit(
            Message(self._height, EVENT_MESSAGE, schema, value, record.depth, expected), targets
        )
        if isinstance(step, StepRecord):
            call_changes.emitted(self._ledger, self._slot(step.module, step.key), schema, value, targets)

    def _step(self, record: StepRecord) -> Generator[Need, None, None] | None:
        slot = self._slot(record.module, record.key)
        if record.extras.get("cut") and not record.extras.get("log"):
            self._contradicts("the step cuts a log, and its cell has none")
        if "control" in record.extras:
            move = self._moves.of_step(record)
            if move is not None:
                return self._moves.step(self._height, record, slot, move)
            self._removed(record, slot)
            return None
        return self._stepped(record, slot)

    def _stepped(self, record: StepRecord, slot: Slot) -> Generator[Need, None, None]:
        ledger, status, era, extras = self._ledger, record.status, record.era, record.extras
        if not ledger.ring or ledger.ring[0] is not slot:
            self._contradicts(
                f"the step is of {record.module} {record.key.hex()}, which is not the next to run"
            )
        if slot.queue[0].height != record.cause:
            self._contradicts(f"the step handles {record.cause}, the queue's first is {slot.queue[0].height}")
        if record.prev != (slot.entry.last if slot.entry is not None else 0):
            self._contradicts("the step does not follow the cell's previous step")
        if status not in _STATUSES or not 0 <= era < len(ledger.eras):
            self._contradicts(f"a step cannot end with status {status} in era {era}")
        if self._witness is not None:
            yield from self._witness(self._frame, self._height, record, slot)
        self._intents.asks(self._height)
        if status != OK:
            if status == DELETED and ledger.has_intents(slot):
                self._intents.abandons(ledger.intents_of(slot))
            reason = {"code": extras["code"], "text": extras["text"]} if "code" in extras else None
            step_changes.step_done(
                ledger, slot, self._height, status, record.version, record.born, era, None, 0, reason
            )
            return
        state, size, kept = value_of(record.state), extras.get("size"), None
        if extras.get("log"):
            is_cut = extras.get("cut", False)
            if not is_cut and slot.entry is not None and slot.entry.state is not None:
                yield from ledger.state_bytes(slot)
            added = yield from self._read(state)
            before = None if is_cut else slot.entry
            state, size, kept = step_changes.append_log(ledger, before, added, None)
        elif isinstance(state, bytes):
            size = len(state)
        if size is None:
            self._contradicts("the step's state is a link, and its size is missing")
        step_changes.step_done(
            ledger, slot, self._height, OK, record.version, record.born, era, state, size, kept
        )

    def _removed(self, record: StepRecord, slot: Slot) -> None:
        """A person ended a message or a cell."""
        control, entry = self._frame.at(record.extras["control"]), slot.entry
        verb = control.verb if isinstance(control, ControlRecord) else ""
        if verb in ("cell.merge", "cell.import") and record.status == OK:
            step_changes.put_recorded(self._ledger, slot, self._height, record)
            return
        if entry is None or (record.prev, record.born) != (entry.last, entry.born):
            self._contradicts("the step is not of the cell as it is")
        if verb == "cell.drop" and record.status == DROPPED:
            if not slot.stopped or not slot.queue or slot.queue[0].height != record.cause:
                self._contradicts(f"message {record.cause} is not the first of a stopped cell")
            step_changes.drop_first(self._ledger, slot, self._height)
            self._release_dropped(slot)
        elif verb in ("cell.delete", "cell.erase", "cell.merge") and record.status == DELETED:
            self._intents.asks(self._height)
            self._intents.abandons(self._ledger.intents_of(slot))
            step_changes.delete(self._ledger, slot)
        else:
            self._contradicts(f"{verb or 'no control'} does not end a step with status {record.status}")

    def _release_dropped(self, slot: Slot) -> None:
        """After the last message that one control drops, its cell goes on."""
        following = self._frame.at(self._height + 1) if self._height < self._frame.header.last else None
        is_last = (
            not isinstance(following, StepRecord)
            or following.status != DROPPED
            or (following.module, following.key) != (slot.cells.base, slot.key)
        )
        if is_last:
            step_changes.release(self._ledger, slot)

    def _timer(self, record: TimerRecord) -> Generator[Need, None, None]:
        match record.what:
            case ScheduleTimer():
                yield from self._scheduled(record.fired, record.due_ns, record.what)
                return
            case RetentionTimer(rule=rule) if rule not in RETENTIONS:
                self._contradicts(f"a timer cannot be for {rule!r}")
        timer = None if record.what is None else TimerRow(*record.what)
        yield from self._answers(record, timer)
        if record.fired is not None:
            yield from self._check_fired(record.fired, timer)
        self._ledger.arm(record.fired, record.due_ns, self._height, timer)

    def _answers(self, record: TimerRecord, timer: TimerRow | None) -> Generator[Need, None, None]:
        """Those who wait for a receipt that has come are answered later, or all of them are answered."""
        if timer is not None and timer.what == "answer":
            yield from self._intents.postpones(timer.key)
        elif timer is None and record.fired is not None:
            found = yield from self._armed(record.fired)
            if found.what == "answer":
                yield from self._intents.has_answered(found.key)

    def _check_fired(self, fired: bytes, timer: TimerRow | None) -> Generator[Need, None, None]:
        """The timer of a cell's retention was due; `timer` is what it has to be, where that is known."""
        found = yield from self._armed(fired)
        if timer is not None and found.what == "sweep":
            timer = timer._replace(key=found.key)  # it goes on behind the cells it has seen
        if found.what not in RETENTIONS or (timer is not None and found != timer):
            self._contradicts(f"timer {fired.hex()} is for {found}, not {timer}")

    def _scheduled(
        self, fired: bytes | None, due_ns: int, timer: ScheduleTimer
    ) -> Generator[Need, None, None]:
        name = timer.name
        known = self._ledger.book.schedules.get(name)
        if (0 if known is None else known.due_ns) != (0 if fired is None else pair_of(fired)[0]):
            self._contradicts(f"schedule {name} is armed for another time")
        if fired is not None:
            armed = yield from self._armed(fired)
            if (armed.what, armed.module) != ("schedule", name):
                self._contradicts(f"timer {fired.hex()} is not that of schedule {name}")
        row = None
        if timer.fingerprint:
            next_ns = 0 if timer.paused else due_ns
            row = ScheduleRow(timer.fingerprint, next_ns, timer.paused, timer.waiting_ns)
        self._ledger.schedule(name, row, fired, self._height, timer.made_up)

    def _armed(self, fired: bytes) -> Generator[Need, None, TimerRow]:
        found = yield from self._ledger.timers.get(fired)
        if found is None:
            self._contradicts(f"no timer {fired!r} is armed")
        return found

    def _received(self, record: ReceiptRecord) -> Generator[Need, None, None]:
        return self._intents.received(self._height, record)

    def _intended(self, record: IntentRecord) -> None:
        self._intents.intended(self._height, record)

    def _signal(self, record: SignalRecord) -> Generator[Need, None, None]:
        return self._heartbeat.signal(self._height, record)

    def _agenda(self, record: AgendaRecord) -> Generator[Need, None, None]:
        if self._witness is not None and not self._has_agenda:
            yield from self._witness(self._frame, self._height, record, None)
        self._has_agenda = True
        self._intents.asks(self._height)
        yield from self._heartbeat.agenda(record)

    def _written(self, record: WriteRecord) -> Generator[Need, None, None]:
        return self._heartbeat.write(self._height, record)

    def _expired(self, record: ExpiredRecord) -> Generator[Need, None, None]:
        slot = self._slot(record.module, record.key)
        if slot.entry is None or slot.entry.born != record.born:
            self._contradicts(f"the expired cell was not born at {record.born}")
        found = yield from self._armed(record.fired)
        if found.what in ("sweep", "answer"):
            self._contradicts(f"the timer {found.what} removes no cell")
        timer = TimerRow(found.what, record.module, record.key, record.born)
        yield from self._check_fired(record.fired, timer)
        if slot.queue or slot.stopped or self._ledger.has_intents(slot):
            self._contradicts("the expired cell is busy")
        step_changes.expire(self._ledger, slot, record.fired)

    def _control(self, record: ControlRecord) -> Generator[Need, None, None]:
        ledger, verb, arguments = self._ledger, record.verb, record.arguments
        self._intents.asks(self._height)
        self._remember(record)
        if verb in ("pause", "resume", "fork.live"):
            self._world_control(verb)
        elif verb in ("cell.resume", "cell.migrate", "cell.erase"):
            slots = [self._slot(base, key) for base, key in arguments["cells"]]
            step_changes.release_all(ledger, slots, only_empty=verb == "cell.erase")
        elif verb == "cell.halt":
            [(base, key)] = arguments["cells"]
            slot = self._slot(base, key)
            if slot.stopped:
                self._contradicts("the halted cell was stopped before")
            step_changes.halt(ledger, slot, self._height, len(ledger.eras) - 1, record.why)
        # New limits may let modules go on; the record names them, so that no manifest is asked.
        elif verb == "deploy" or verb == "cell.spill":
            self._deployed(record)
        elif (yield from self._heartbeat.control(verb, arguments)):
            return
        elif verb == "effect.retry":
            yield from self._retried(arguments["letter"])
        elif verb == "letter.redrive" or verb == "letter.dismiss":
            yield from self._letter_taken(arguments["letter"], redriven=verb == "letter.redrive")

    def _deployed(self, record: ControlRecord) -> None:
        """An era is to begin, and maps to move to cells."""
        self._ledger.keys.allow(erasable=record.arguments.get("erasable", False))
        for base in record.arguments.get("under", ()):
            if base not in self._ledger.book.over:
                self._contradicts(f"{base} is not at its limit of open intents")
            self._ledger.unhold(base)
        if record.verb == "cell.spill":
            self._moves.control(self._height, record)

    def _remember(self, record: ControlRecord) -> None:
        if record.id is not None:
            check = control_check(record.verb, record.who, record.why, record.arguments)
            self._ledger.dedupe.add(dedupe_key(record.id), self._height, check, self._ledger.now_ns)

    def _world_control(self, verb: str) -> None:
        if verb != "fork.live":
            self._ledger.pause(is_paused=verb == "pause")
            return
        if self._ledger.branch is None:
            self._contradicts("only a fork goes live")
        self._ledger.branch.go_live()

    def _letter_taken(self, height: int, *, redriven: bool) -> Generator[Need, None, None]:
        for position in (0, 1):
            letter = yield from self._ledger.dead_letters.get(pair_key(height, position))
            if letter is not None:
                self._ledger.take_letter(height, position)
                if redriven and letter.is_effect:
                    self._intents.takes_letter(letter)
                return
        self._contradicts("there is no such dead letter")

    def _retried(self, height: int) -> Generator[Need, None, None]:
        letter = yield from self._ledger.dead_letters.get(pair_key(height, 1))
        if letter is None or not letter.is_effect:
            self._contradicts("there is no such dead letter of an effect")
        self._ledger.take_letter(height)
        self._intents.takes_letter(letter)

    def _forked(self, record: ForkRecord) -> None:
        ledger, extras, branch = self._ledger, record.extras, self._ledger.branch
        following = extras.get("next", 0)
        if record.cause:
            if branch is None or (branch.record, branch.height) != (record.cause, record.height):
                self._contradicts("the record goes on with a fork that is not this world's")
            branch.go_on(following)
            return
        if record.height != ledger.height or self._height != ledger.height + 1:
            self._contradicts(f"a fork at {record.height} does not begin here")
        link = extras.get("answers")
        given = None if link is None else (link.cid, extras.get("count", 0))
        answers = open_answers(given, ledger.nodes)
        live = extras.get("live", False)
        branch = Branch(record.height, record.effects, self._height, following, answers, live=live)
        begin_fork(ledger, branch)

    def _manifest(self, record: ManifestRecord) -> None:
        era = record.era
        if era != len(self._ledger.eras) or not isinstance(record.manifest, Link):
            self._contradicts(f"era {era} does not follow the table of {len(self._ledger.eras)}")
        self._ledger.begin_era(record.manifest.cid, self._height)

    def _migrated(self, record: MigratedRecord) -> Generator[Need, None, None]:
        slot = self._slot(record.module, record.key)
        if slot.entry is None or slot.entry.born != record.born or slot.entry.era != record.era_from:
            self._contradicts("the migrated cell is not the one recorded")
        if not 0 <= record.era_to < len(self._ledger.eras):
            self._contradicts(f"there is no era {record.era_to}")
        state = yield from self._read(value_of(record.state))
        step_changes.migrate(self._ledger, slot, record.era_to, state)

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
    match record:
        case ReceiptRecord():
            return "fired" in record.extras
        case TimerRecord() | ExpiredRecord():
            return record.fired is not None
    return False


def _told(record: Record) -> None:
    """A record for readers; the world does not depend on it."""
