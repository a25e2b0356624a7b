"""The kernel's rules as a small program: what a beat must do, said with dicts and lists.

This is the executable specification, with `kernel_model_steps.py` for what a step is and
`kernel_model_controls.py` for operators' verbs. It knows nothing of bytes, blocks, indexes, slots or
snapshots: values are plain Python values, a cell is an object in a dict, a world is copied to remember it.
`beat` answers the records that the frame must hold, in order, as tuples; heights are counted in records, so
they and everything derived from them (causes, births, timers) are predicted too.

Texts of failures are not predicted, only their codes. Limits of size are not modelled: the machine that
uses the model stays below them, and they have tests of their own.

Rejected: comparing final states only. Two wrongs in the order of steps often make a right sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from cellule.kernel.items import ControlItem, EventItem, Item
from cellule.values.cbor import decode
from cellule.values.link import Link
from tests.support.kernel_model_controls import control
from tests.support.kernel_model_steps import (
    Address,
    Decision,
    Message,
    ModelCell,
    ModelEra,
    Moment,
    Refusal,
    decide,
)

Record = tuple[Any, ...]

STEP_FAILED = "sys/StepFailed@1"
CASCADE_STOPPED = "sys/CascadeStopped@1"
RETRY_NS = 60_000_000_000  # a busy cell whose time is over is looked at again after this


@dataclass(frozen=True)
class Predicted:
    """What a beat must give; outcomes are (admitted | duplicate, height) or (refused, code)."""

    records: list[Record]
    outcomes: list[tuple[str, Any]]
    wake: int | None
    more: bool


@dataclass
class ModelWorld:
    """One world. `manifests` are the eras that a deploy may name; `world` is the id that steps see."""

    world: bytes
    manifests: dict[Link, ModelEra]
    eras: list[ModelEra]
    now_ns: int
    quota: int
    burst: int
    depth_max: int
    height: int = 0
    beats: int = 0
    paused: bool = False
    cells: dict[Address, ModelCell] = field(default_factory=dict)
    ring: list[Address] = field(default_factory=list)
    pending: list[tuple[Message, list[Address]]] = field(default_factory=list)
    timers: dict[tuple[int, int], tuple[str, Address, int]] = field(default_factory=dict)
    seen: dict[Any, tuple[int, Any]] = field(default_factory=dict)
    conflicts: dict[int, Any] = field(default_factory=dict)  # what the event at a height expected in vain
    dead_letters: list[tuple[int, Address, int, str]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    entropy: bytes = b""

    def copy(self) -> ModelWorld:
        """The world as it is now, apart from what it becomes."""
        return replace(
            self, eras=list(self.eras), ring=list(self.ring), pending=list(self.pending),
            timers=dict(self.timers), seen=dict(self.seen), conflicts=dict(self.conflicts),
            dead_letters=list(self.dead_letters),
            cells={at: replace(cell, queue=list(cell.queue)) for at, cell in self.cells.items()}, records=[],
        )  # fmt: skip

    def beat(self, items: Sequence[Item], now_ns: int, entropy: bytes) -> Predicted:
        """One beat: due timers, what was emitted before, the items in order, the queue rounds."""
        before = self.copy()
        self.records, self.entropy = [], entropy
        self.now_ns, self.beats = max(now_ns, self.now_ns), self.beats + 1
        if not self.paused:
            due = sorted(key for key in self.timers if key[0] <= self.now_ns)
            sweeps = [key for key in due if self.timers[key][0] == "sweep"]
            again: set[Any] = set()
            for key in due:
                if key not in sweeps:
                    self._fire(key, again)
            for key in sweeps:
                self._sweep(key)
        pending, self.pending = self.pending, []
        for message, targets in pending:
            self._deliver(message, targets)
        outcomes = [self._admit(item) for item in items]
        if not self.paused:
            self._rounds()
        records = self.records
        if records:
            self.height += len(records)
            self.cells = {at: cell for at, cell in self.cells.items() if cell.state is not None or cell.queue}
        else:
            vars(self).update(vars(before))  # a beat that writes nothing changes nothing
        self.records = []
        wake = None if self.paused else min((due for due, _ in self.timers), default=None)
        more = not self.paused and bool(self.ring or (self.pending and records))
        return Predicted(records, outcomes, wake, more)

    # Deliveries and rounds

    def record(self, *record: Any) -> int:
        """Write a record down; answers its height."""
        self.records.append(record)
        return self.height + len(self.records)

    def cell(self, address: Address) -> ModelCell:
        """The cell of that address; one that nothing is known of yet is empty."""
        return self.cells.setdefault(address, ModelCell())

    def _deliver(self, message: Message, targets: list[Address]) -> None:
        for address in targets:
            cell = self.cell(address)
            cell.queue.append(message)
            if len(cell.queue) == 1 and cell.stop is None:
                self.ring.append(address)

    def _rounds(self) -> None:
        """Each round gives every ready cell one step, in the order they became ready."""
        left = self.quota
        for _ in range(self.burst):
            for address in list(self.ring):
                if not left:
                    return
                left -= 1
                self.ring.remove(address)
                self._step(address, self.cell(address))
                if self.cell(address).queue and self.cell(address).stop is None:
                    self.ring.append(address)

    # Admission

    def _admit(self, item: Item) -> tuple[str, Any]:
        try:
            if isinstance(item, ControlItem):
                return self._control(item)
            assert isinstance(item, EventItem)  # the town has no intents, and so no receipts
            return self._event(item)
        except Refusal as refusal:
            if isinstance(item, EventItem | ControlItem) and item.durable:
                named = f"control:{item.verb}" if isinstance(item, ControlItem) else item.schema
                self.record("refused", 0, _given(item.id), named, refusal.code)
            return "refused", refusal.code

    def _control(self, item: ControlItem) -> tuple[str, Any]:
        """A verb with an id is done once; one that is refused leaves its id unused."""
        identity = None if item.id is None else _identity(item.id)
        asked = (item.verb, item.who, item.why, dict(item.arguments))
        if identity is not None and identity in self.seen:
            height, payload = self.seen[identity]
            if payload == asked:
                return "duplicate", height
            raise Refusal("kernel.id_reused")
        height = control(self, item)
        if identity is not None:
            self.seen[identity] = (height, asked)
        return "admitted", height

    def _event(self, item: EventItem) -> tuple[str, Any]:
        assert isinstance(item.value, bytes)
        value = decode(item.value)
        if not item.system and item.schema.startswith("sys/"):
            raise Refusal("kernel.event_reserved")
        targets = self.eras[-1].targets(item.schema, value, item.key)
        if not targets and not item.system:
            raise Refusal("routing.no_subscriber")
        if item.expected_version is not None and len(targets) != 1:
            raise Refusal("kernel.expected_version_targets")
        identity = _identity(item.id) if item.explicit else None
        expected = None
        if item.expected_version is not None:
            expected = (item.expected_version, item.expected_born)
        if identity in self.seen and identity is not None:
            height, payload = self.seen[identity]
            if self.conflicts.get(height, expected) == expected:  # else it is another attempt
                if payload == (item.schema, item.value):
                    return "duplicate", height
                raise Refusal("kernel.id_reused")
        more = {
            "dedupe": item.explicit, "expected": item.expected_version, "correlation": item.correlation,
            "expected_born": item.expected_born if expected else None,
        }  # fmt: skip
        height = self.record(
            "event", 0, _given(item.id), item.schema, value, targets,
            {name: given for name, given in more.items() if given is not None and given is not False},
        )  # fmt: skip
        if identity is not None:
            self.seen[identity] = (height, (item.schema, item.value))
        self._deliver(Message(height, item.schema, value, 0, expected), targets)
        return "admitted", height

    # Steps

    def _step(self, address: Address, cell: ModelCell) -> None:
        message, alive = cell.queue[0], cell.state is not None
        moment = Moment(
            self.world, self.eras, self.beats, self.now_ns, self.entropy, self.height + len(self.records) + 1
        )
        decision = decide(moment, address, cell, message)
        status = decision.status
        for old, new in decision.upcasts:
            self.record("upcast", message.height, *address, old, new)
        height = self.height + len(self.records) + 1
        changes = status in ("ok", "deleted")
        version = cell.version + (changes and (alive or status == "ok"))
        born = cell.born if alive else height if changes else 0
        self.record(
            "step", message.height, *address, born, decision.era, status, version,
            cell.last if alive else 0, decision.state, decision.reply, decision.ann, decision.code,
            decision.log,
        )  # fmt: skip
        if status not in ("halted", "parked"):
            cell.queue.pop(0)
        if alive:
            cell.last = height
        if status == "ok":
            kept = [*(cell.state or []), *decision.state] if decision.log else decision.state
            born_ns = cell.born_ns if alive else self.now_ns
            self.cells[address] = ModelCell(
                kept, version, born, decision.era, self.now_ns, height, None, cell.queue, born_ns
            )
            if born == height:
                self._arm(address, height)
        elif status == "deleted":
            self.cells[address] = ModelCell(queue=cell.queue)
        elif status == "skipped":
            self.dead_letters.append((height, address, message.height, decision.code))
        elif status == "conflict":
            self.conflicts[message.height] = message.expected
        elif not changes:
            cell.stop = ("halted" if status == "halted" else "needs migration", height)
        self._emit(address, message, height, decision)

    def _emit(self, address: Address, message: Message, height: int, decision: Decision) -> None:
        """Record what the step emits, for the next beat; a failure is told, but not one of handling it."""
        base, key = address
        if decision.status in ("halted", "skipped") and message.schema != STEP_FAILED:
            told = {
                "module": base, "key": key, "height": height, "cause": message.height, "code": decision.code
            }  # fmt: skip
            self._emit_one(height, message.depth + 1, STEP_FAILED, told)
        for depth, schema, value, targets in decision.emits:
            if depth <= self.depth_max:
                self._emit_one(height, depth, schema, value, targets)
                continue
            told = {"module": base, "key": key, "height": height, "depth": depth, "schema": schema}
            self._emit_one(height, depth, CASCADE_STOPPED, told, None if depth == self.depth_max + 1 else [])

    def _emit_one(
        self, cause: int, depth: int, schema: str, value: Any, targets: list[Address] | None = None
    ) -> None:
        if targets is None:
            targets = self.eras[-1].targets(schema, value, None)
        height = self.record("emitted", cause, depth, schema, value, targets)
        if targets:
            self.pending.append((Message(height, schema, value, depth, None), targets))

    # Timers

    def _arm(self, address: Address, born: int) -> None:
        module = self.eras[-1].modules.get(address[0])
        if module is None:
            return
        for what, period in (("ttl", module.ttl_ns), ("idle", module.idle_ns)):
            if period is not None:
                self._set_timer(born, None, self.now_ns + period, (what, address, born))

    def _set_timer(
        self, cause: int, fired: tuple[int, int] | None, due_ns: int, what: tuple[str, Address, int] | None
    ) -> None:
        height = self.record("timer", cause, fired, due_ns, what)
        if what is not None:
            self.timers[due_ns, height] = what

    def sweep(self, before: ModelEra, height: int) -> None:
        """A retention that a deploy adds or makes shorter reaches the cells born before it."""
        for base, module in sorted(self.eras[-1].modules.items()):
            old = before.modules.get(base)
            pairs = [(module.ttl_ns, old and old.ttl_ns), (module.idle_ns, old and old.idle_ns)]
            if any(new is not None and (last is None or new < last) for new, last in pairs):
                self._set_timer(height, None, self.now_ns, ("sweep", (base, b""), height))

    def _sweep(self, fired: tuple[int, int]) -> None:
        _, (base, _), deployed = self.timers.pop(fired)
        self._set_timer(fired[1], fired, 0, None)
        module = self.eras[-1].modules.get(base)
        for address, cell in sorted(self.cells.items()):
            if module is None or address[0] != base or cell.state is None or cell.born > deployed:
                continue
            rules = (("ttl", module.ttl_ns, cell.born_ns), ("idle", module.idle_ns, cell.active_ns))
            for what, period, since in rules:
                if period is not None:
                    due_ns = max(since + period, self.now_ns)
                    self._set_timer(fired[1], None, due_ns, (what, address, cell.born))

    def _fire(self, fired: tuple[int, int], again: set[Any]) -> None:
        what, address, born = self.timers.pop(fired)
        cell, module = self.cell(address), self.eras[-1].modules.get(address[0])
        period = None if module is None else module.ttl_ns if what == "ttl" else module.idle_ns
        if cell.state is None or cell.born != born or period is None or (what, address, born) in again:
            self._set_timer(fired[1], fired, 0, None)
            return
        due_ns = period + (cell.active_ns if what == "idle" else cell.born_ns)
        if cell.queue:
            due_ns = max(due_ns, self.now_ns + min(period, RETRY_NS))
        if due_ns > self.now_ns:
            self._set_timer(fired[1], fired, due_ns, (what, address, born))
            again.add((what, address, born))
            return
        self.record("expired", fired[1], fired, *address, born)
        self.cells[address] = ModelCell()


def _given(given: str | bytes | UUID | None) -> str | bytes | None:
    return given.bytes if isinstance(given, UUID) else given


def _identity(given: str | bytes | UUID | None) -> Any:
    """Ids that count as the same: a UUID and its 16 bytes; a text and its UTF-8 unless that has 16 bytes."""
    raw = _given(given)
    if isinstance(raw, bytes):
        return ("exact" if len(raw) == 16 else "hashed"), raw
    return "hashed", str(raw).encode()
