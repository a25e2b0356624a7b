"""The world's state, and the only functions that change it.

`beat.py` writes records, `replay.py` reads them back; both change the world through the same methods here, so
that a replayed world equals the live one byte for byte. Nothing here runs user code or reads a manifest.

The ring holds the slots that have messages and may run, in the order they will run: a slot enters when its
queue becomes non-empty, leaves at its step, and enters again at the end if messages are left: it follows from
deliveries and steps. While a module has as many open intents as it may (`book.over`), its cells whose next
message is an event are held beside the ring instead; while its map becomes cells (`moves`), all of them are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from cellule.errors import broken, ensure
from cellule.kernel.index.keys import pair_key
from cellule.kernel.index.live import MISSING, Missing, Spill
from cellule.kernel.index.ordered import OrderedIndex
from cellule.kernel.key_ring import KeyRing
from cellule.kernel.limits import HELD_RELEASE_MAX, QUEUE_MESSAGES_MAX, QUEUE_SHORT
from cellule.kernel.need import Need, Nodes, fetch
from cellule.kernel.state.branch import Branch
from cellule.kernel.state.cells import EVENT_MESSAGE, Entry, LongQueue, Message, Slot
from cellule.kernel.state.dedupe import Dedupe, Seen
from cellule.kernel.state.expectation import Expected
from cellule.kernel.state.heartbeat import Heartbeat
from cellule.kernel.state.intent_book import Book
from cellule.kernel.state.module_cells import Budget, Cells
from cellule.kernel.state.rows import (
    DeadLetter,
    MapMove,
    ScheduleRow,
    StoppedRow,
    TimerRow,
    full_letter,
    letter_key,
    unpack_letter,
    unpack_stopped,
    unpack_timer,
)  # fmt: skip
from cellule.values.cid import Cid
from cellule.values.link import Link

Target = tuple[str, bytes]
Pending = list[tuple[Message, list[Target]]]
"""Emitted events and the cells they go to in the next beat."""


@dataclass(slots=True)
class Era:
    """A manifest's place in the world: since which height it routes."""

    manifest: Cid
    height: int


