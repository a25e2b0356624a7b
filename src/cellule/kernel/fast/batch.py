"""A batch: plain events on the shortest way from item to step.

An event is plain if it has nothing beside its bytes and goes to one cell by one text field. If all items of a
beat are plain and no cell waits for a step, each event is written down and becomes a row, without a slot or a
queue; `FastSteps` then takes the rows' steps in their order, which is the order of the ring.
Whatever is not as plain as that becomes a slot, which is stepped in its row's turn: a second event for the
same cell, a cell that is stopped or waits for receipts, a step that fails, emits or replies. An event for a
cell that has a queue goes there. And if anything else happens in the beat, `enter` puts all rows into the
ring, as if they had been delivered to it.

So a batch is a way, not a rule: the records and the world after it are those of `decide/admission.py` and the
ring, which know every case.

Rejected: a slot for every event. Making it, its queue and its place in the ring, and taking them down again
at the end of the beat, costs as much as the step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.fast.columns import lay_columns
from cellule.kernel.fast.modules import FastModules
from cellule.kernel.fast.schema_route import Row, SchemaRoute
from cellule.kernel.index.live import MISSING
from cellule.kernel.items import EventItem, Item
from cellule.kernel.journal.writer import LINK_MARK, RECORD_BYTES
from cellule.kernel.limits import EVENT_BYTES_MAX, FRAME_BYTES_ADMIT
from cellule.kernel.manifest.event_routes import UNREADABLE
from cellule.kernel.manifest.limits import KEY_BYTES_MAX
from cellule.kernel.need import Need
from cellule.kernel.state.cells import EVENT_MESSAGE, Message, Slot
from cellule.values import cbor

decode_linked: Callable[[bytes], Any] = cbor.decode_linked
COLUMNS_MIN: Final = 4  # events; fewer are laid out sooner one by one
_new = tuple.__new__  # a NamedTuple without its Python-level constructor


class FastBatch:
    """The plain events of one beat, on their routes.

    `slots` has those that became slots, by the height of their event.
    """

    __slots__ = ("_cold", "_context", "_modules", "_routes", "heights", "routes", "rows", "slots")

    def __init__(self, context: BeatContext, modules: FastModules) -> None:
        self._context = context
        self._modules = modules
        self._routes: dict[str, SchemaRoute | None] = {}  # by schema; None where its events are not plain
        self.routes: list[SchemaRoute] = []
        self._cold: list[int] = []  # positions of rows whose cells are not in memory
        self.rows: list[Row | Slot] = []
        self.slots: dict[int, Slot] = {}
        self.heights = range(0)  # of its events

    def admit(self, items: Sequence[Item]) -> Generator[Need, None, int]:
        """Admit plain events from the front, as long as they are; returns how many."""
        writer = self._context.writer
        if not items or writer.records or self._context.ledger.paused:
            return 0
        first = writer.next_height()
        if not self._lay_columns(items):
            records, count, size = self._lay(items)
            writer.begin(records, count, size)
        self.heights = range(first, writer.next_height())
        if self._cold:
            yield from self._load()
        return len(self.heights)

    def _lay_columns(self, items: Sequence[Any]) -> bool:
        """Lay out everything at once, if it is all alike."""
        if len(items) < COLUMNS_MIN or set(map(type, items)) != {tuple}:
            return False
        route = self._route(items[0][0])
        columns = None if route is None else lay_columns(items, route, self._context.writer)
        if columns is None:
            return False
        self.rows, records, size = columns  # type: ignore[assignment]
        self._context.writer.begin(records, len(items), size)
        return True

    def _lay(self, items: Sequence[Any]) -> tuple[bytes, int, int]:  # noqa: C901 - see below
        """Write down and lay out what is plain: its records, how many, and the size of the frame with them.

        The hot path of admission: in one piece, because each call from it would cost a tenth of it. Events in
        a row that take the same route are encoded together.
        """
        rows, cold, routes, context = self.rows, self._cold, self._routes, self._context
        ledger, writer, new = context.ledger, context.writer, _new
        size, height = writer.size, writer.next_height()
        parts: list[bytes] = []
        values: list[bytes] = []
        keys: list[bytes] = []
        route: Any = None
        known = field = ""
        taken: dict[bytes, int] = {}
        slots: Any = taken
        recent: Any = taken
        for item in items:
            if item.__class__ is tuple:
                schema, value, fields = item
            elif item.__class__ is EventItem and is_plain(item):
                schema, value, fields = item.schema, item.value, None
            else:
                break
            if schema is not known:
                if values:
                    parts.append(route.events.encode(values, keys))
                    values, keys = [], []
                route = routes[schema] if schema in routes else self._route(schema)
                if route is None:
                    break
                known, field = schema, route.field
                taken, slots, recent = route.taken, route.cells.slots, route.recent
            length = len(value)
            if size >= FRAME_BYTES_ADMIT or length > EVENT_BYTES_MAX or LINK_MARK in value:
                break
            try:
                if fields is None:
                    fields = decode_linked(value)
                key = fields[field].encode()
            except UNREADABLE:
                break
            if key in taken:  # the cell becomes a slot, with its events in its queue
                row = rows[taken[key]]
                slot = row if isinstance(row, Slot) else self.promote(taken[key])
                ledger.keep_message(slot, new(Message, (height, EVENT_MESSAGE, schema, value, 0, None)))
                self.slots[height] = slot
            elif key in slots:  # its queue goes on where it stands in the ring, or waits
                slot = slots[key]
                if not slot.loaded or not slot.queue or not slot.has_room(length):
                    break
                ledger.deliver(slot, new(Message, (height, EVENT_MESSAGE, schema, value, 0, None)))
                self.slots[height] = slot
            else:
                entry = recent[key] if key in recent else route.cells.live.cached(key)
                if not 0 < len(key) <= KEY_BYTES_MAX:
                    break
                if entry is MISSING:
                    cold.append(len(rows))
                elif entry is not None and entry.extras is not None:
                    break
                taken[key] = len(rows)
                rows.append((height, route, key, entry, value, fields))
            if route.events is None:
                size += route.begin(writer)
            values.append(value)
            keys.append(key)
            size += RECORD_BYTES + length + len(key)
            height += 1
        if values:
            parts.append(route.events.encode(values, keys))
        return b"".join(parts), height - writer.next_height(), size

    def _route(self, schema: str) -> SchemaRoute | None:
        """The route of a schema that is new to this beat; None where its events are not plain."""
        era, route = self._context.eras.current, None
        single = era.router.singles.get(schema)
        if single is not None:
            base, field = single
            fast = self._modules.find(era, base)
            step = fast.steps.get(schema) if fast is not None and not fast.module.effects_emitted else None
            cells = self._context.ledger.cells(base)
            taken: dict[bytes, int] = {}
            for other in self.routes:
                if other.cells is cells:
                    taken = other.taken
            route = SchemaRoute(
                cells, base, field, schema, step, fast and fast.module, fast is not None and fast.context,
                fast is not None and fast.retains, taken, cells.live.recent, {},
            )  # fmt: skip
            self.routes.append(route)
        self._routes[schema] = route
        return route

    def promote(self, position: int) -> Slot:
        """Make a row a slot, which is not in the ring."""
        row = self.rows[position]
        if isinstance(row, Slot):
            return row
        height, route, key, entry, value, _ = row
        slot = self._context.ledger.take_up(route.cells, key, entry)
        message = _new(Message, (height, EVENT_MESSAGE, route.schema, value, 0, None))
        self._context.ledger.keep_message(slot, message)
        self.rows[position] = self.slots[height] = slot
        return slot

    def _load(self) -> Generator[Need, None, None]:
        """Read the cells that are not in memory, all together."""
        ledger, rows = self._context.ledger, self.rows
        wanted: dict[str, list[int]] = {}
        for position in self._cold:
            row = rows[position]
            cells = row.cells if isinstance(row, Slot) else row[1].cells
            wanted.setdefault(cells.base, []).append(position)
        for base, positions in wanted.items():
            keys = [_key(rows[position]) for position in positions]
            found = yield from ledger.cells(base).live.load(keys)
            for position, key in zip(positions, keys, strict=True):
                entry = found[key]
                # A queue, a stop or open intents need a slot: the short way knows none of them.
                if entry is not None and entry.extras is not None:
                    self.promote(position)
                row = rows[position]
                if not isinstance(row, Slot):
                    rows[position] = (*row[:3], entry, *row[4:])
        for base, positions in wanted.items():
            slots = [row for position in positions if isinstance(row := rows[position], Slot)]
            if slots:
                yield from ledger.load({base: [slot.key for slot in slots]})
        self._cold.clear()

    def write_back(self) -> None:
        """Put what the plain steps made of their cells into the index."""
        for route in self.routes:
            self._context.ledger.write_back(route.cells, route.grown, route.changes)

    def enter(self) -> None:
        """Put all rows into the ring, behind what is there, as if they had been delivered to it."""
        ledger = self._context.ledger
        for slot in self._slots_from(0):
            ledger.enter(slot)

    def enter_rest(self, start: int) -> int:
        """Put the rows from `start` on before what is in the ring: their turn is first. Returns how many."""
        slots = self._slots_from(start)
        self._context.ledger.put_first(slots)
        return len(slots)

    def _slots_from(self, start: int) -> list[Slot]:
        slots = [self.promote(position) for position in range(start, len(self.rows))]
        del self.rows[start:]
        return [slot for slot in slots if not slot.stopped]


def is_plain(item: EventItem) -> bool:
    """Tell whether an event has nothing beside its bytes."""
    return (
        item.key is None and item.id is None and item.expected_version is None and item.correlation is None
        and not item.explicit and not item.system and item.value.__class__ is bytes
    )  # fmt: skip


def _key(row: Row | Slot) -> bytes:
    return row.key if isinstance(row, Slot) else row[2]
