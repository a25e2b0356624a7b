"""Effects in a `testing.World`: requests are held until the test answers them.

    world.send(Placed("o1", 30))
    [charge] = world.intents.of("payments.charge")
    world.complete(charge, Charged("c-7"))

Nothing is performed: a test completes, fails, delays, reorders or repeats the receipt of each intent,
approves or denies those that a policy parked, and moves the clock for timers. `world.on(charge, function)`
answers a kind by itself; a `Recording` answers from what another world received.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from cellule.effects.outcomes import Failed, Later, Retry
from cellule.errors import CelluleError, Rejected
from cellule.kernel.index.keys import pair_of
from cellule.kernel.items import LATER, ReceiptItem, RefusedItem
from cellule.kernel.state.intent_id import intent_text, intent_token, parse_token
from cellule.kernel.state.rows import OpenIntent
from cellule.testing.journal_view import IntentRow
from cellule.testing.recordings import Recording
from cellule.values.cbor import encode

if TYPE_CHECKING:
    from cellule.testing.world import World
from uuid import UUID

from cellule.effects.adapter import Attempt
from cellule.host.outbox.attempts import CasBlobs
from cellule.host.outbox.backoff import SECOND_NS, seconds_of
from cellule.kernel.limits import OUTSIDE_NS_MAX
from cellule.store.cas import Cas
from cellule.store.engines.memory import MemoryDisk, MemoryEngine

BY = "testing"


class Named(Protocol):
    """A declared effect or an adapter."""

    @property
    def kind(self) -> str:
        """The kind of effect."""


Answer = Callable[[Any], Any]
"""What answers a kind: gets the params, returns the value, or raises `Failed`, `Retry` or `Later`."""


@dataclass(frozen=True, slots=True)
class Intent:
    """A request that a step made, as the journal has it; `status` is how it stands now."""

    id: str
    height: int
    kind: str
    params: Any
    cell: tuple[str, Any]
    key: str | None
    slot: str | None
    status: str
    text: str
    due: datetime | None
    limits: Mapping[str, int] | None = None  # of the request's own, as its record has them
    token: str = ""

    def __str__(self) -> str:
        reducer, key = self.cell
        return f"{self.kind} of {reducer} {key!r} ({self.status}): {self.params!r}"


class Intents(list[Intent]):
    """Intents in the order they were asked for."""

    def of(self, *kinds: str | Named) -> Intents:
        """Those of these kinds."""
        wanted = {kind_of(each) for each in kinds}
        return Intents(intent for intent in self if intent.kind in wanted)


def kind_of(effect: str | Named) -> str:
    """The kind of an effect that is given by name, declaration or adapter."""
    return effect if isinstance(effect, str) else effect.kind


class Outside:
    """All that is outside of a testing world: nothing happens there unless the test says so."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._answers: dict[str, Answer] = {}
        self._recording: Recording | None = None
        self._given: dict[int, ReceiptItem] = {}
        self._delayed: list[tuple[int, int, ReceiptItem]] = []
        self._numbers = count()

    # What is asked

    def open(self) -> Intents:
        """The intents that wait for a receipt, an approval or their time."""
        rows = self._world.host.open_intents()
        return Intents(self._intent(pair_of(key)[0], row) for key, row in rows)

    def all(self) -> Intents:
        """Every intent there ever was."""
        now = {pair_of(key)[0]: row for key, row in self._world.host.open_intents()}
        journal = self._world.chronicle.journal
        return Intents(
            self._intent(row.height, now[row.height]) if row.height in now else self._past(row)
            for row in journal.intents()
        )

    def _intent(self, height: int, intent: OpenIntent) -> Intent:
        recorded, extras = self._world.chronicle.journal.intent(height), intent.extras
        due = self._world.chronicle.time(pair_of(extras["due"])[0]) if "due" in extras else None
        cell = (intent.module, intent.key)
        return self._made(recorded, intent.kind, intent_text(intent.id), cell, intent.status, "", due)

    def _past(self, row: IntentRow) -> Intent:
        receipt = self._world.chronicle.journal.receipt(row.height)
        status, text = ("settled", "") if receipt is None else (receipt.status, receipt.text)
        return self._made(row, row.kind, intent_text(self._digest(row)), row.cell, status, text, None)

    def _made(
        self, row: IntentRow, kind: str, given: str, cell: tuple[str, bytes], status: str, text: str,
        due: datetime | None,
    ) -> Intent:  # fmt: skip
        params = self._world.chronicle.params(kind, row.params)
        shown = (cell[0], self._world.chronicle.key(*cell))
        token = intent_token(self._world.host.world_id.bytes, row.height, self._digest(row))
        return Intent(
            given, row.height, kind, params, shown, row.key, row.slot, status, text, due, row.limits, token
        )

    def _digest(self, row: IntentRow) -> bytes:
        return row.digest(self._world.host.lineage.world_at(row.cause).bytes)

    # What is answered

    def on(self, effect: str | Named, answer: Answer) -> None:
        """Answer a kind from now on, those that wait already included."""
        self._answers[kind_of(effect)] = answer

    def replay(self, recording: Recording) -> None:
        """Answer as another world was answered, by cell, kind and params; the n-th time the n-th receipt."""
        self._recording = recording.rewound()

    def by_token(self, token: str) -> Intent:
        """The intent that a completion token names."""
        world, height, digest = parse_token(token)
        found = [each for each in self.all() if each.height == height and each.id == intent_text(digest)]
        if world != self._world.host.world_id.bytes or not found:
            raise Rejected(
                "kernel.receipt_foreign", "the token {token} is not of an intent of this world", token=token
            )
        return found[0]

    def hold(self, intent: Intent, timeout: timedelta) -> None:
        """Let an intent wait to be completed from outside, as after `raise Later(...)` of its adapter."""
        after_ns = timeout // timedelta(microseconds=1) * 1_000
        digest = self._digest(self._world.chronicle.journal.intent(intent.height))
        self.receive(ReceiptItem(digest, intent.height, "outside", encode(after_ns), by=BY, attempts=1))

    def give(
        self, intent: Intent, status: str, value: Any = None, code: str = "", text: str = "", *,
        exhausted: bool = False, after: timedelta | None = None,
    ) -> None:  # fmt: skip
        """Settle an intent, now or when that much time has passed."""
        data = None if status != "ok" else self._world.chronicle.receipt_bytes(intent.kind, value)
        row = self._world.chronicle.journal.intent(intent.height)
        item = ReceiptItem(
            self._digest(row), intent.height, status, data, code, text, by=BY, attempts=1,
            exhausted=exhausted,
        )  # fmt: skip
        if after is not None:
            due_ns = self._world.host.now_ns + after // timedelta(microseconds=1) * 1_000
            heappush(self._delayed, (due_ns, next(self._numbers), item))
            return
        self.receive(item)

    def receive(self, item: ReceiptItem) -> None:
        """Hand a receipt to the world; raises what it is refused for."""
        (outcome,) = self._world.host.beat([item]).outcomes
        if outcome is LATER:
            self._world.host.settle()
            self.receive(item)
            return
        if isinstance(outcome, RefusedItem):
            raise outcome.error
        self._given[item.height] = item

    def repeat(self, intent: Intent) -> CelluleError:
        """Hand the receipt of a settled intent in once more; returns why it was refused."""
        item = self._given.get(intent.height)
        if item is None:
            raise Rejected(
                "testing.no_receipt", "{intent} has had no receipt yet.", intent=intent,
                hint="Complete or fail it first.",
            )  # fmt: skip
        try:
            self.receive(item)
        except CelluleError as error:
            return error
        raise AssertionError(f"{intent} was settled twice")

    def answer_all(self) -> bool:
        """Answer what answers itself; True if anything was."""
        if not self._answers and self._recording is None:
            return False
        answered = False
        for intent in self.open():
            if intent.status == "open" and self._answer(intent):
                answered = True
        return answered

    def _answer(self, intent: Intent) -> bool:
        recorded = self._recorded(intent)
        if recorded is not None:
            self.receive(recorded)
            return True
        answer = self._answers.get(intent.kind)
        if answer is None:
            return False
        try:
            value = answer(intent.params)
        except Failed as failed:
            self.give(intent, "failed", code=failed.code, text=failed.text)
        except Later as later:
            self.hold(intent, span_of(later))
        except Retry as again:
            self.give(intent, "failed", code="effects.exhausted", text=again.reason, exhausted=True)
        else:
            self.give(intent, "ok", value)
        return True

    def _recorded(self, intent: Intent) -> ReceiptItem | None:
        if self._recording is None:
            return None
        row = self._world.chronicle.journal.intent(intent.height)
        found = self._recording.take(row.cell, row.kind, row.params)
        if found is None:
            return None
        return ReceiptItem(
            self._digest(row), row.height, found.status, found.value, found.code, found.text, by=BY,
            attempts=1,
        )  # fmt: skip

    # Time

    def next_due(self, until_ns: int) -> int | None:
        """When the next delayed receipt comes, up to a time."""
        return self._delayed[0][0] if self._delayed and self._delayed[0][0] <= until_ns else None

    def deliver_due(self) -> None:
        """Hand in the delayed receipts whose time has come; late ones are refused, as they would be."""
        while self._delayed and self._delayed[0][0] <= self._world.host.now_ns:
            _, _, item = heappop(self._delayed)
            try:
                self.receive(item)
            except Rejected:
                continue


def span_of(later: Later) -> timedelta:
    """For how long an adapter leaves its request to others, as a node reads it."""
    seconds = seconds_of(later.timeout_s, OUTSIDE_NS_MAX / SECOND_NS)
    if seconds is None:
        raise TypeError(f"the timeout_s of Later is no number of seconds: {later.timeout_s!r}")
    return timedelta(seconds=seconds)


UNIVERSE = UUID(int=1)
WORLD = UUID(int=2)


def new_attempt(key: str = "key", number: int = 1, **fields: Any) -> Attempt:
    """An attempt with this key, the `number`th of its intent; any other field of `Attempt` may be given."""
    given: dict[str, Any] = {
        "intent": "intent", "timeout_s": 60.0, "world": WORLD, "universe": UNIVERSE,
        "module": "tests/module@1", "cell": b"cell", "blobs": memory_blobs(), **fields,
    }  # fmt: skip
    return Attempt(key=key, number=number, **given)


def memory_blobs() -> CasBlobs:
    """Blobs in memory, for adapters in tests."""
    cas = Cas(MemoryEngine(MemoryDisk()), UNIVERSE)
    return CasBlobs(lambda _universe: cas, UNIVERSE)
