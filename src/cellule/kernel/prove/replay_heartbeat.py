"""Recorded signals, agendas, entries, bindings and writes applied to a ledger.

An Agenda record takes its impulse out of the queue: it must be there, and due. What the enzymes did stands
behind it in records of its own; nothing is resolved or run here.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from cellule.errors import Rejected
from cellule.kernel.heartbeat.entries import parse_entry
from cellule.kernel.index.keys import pair_key
from cellule.kernel.journal.heartbeat_records import (
    AgendaRecord,
    BindingRecord,
    EnzymeRecord,
    SignalRecord,
    WriteRecord,
)
from cellule.kernel.need import Need
from cellule.kernel.prove.replay_intents import Contradiction
from cellule.kernel.state import heartbeat_rows as state
from cellule.kernel.state import writes
from cellule.kernel.state.dedupe import dedupe_key
from cellule.kernel.state.ledger import Ledger
from cellule.values.envelope import value_of


class RecordedHeartbeat:
    """Applies the records of the heartbeat; `height` is that of the record under way."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def control(self, verb: str, arguments: Mapping[str, Any]) -> Generator[Need, None, bool]:
        """A person's verb; tells whether it is one of the heartbeat."""
        if verb in ("heartbeat.pause", "heartbeat.resume"):
            self._ledger.open_heartbeat().pause(is_paused=verb == "heartbeat.pause")
        elif verb in ("heartbeat.beat", "enzyme.bind", "enzyme.unbind"):
            self._ledger.open_heartbeat()
        elif verb in ("heartbeat.publish", "heartbeat.window"):
            yield from self._clock(verb, arguments)
        else:
            return False
        return True

    def _clock(self, verb: str, arguments: Mapping[str, Any]) -> Generator[Need, None, None]:
        """A beat's time was told, or the window of intervals set."""
        clock = self._ledger.open_heartbeat().wall_clock
        if verb == "heartbeat.window":
            clock.set_window(arguments["window"])
            return
        beat, ns = arguments["beat"], arguments["ns"]
        known = yield from clock.find(beat)
        if known is None:
            clock.publish(beat, ns)
        elif known != ns:
            raise Contradiction(f"beat {beat} was told to be at {known} ns, and now at {ns} ns")

    def signal(self, height: int, record: SignalRecord) -> Generator[Need, None, None]:
        """An impulse was queued."""
        extras = record.extras
        if record.signal is None and record.target is None:
            raise Contradiction("the impulse has neither signal nor target")
        if record.beat <= self._ledger.beat:
            raise Contradiction(f"an impulse is queued for beat {record.beat}, which has begun")
        impulse = state.Impulse(
            record.signal, record.target, extras.get("payload"), extras.get("kind", ""), record.depth,
            extras.get("retries", []),
        )  # fmt: skip
        if extras.get("dedupe"):
            given = extras.get("id")
            if given is None:
                raise Contradiction("a deduplicated impulse has no id")
            check = state.impulse_check(record.signal, record.target, state.payload_digest(impulse.payload))
            self._ledger.dedupe.add(dedupe_key(given), height, check, self._ledger.now_ns)
        yield from self._ledger.open_heartbeat().queue(record.beat, height, impulse)

    def agenda(self, record: AgendaRecord) -> Generator[Need, None, None]:
        """An impulse was handled."""
        heartbeat = self._ledger.open_heartbeat()
        for key, impulse in (yield from self._waiting(record.cause)):
            if (impulse.signal, impulse.target) != (record.signal, record.target):
                raise Contradiction(f"the impulse of {record.cause} is another one")
            beat, height = state.place_of(key)
            yield from heartbeat.finish(beat, height, impulse)
            return
        raise Contradiction(f"no impulse of {record.cause} is due")

    def _waiting(self, height: int) -> Generator[Need, None, list[tuple[bytes, state.Impulse]]]:
        """The impulse of that height that is due: this beat's, or one that was left over."""
        heartbeat, beat = self._ledger.open_heartbeat(), self._ledger.beat
        key = pair_key(beat, height)
        found = yield from heartbeat.impulses.get(key)
        if found is not None:
            return [(key, found)]
        first = yield from heartbeat.impulses.first()
        return [] if first is None or state.place_of(first[0])[1] != height else [first]

    def enzyme(self, record: EnzymeRecord) -> Generator[Need, None, None]:
        """An entry was registered, or removed."""
        heartbeat, number = self._ledger.open_heartbeat(), record.number
        if record.entry is not None:
            if number != heartbeat.numbers:
                raise Contradiction(f"entry {number} does not follow the {heartbeat.numbers} before it")
            try:
                heartbeat.register(number, parse_entry(number, record.entry))
            except Rejected as error:
                raise Contradiction(str(error)) from error
            return
        entry = yield from heartbeat.entry(number)
        if entry is None:
            raise Contradiction(f"there is no entry {number} to remove")
        heartbeat.unregister(number, entry)

    def binding(self, record: BindingRecord) -> None:
        """A name was bound, or a tombstone set."""
        self._ledger.open_heartbeat().bind(record.path, record.name, record.how)

    def write(self, height: int, record: WriteRecord) -> Generator[Need, None, None]:
        """A cell of the kernel's own changed."""
        ledger = self._ledger
        entry = yield from writes.entry_at(ledger, record.module, record.key)
        version, born, _ = writes.follow(entry, height, ledger.now_ns)
        prev = 0 if entry is None else entry.last
        if (record.prev, record.born, record.version) != (prev, born, version):
            raise Contradiction("the write does not follow the cell as it is")
        data = None if record.state is None else value_of(record.state)
        size = len(data) if isinstance(data, bytes) else record.extras.get("size", 0)
        yield from writes.apply(ledger, record.module, record.key, height, data, size)