@dataclass(slots=True)
class Ledger:
    """Everything a world is, apart from its manifest's code."""

    nodes: Nodes
    budget: Budget
    spill: Spill | None = None
    height: int = 0
    beat: int = 0
    now_ns: int = 0
    frame: bytes | None = None  # digest of the newest frame
    paused: bool = False
    eras: list[Era] = field(default_factory=list)
    modules: dict[str, Cells] = field(default_factory=dict)
    ring: deque[Slot] = field(default_factory=deque)
    pending: Pending = field(default_factory=list)
    dedupe: Dedupe = field(default_factory=Dedupe)
    book: Book = field(init=False)
    held: dict[str, dict[bytes, None]] = field(default_factory=dict)  # keys by module; see `enter`
    moves: dict[str, MapMove] = field(default_factory=dict)  # whole maps that are becoming cells
    timers: OrderedIndex[TimerRow] = field(init=False)
    stopped: OrderedIndex[StoppedRow] = field(init=False)
    dead_letters: OrderedIndex[DeadLetter] = field(init=False)
    heartbeat: Heartbeat | None = None  # of a world that has used it
    branch: Branch | None = None  # how a fork deals with the outside
    keys: KeyRing = field(default_factory=KeyRing)  # of cells whose values can be erased
    sealed: list[Cid] = field(default_factory=list)  # chunks of logs, kept in reach until a snapshot
    unsaved: list[Any] = field(default_factory=list)  # snapshots that were begun and are not saved
    active: list[Slot] = field(default_factory=list)  # slots the beat under way looks at, each once

    def __post_init__(self) -> None:
        self.book = Book(self.nodes)
        self.timers = OrderedIndex(None, self.nodes, unpack=unpack_timer)
        self.stopped = OrderedIndex(None, self.nodes, unpack=unpack_stopped)
        self.dead_letters = OrderedIndex(None, self.nodes, unpack=unpack_letter)

    def open_heartbeat(self) -> Heartbeat:
        """The heartbeat of this world, which has one from now on."""
        if self.heartbeat is None:
            self.heartbeat = Heartbeat(self.nodes)
        return self.heartbeat

    def cells(self, base: str) -> Cells:
        """The cells of a module; a module without any has an empty index."""
        found = self.modules.get(base)
        if found is None:
            found = self.add_module(base)
        return found

    def add_module(self, base: str, root: Cid | None = None, count: int = 0) -> Cells:
        """The cells of a module that a snapshot has, or of one that had none so far."""
        ensure(base not in self.modules, "kernel.module_twice", "{module} has cells already", module=base)
        made = Cells(base, root, self.nodes, self.budget, self.spill, self.active, count=count)
        self.modules[base] = made
        return made

    def restore_held(self, base: str, keys: Iterable[bytes]) -> None:
        """Cells that a snapshot lists as held; they are read when they run."""
        self.held[base] = dict.fromkeys(keys)

    def restore_ready(self, base: str, key: bytes) -> None:
        """A cell that a snapshot lists as ready; it is read when it runs."""
        self.ring.append(self._resting(self.cells(base), key))

    @staticmethod
    def _resting(cells: Cells, key: bytes) -> Slot:
        slot = cells.slots[key] = Slot(cells, key)
        slot.active = False
        return slot

    def has_timers(self) -> bool:
        """Tell whether any timer may be armed, without reading."""
        return not self.timers.is_empty

    def slots(self, targets: Iterable[Target]) -> Generator[Need, None, None]:
        """Bring the cells of `targets` to work, all together."""
        wanted: dict[str, list[bytes]] = {}
        for base, key in targets:
            self.slot(base, key, wanted)
        if wanted:
            yield from self.load(wanted)

    def slot(self, base: str, key: bytes, wanted: dict[str, list[bytes]]) -> Slot:
        """The slot of a cell; what has to be read for it is added to `wanted`, for one `load` of all."""
        cells = self.modules.get(base)
        if cells is None:
            cells = self.cells(base)
        slot = cells.slots.get(key)
        if slot is not None:
            if not slot.loaded:
                wanted.setdefault(base, []).append(key)
            return slot
        slot = cells.slots[key] = Slot(cells, key)
        self.active.append(slot)
        entry: Any = cells.live.cached(key)
        if entry is None:
            slot.loaded = True
        elif entry is not MISSING and entry.extras is None:
            slot.entry = entry
            slot.loaded = True
        else:
            wanted.setdefault(base, []).append(key)
        return slot

    def take_up(self, cells: Cells, key: bytes, entry: Entry | Missing | None) -> Slot:
        """Bring a cell to work whose entry is at hand; `MISSING` where it has yet to be read."""
        ensure(key not in cells.slots, "kernel.slot_twice", "cell {key} is at work already", key=key)
        known = None if isinstance(entry, Missing) else entry
        slot = cells.slots[key] = Slot(cells, key, known, loaded=not isinstance(entry, Missing))
        self.active.append(slot)
        return slot

    def write_back(self, cells: Cells, grown: int, changes: Mapping[bytes, Entry]) -> None:
        """Put what plain steps made of cells that were never at work into their index.

        Entries that were replaced in place there weigh `grown` more.
        """
        ensure(cells.slots.keys().isdisjoint(changes), "kernel.slot_stale", "a cell at work was written back")
        cells.live.grow(grown)
        for key, entry in changes.items():
            cells.live.put(key, entry)

    def load(self, wanted: Mapping[str, list[bytes]]) -> Generator[Need, None, None]:
        """Load slots of several modules: what is in memory at once, the rest level by level."""
        for base, keys in wanted.items():
            cells = self.cells(base)
            entries: dict[bytes, Any] = yield from cells.live.load(keys)
            for key in keys:
                slot = cells.slots[key]
                if slot.loaded:
                    continue
                entry = entries[key]
                if entry is not None and isinstance(entry.get("queue"), LongQueue):
                    messages = yield from entry.get("queue").messages(self.nodes)
                    entry = entry.with_extras({**(entry.extras or {}), "queue": messages})
                slot.load(entry)

    def state_bytes(self, slot: Slot) -> Generator[Need, None, bytes]:
        """The state of a loaded cell that has one; a linked state is read and kept in the slot."""
        entry = slot.entry
        assert entry is not None
        state = entry.state
        if isinstance(state, Link):
            found = yield from fetch(self.nodes, (state.cid,))
            state = found[state.cid]
            slot.entry = entry.changed(state=state)
        assert state is not None
        return state

    # Beats, eras and what a world remembers

    def begin_beat(self, beat: int, now_ns: int) -> None:
        """A beat begins: the next one, and never earlier than the last."""
        is_next = beat == self.beat + 1
        ensure(is_next, "kernel.beat_order", "beat {beat} follows {last}", beat=beat, last=self.beat)
        ensure(now_ns >= self.now_ns, "kernel.time_order", "time goes back to {now_ns}", now_ns=now_ns)
        self.beat, self.now_ns = beat, now_ns

    def abandon_beat(self, now_ns: int, pending: Pending) -> None:
        """The beat wrote nothing: the world is what it was before, at the time it was."""
        ensure(now_ns <= self.now_ns, "kernel.time_order", "time goes on to {now_ns}", now_ns=now_ns)
        self.beat, self.now_ns = self.beat - 1, now_ns
        self.take_back(pending)

    def end_frame(self, digest: bytes) -> None:
        """The frame of the beat is made; the next one is chained to it."""
        ensure(digest != self.frame, "kernel.frame_order", "frame {digest} follows itself", digest=digest)
        self.frame = digest

    def begin_era(self, manifest: Cid, height: int) -> None:
        """A manifest routes from now on."""
        last = self.eras[-1].height if self.eras else 0
        is_next = height >= last
        ensure(is_next, "kernel.era_order", "an era begins at {height}, before the last", height=height)
        self.eras.append(Era(manifest, height))

    def pause(self, *, is_paused: bool) -> None:
        """Stop taking steps, or go on."""
        self.paused = is_paused

    def find_id(self, key: bytes) -> Generator[Need, None, Seen | None]:
        """The event that was admitted with an id, if it is still remembered."""
        return self.dedupe.find(key, self.nodes)

    def remember_id(self, key: bytes, height: int, check: int) -> None:
        """An event with an id that can be presented again was admitted at `height`."""
        is_new = height > self.height
        ensure(is_new, "kernel.id_height", "an id is remembered for height {height}", height=height)
        self.dedupe.add(key, height, check, self.now_ns)

    def leave_id(self, message: Message) -> None:
        """An event met another version than its sender expected: its id may be used for another attempt."""
        expected = message.expected
        if isinstance(expected, Expected) and expected.id is not None:
            self.dedupe.add_conflict(expected.id, message.height, expected.check)

    def take_letter(self, height: int, position: int = 1) -> None:
        """A dead letter leaves the list; that of an effect has position 1, that of a message 0."""
        self.dead_letters.remove(pair_key(height, position))

    def keep_block(self, cid: Cid, data: bytes) -> None:
        """A block of the frame under way stays in reach until a snapshot holds it."""
        self.nodes.pin({cid: data})
        self.sealed.append(cid)

    # Deliveries

    def emit(self, message: Message, targets: list[Target]) -> None:
        """A message that reaches its targets in the next beat."""
        ensure(bool(targets), "kernel.emit_targets", "a message without targets waits for a beat")
        ensure(message.height > self.height, "kernel.emit_height", "a message of an older frame is emitted")
        self.pending.append((message, targets))

    def keep_message(self, slot: Slot, message: Message) -> None:
        """Put a message at the end of the queue of a slot that enters the ring later, by `put_first`."""
        queue = slot.queue
        ensure(
            not queue or queue[-1].height < message.height, "kernel.queue_order",
            "message {height} is older than the last of its queue", height=message.height,
        )  # fmt: skip
        queue.append(message)

    def put_first(self, slots: Sequence[Slot]) -> None:
        """Let slots with messages run before what is in the ring, in their order."""
        has_all = all(slot.queue for slot in slots)
        ensure(has_all, "kernel.ring_empty", "a cell without messages enters the ring")
        self.ring.extendleft(reversed(slots))

    def deliver(self, slot: Slot, message: Message) -> None:
        """Put a message at the end of a loaded slot's queue."""
        queue = slot.queue
        queue.append(message)
        if not slot.active:
            slot.active = True
            self.active.append(slot)
        if len(queue) == 1 and not slot.stopped:
            if self.book.over or self.moves:
                self.enter(slot)
            else:
                self.ring.append(slot)

    def enter(self, slot: Slot) -> None:
        """Let a slot with messages run in its turn, or hold it while its module has to wait."""
        if not slot.queue:  # `ensure` would be a call more for every event
            broken("kernel.ring_empty", "a cell without messages enters the ring")
        base = slot.cells.base
        if base in self.moves or (base in self.book.over and slot.queue[0].kind == EVENT_MESSAGE):
            self.held.setdefault(base, {})[slot.key] = None
            self._look_at(slot)  # it leaves memory when the beat ends
        else:
            self.ring.append(slot)

    def leave(self, slot: Slot) -> None:
        """A slot with messages may not run any more: it leaves the ring, or those that are held."""
        base = slot.cells.base
        if self.is_held(slot):
            del self.held[base][slot.key]
        else:
            self.ring.remove(slot)

    def is_held(self, slot: Slot) -> bool:
        """Tell whether a slot with messages waits beside the ring."""
        return slot.key in self.held.get(slot.cells.base, ())

    def _may_rest(self, slot: Slot) -> bool:
        """Tell whether a slot with messages leaves memory like a cell at rest."""
        return len(slot.queue) <= QUEUE_SHORT and (slot.stopped or self.is_held(slot))

    def deliver_pending(self) -> list[tuple[Target, Message]]:
        """What the previous beat emitted reaches the queues; returns the dead letters: what has no room."""
        letters: list[tuple[Target, Message]] = []
        pending, self.pending = self.pending, []
        for message, targets in pending:
            for place, (base, key) in enumerate(targets):
                slot = self.modules[base].slots[key]
                if len(slot.queue) < QUEUE_MESSAGES_MAX or message.kind != EVENT_MESSAGE:
                    self.deliver(slot, message)
                    continue
                self.dead_letters.insert(letter_key(message, place), full_letter(slot, message))
                letters.append(((base, key), message))
        return letters

    def take_back(self, pending: Pending) -> None:
        """Undo `deliver_pending` at the end of a beat that wrote nothing."""
        for emitted, targets in reversed(pending):
            for place, (base, key) in reversed([*enumerate(targets)]):
                slot = self.modules[base].slots[key]
                # It found no room, and became a dead letter.
                if slot.queue[-1] is not emitted:
                    self.dead_letters.remove(letter_key(emitted, place))
                    continue
                slot.queue.pop()
                if not slot.queue and not slot.stopped:
                    is_held = self.is_held(slot)
                    last = self.held[base].popitem()[0] if is_held else self.ring.pop().key
                    ensure(last == key, "kernel.ring_order", "the ring's last is not {key}", key=key)
        self.held = {base: keys for base, keys in self.held.items() if keys}
        self.pending = pending
        self.drop_idle()

    # Steps

    def step_ok(self, slot: Slot, queue: deque[Message], entry: Entry) -> None:
        """Account for a step of the ring's first slot (and its queue) that went well."""
        ring = self.ring
        if ring.popleft() is not slot:  # `ensure` would be a call more for every event
            broken("kernel.ring_order", "a step of another cell than the ring's first: {key}", key=slot.key)
        queue.popleft()
        slot.entry = entry
        slot.dirty = True
        if not slot.active:
            slot.active = True
            self.active.append(slot)
        if queue:
            self.enter(slot)

    # Timers

    def arm(self, fired: bytes | None, due_ns: int, height: int, timer: TimerRow | None) -> None:
        """A timer is armed by the record at `height`, in place of one that fired; None drops that one."""
        if fired is not None:
            self.timers.remove(fired)
        if timer is not None:
            self.timers.insert(pair_key(due_ns, height), timer)

    def schedule(
        self, name: str, row: ScheduleRow | None, fired: bytes | None, height: int, made_up: int
    ) -> None:
        """A schedule is armed, paused, or gone (None) by the record at `height`.

        Where it is armed in the middle of a backfill, `made_up` of its events are sent.
        """
        timer = None
        if row is not None:
            is_idle = not (row.paused and (row.due_ns or row.waiting_ns))
            ensure(is_idle, "kernel.schedule_armed", "{name} is paused, and armed or waiting", name=name)
            if row.due_ns:
                timer = TimerRow("schedule", name, row.fingerprint, made_up)
        self.book.put_schedule(name, row)
        self.arm(fired, row.due_ns if row is not None else 0, height, timer)

    def touch(self, slot: Slot) -> None:
        """Have the slot written back at the end of the beat."""
        slot.dirty = True
        self._look_at(slot)

    def _look_at(self, slot: Slot) -> None:
        if not slot.active:
            slot.active = True
            self.active.append(slot)

    # Modules at their limit of open intents

    def hold(self, base: str) -> Generator[Need, None, None]:
        """A module reached its limit: its cells in the ring whose next message is an event are held."""
        ensure(
            base not in self.book.over, "kernel.over_order", "{module} is at its limit already", module=base
        )
        self.book.over.add(base)
        # Whether a cell is held depends on its first message, which is known once it is read.
        unread = [slot.key for slot in self.ring if slot.cells.base == base and not slot.loaded]
        if unread:
            yield from self.load({base: unread})
        waiting = list(self.ring)
        self.ring.clear()
        for slot in waiting:
            if slot.cells.base == base:
                self.enter(slot)
            else:
                self.ring.append(slot)

    def unhold(self, base: str) -> None:
        """A module is below its limit again: the first of its held cells run in their turn."""
        ensure(base in self.book.over, "kernel.over_order", "{module} is not at its limit", module=base)
        self.book.over.remove(base)
        self.release_held(base)

    def release_held(self, base: str) -> None:
        """The first of a module's held cells run in their turn, unless they still have to wait."""
        if base in self.book.over or base in self.moves:
            return
        cells, waiting = self.cells(base), self.held.get(base, {})
        for key in list(islice(waiting, HELD_RELEASE_MAX)):
            del waiting[key]
            self.ring.append(cells.slots.get(key) or self._resting(cells, key))

    # The intents of a cell

    def has_intents(self, slot: Slot) -> bool:
        """Tell whether a loaded cell waits for receipts."""
        entry = slot.entry
        return entry is not None and entry.extras is not None and "intents" in entry.extras

    def intents_of(self, slot: Slot) -> list[int]:
        """The heights of a loaded cell's open intents."""
        heights: list[int] = [] if slot.entry is None else slot.entry.get("intents", [])
        return heights

    # The end of a beat

    def settle(self, height: int) -> None:
        """Write changed cells back, let idle slots go, and roll what rolls with time."""
        is_next = height > self.height
        ensure(is_next, "kernel.frame_order", "a frame ends at {height}, before it begins", height=height)
        for slot in self.active:
            slot.active = False
            cells = slot.cells
            if slot.queue:
                if self._may_rest(slot):
                    cells.put_to_rest(slot)
                continue
            if slot.dirty:
                slot.dirty = False
                if slot.entry is None:
                    cells.live.delete(slot.key)
                else:
                    cells.live.put(slot.key, slot.entry)
            cells.slots.pop(slot.key, None)
        self.active.clear()
        if self.held:
            for base in sorted(self.held):  # a restored world has them in another order
                self.release_held(base)
                if not self.held[base]:
                    del self.held[base]
        self.book.open.cool()
        if self.heartbeat is not None:
            self.heartbeat.wall_clock.settle(self.beat, self.now_ns)
        self.height = height
        self.dedupe.roll(self.now_ns)

    def drop_idle(self) -> None:
        """Forget slots that were made for a look only; nothing has changed."""
        for slot in self.active:
            slot.active = False
            if not slot.dirty and (not slot.queue or self._may_rest(slot)):
                slot.cells.slots.pop(slot.key, None)
        self.active.clear()
