"""An independent reading of a journal: what must hold for intents, told from the records alone.

The audit reads each frame and the beat that wrote it, keeps its own small account, and fails with an
`AssertionError` at the first record that breaks a rule:

    each intent is decided once, settled once, and settled in the frame that deletes its cell
    a receipt is stepped at most once, by the incarnation that asked
    an intent leaves at most once, only when it is allowed, and never after it was settled
    one idempotency key of a module and kind is with the outside at most once at a time, and once in all
    within the window, but for people who try a failed one again; it stands for the same params all that time
    a grant's budget is never exceeded; a timer fires in the first beat after it is due
    only an intent that an adapter has waits for somebody outside, and ends when its time is over
    a living cell has one timer of each key; a step cancels what its own cell asked for, by the keys it
    names, or a timer whose key it sets anew, and leaves nothing open that it names

It shares no code with the ledger; `compare` then holds the account against the ledger.

Rejected: predicting every record, as `kernel_model.py` does for steps. Grants, policies and schedules would
have to be written a second time; their rules are tried one by one instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from cellule.kernel.items import Beat
from cellule.kernel.journal.codes import Settled, Status, VerdictCode
from cellule.kernel.journal.frame import Frame, decode_frame
from cellule.kernel.journal.records import (
    ControlRecord,
    DecisionRecord,
    IntentRecord,
    ReceiptRecord,
    StepRecord,
)
from cellule.kernel.journal.table import kind_name
from cellule.values.cbor import decode
from cellule.values.envelope import open_envelope
from cellule.values.link import Link

Cell = tuple[str, bytes]
Name = tuple[str, str, str | None]
"""What an idempotency key is unique for: module, kind, and the key itself."""


@dataclass(slots=True)
class Account:
    """One intent: where it came from, and where it stands."""

    cause: int
    cell: Cell
    born: int
    kind: str
    key: str | None
    since_ns: int
    status: str = "undecided"
    due_ns: int | None = None
    dispatched: int = 0
    timer: str | None = None  # the key that a timer was set with

    @property
    def name(self) -> Name:
        """What its idempotency key is unique for."""
        return self.cell[0], self.kind, self.key


@dataclass(slots=True)
class Told:
    """One receipt: for which incarnation it is, and how often a step took it."""

    cell: Cell
    born: int
    delivery: int
    steps: int = 0


@dataclass(slots=True)
class IntentAudit:
    """The account of one world. `budgets` are the counts of grants, by name."""

    window_ns: int
    budgets: Mapping[str, int] = field(default_factory=dict)
    open: dict[int, Account] = field(default_factory=dict)
    settled: dict[int, int] = field(default_factory=dict)  # intent -> status
    receipts: dict[int, Told] = field(default_factory=dict)
    letters: set[int] = field(default_factory=set)
    paused: bool = False
    _asked: dict[int, tuple[Name, object]] = field(default_factory=dict)  # of each with a key, its params
    _calls: dict[Name, list[int]] = field(default_factory=dict)  # times of calls
    _retried: Counter[Name] = field(default_factory=Counter)
    _spent: Counter[tuple[str, int]] = field(default_factory=Counter)
    _names: list[str] = field(default_factory=list)
    _last: set[int] = field(default_factory=set)  # steps that deleted their cell
    _frame: Frame = None  # type: ignore[assignment]
    _now_ns: int = 0
    _retrying: int = 0

    def beat(self, beat: Beat) -> None:
        """Read what a beat wrote and what leaves with it."""
        if beat.frame is None:
            assert beat.opened == []
            assert beat.closed == []
            return
        before = {height for height, each in self.open.items() if each.status in ("timer", "outside")}
        was_paused = self.paused
        self.frame(decode_frame(beat.frame, prove=True))
        for opening in beat.opened:
            self._leave(opening.height, opening.key)
        for intent in beat.closed:
            assert len(intent) == 32
        waiting = {height for height, each in self.open.items() if each.status == "open"}
        assert all(self.open[height].dispatched == 1 for height in waiting), "an open intent has not left"
        if not was_paused and not self.paused:
            late = [height for height in before & set(self.open) if self._is_due(height)]
            assert late == [], f"timers {late} have not fired"

    def frame(self, frame: Frame) -> None:
        """Read one frame."""
        self._now_ns = frame.header.now_ns
        deleted: list[tuple[Cell, int, int]] = []
        self._frame = frame
        for height, record in frame.numbered():
            if isinstance(record, StepRecord) and record.status == Status.DELETED:
                deleted.append(((record.module, record.key), record.born, height))
                self._last.add(height)
            reader = getattr(self, f"_{kind_name(record)}", None)
            if reader is not None:
                reader(height, record)
        for height, each in self.open.items():
            assert each.status in ("open", "outside", "parked", "waiting", "timer"), (
                f"intent {height} is {each.status}"
            )
            own = [self.open[at] for at in self.of_cell(each.cell, each.born)]
            # One with the idempotency key of another waits for that one's receipt, and is no second timer.
            armed = [other for other in own if other.timer and other.status == "timer"]
            timers = [other.timer for other in armed if other.cause not in self._last]
            assert len(timers) == len(set(timers)), f"{each.cell} has two timers of one key: {timers}"
            for cell, born, step in deleted:
                assert (each.cell, each.born) != (cell, born) or each.cause == step, (
                    f"{height} outlives {cell}"
                )

    # Records

    def _intent(self, height: int, record: IntentRecord) -> None:
        cause, kind, named = record.cause, record.kind, record.extras.get("key")
        cell = (record.module, record.key)
        self.open[height] = Account(cause, cell, record.born, kind, named, self._now_ns)
        if kind == "timer.set" and not isinstance(record.params, Link):
            self.open[height].timer = decode(open_envelope(record.params).data).get("key")
        if named is not None and cause == self._retrying:
            self._retried[record.module, kind, named] += 1
        if named is not None:
            self._asked[height] = ((record.module, kind, named), record.params)

    def _decision(self, _height: int, record: DecisionRecord) -> None:
        extras, intent = record.extras, self.open[record.cause]
        outside = record.verdict == VerdictCode.OUTSIDE
        assert (
            intent.status == "undecided" or (intent.status == "parked" and "control" in extras)
            or (outside and intent.status == "open")
        )  # fmt: skip
        if "same" in extras:
            assert self._asked[extras["same"]] == self._asked[record.cause], "the receipt of another request"
        due_ns = extras.get("due_ns")
        allowed = "open" if intent.kind != "timer.set" else "timer"
        intent.status = {
            VerdictCode.ALLOW: allowed, VerdictCode.DENY: "denied",
            VerdictCode.PARK: "parked", VerdictCode.SAME: "waiting", VerdictCode.OUTSIDE: "outside",
        }[VerdictCode(record.verdict)]  # fmt: skip
        intent.due_ns = due_ns if intent.status in ("timer", "outside") else None
        if "period" in extras:
            spent = (extras["grant"], extras["period"])
            self._spent[spent] += 1
            limit = self.budgets.get(extras["grant"])
            assert limit is None or self._spent[spent] <= limit, "a budget is exceeded"

    def _receipt(self, height: int, record: ReceiptRecord) -> None:
        cause, born = record.cause, record.born
        assert cause in self.open, f"intent {cause} is settled twice, or was never asked"
        intent = self.open.pop(cause)
        assert (intent.cell, intent.born) == ((record.module, record.key), born)
        assert intent.status != "denied" or record.status == Settled.DENIED
        self.settled[cause] = record.status
        if "step" in record.extras:
            self._check_cancel(intent, record)
        self.receipts[height] = Told(intent.cell, born, record.delivery)
        if "exhausted" in record.extras:
            self.letters.add(height)

    def _check_cancel(self, intent: Account, record: ReceiptRecord) -> None:
        step = self._frame.at(record.extras["step"])
        assert isinstance(step, StepRecord)
        assert ((step.module, step.key), step.born) == (intent.cell, intent.born)
        assert record.status == Settled.CANCELLED
        if record.extras["code"] == "kernel.timer_replaced":
            assert intent.timer is not None
        else:
            assert {intent.key, intent.timer} & set(step.extras["cancels"])

    def _check_cancelled(self, height: int, record: StepRecord) -> None:
        """What a step names is settled before it asks for anything, so only later ones may have the name."""
        names = set(record.extras["cancels"])
        records = [self._frame.at(at) for at in range(height + 1, self._frame.header.last + 1)]
        ended = {each.cause for each in records if isinstance(each, ReceiptRecord)}
        for at in self.of_cell((record.module, record.key), record.born):
            assert at in ended or not {self.open[at].key, self.open[at].timer} & names

    def _step(self, height: int, record: StepRecord) -> None:
        if "cancels" in record.extras:
            self._check_cancelled(height, record)
        cause, status, born = record.cause, record.status, record.born
        told = self.receipts.get(cause)
        if told is None or status in (Status.HALTED, Status.PARKED):
            return
        told.steps += 1
        assert told.steps == 1, f"receipt {cause} is stepped twice, again at {height}"
        assert told.delivery, f"receipt {cause} was told to nobody and is stepped at {height}"
        assert told.cell == (record.module, record.key)
        if status in (Status.OK, Status.DELETED):
            assert born == told.born, f"receipt {cause} of {told.born} reached {born} at {height}"

    def _control(self, height: int, record: ControlRecord) -> None:
        verb = record.verb
        if verb in ("pause", "resume"):
            self.paused = verb == "pause"
        if verb == "effect.retry":
            self.letters.remove(record.arguments["letter"])
            self._retrying = height

    # The outside

    def _leave(self, height: int, key: str) -> None:
        intent = self.open.get(height)
        assert intent is not None, f"intent {height} leaves and is settled"
        assert intent.status == "open", f"intent {height} leaves and is {intent.status}"
        intent.dispatched += 1
        assert intent.dispatched == 1, f"intent {height} leaves twice"
        name = (intent.cell[0], intent.kind, key)
        same = [h for h, each in self.open.items() if each.name == name and each.dispatched]
        assert len(same) <= 1, f"intents {same} are out with the key {key}"
        calls = [at for at in self._calls.get(name, ()) if at + self.window_ns > intent.since_ns]
        assert len(calls) <= self._retried[name], f"the outside is asked once more for {name}"
        self._calls[name] = [*calls, intent.since_ns]

    def _is_due(self, height: int) -> bool:
        due_ns = self.open[height].due_ns
        return due_ns is not None and due_ns <= self._now_ns

    # What the ledger must say

    def statuses(self) -> dict[int, str]:
        """The status of each open intent, by its height."""
        return {height: each.status for height, each in sorted(self.open.items())}

    def counts(self) -> dict[str, int]:
        """How many intents of each module are with adapters."""
        return dict(Counter(each.cell[0] for each in self.open.values() if each.status == "open"))

    def of_cell(self, cell: Cell, born: int) -> list[int]:
        """The open intents of an incarnation, in order."""
        return [
            height for height, each in sorted(self.open.items()) if (each.cell, each.born) == (cell, born)
        ]
