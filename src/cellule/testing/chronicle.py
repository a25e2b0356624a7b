"""The past of a `testing.World` in its author's words: rows of the journal with objects, not bytes.

States are read as a node reads them: upcast to the classes of the newest app. Events are of the newest app
that knows them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cellule.app import Built
from cellule.errors import Refused
from cellule.host.codecs import AppCodecs
from cellule.host.read.cell_filter import CellFilter
from cellule.host.read.states import StateReader
from cellule.kernel.journal.codes import HALTED, REFUSED, SKIPPED
from cellule.kernel.manifest.model import Manifest
from cellule.kernel.need import drive
from cellule.kernel.state.cells import Entry
from cellule.kernel.state.log_state import joined
from cellule.kernel.state.rows import DeadLetter
from cellule.kernel.state.wait_reasons import Reason
from cellule.modules.workflow.view import is_workflow, timeline
from cellule.testing.answers import Events, Failure, Letter
from cellule.testing.journal_view import EventRow, JournalView, StepRow, Target, opened_text
from cellule.testing.memory_host import MemoryHost
from cellule.testing.waits import Waits
from cellule.values.cbor import decode_trusted, encode
from cellule.values.expressions import ExpressionFault
from cellule.values.link import Link
from cellule.values.names import Name
from cellule.values.sealed_value import ERASED, is_sealed

_log = logging.getLogger("cellule.testing")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def plain(data: bytes) -> Any:
    """A value without its class; or that it is erased."""
    return ERASED if is_sealed(data) else decode_trusted(data)


class Chronicle:
    """Reads a host's journal with the classes of `builds`, one for each era."""

    def __init__(self, host: MemoryHost, builds: list[Built], waits: Waits) -> None:
        self.waits = waits
        self.journal = JournalView(host.frames, host.fetch, host.opened)
        self._host = host
        self._builds = builds
        self._states = StateReader(host.programs)

    def event(self, height: int) -> Any:
        """The event at that height."""
        return self._event(self.journal.event(height))

    def cause(self, step: StepRow) -> Any:
        """The event that a step handled; None where a person deleted the cell."""
        return self.event(step.cause) if self.journal.has_event(step.cause) else None

    def emitted(self, causes: Collection[int] | None = None) -> Events:
        """What steps emitted, all or those at certain heights; not what Cellule itself has to say."""
        rows = self.journal.emitted()
        return Events(
            self._event(row)
            for row in rows
            if (causes is None or row.cause in causes) and not Name.parse(row.schema).is_reserved
        )

    def failures(self) -> list[Failure]:
        """Every step that failed."""
        return [self.failure(step) for step in self.journal.steps() if step.status in (HALTED, SKIPPED)]

    def refusals(self) -> list[Refused]:
        """Every refusal."""
        return [self.refusal(step) for step in self.journal.steps() if step.status == REFUSED]

    def refusal(self, step: StepRow) -> Refused:
        """A refusal, as whoever sent the event gets it."""
        return Refused(step.text, code=step.code, cell=self.shown(step.cell), height=step.height)

    def letters(self) -> list[Letter]:
        """Every dead letter."""
        return [self._letter(height, row) for height, row in self._host.letters()]

    def _letter(self, height: int, row: DeadLetter) -> Letter:
        key = self.key(row.module, row.key)
        if not row.is_effect:
            event = self._decoded(row.message.schema, row.message.value)
            return Letter(height, row.module, key, row.code, self._text(row.text), event, None)
        return Letter(height, row.module, key, row.code, self._text(row.text), None, row.letter["kind"])

    def _text(self, text: str) -> str:
        return opened_text(text, self._host.opened)

    def failure(self, step: StepRow) -> Failure:
        """A failed step."""
        base, key = step.cell
        return Failure(
            base,
            self.key(base, key),
            self.event(step.cause),
            step.code,
            step.text,
            step.height,
            step.status == SKIPPED,
        )

    def entry(self, cell: Target) -> Entry | None:
        """A cell as it is now."""
        return self._host.look(*cell)

    def reasons(self, cell: Target) -> tuple[Reason, ...]:
        """What a cell waits for."""
        return tuple(replace(each, text=self._text(each.text)) for each in self._host.reasons(*cell))

    def state_of(self, base: str, entry: Entry) -> Any:
        """The state of an entry, as the newest app has it; None where it has none."""
        if entry.state is not None and is_sealed(self._written(entry)):
            return ERASED
        found = self._newest_of(base, entry)
        return None if found is None else AppCodecs(self._builds[-1]).state(base, *found)

    def state(self, base: str, era: int, data: bytes) -> Any:
        """A state that was written in that era, as the newest app has it; of a workflow, what was added."""
        if is_sealed(data):
            return ERASED
        manifest, data = self._newest(base, era, data)
        if is_workflow(manifest.modules[base]):
            return timeline(decode_trusted(data))  # type: ignore[arg-type]
        return AppCodecs(self._builds[-1]).state(base, manifest, data)

    def matching(self, base: str, where: str) -> Callable[[bytes, Entry], bool]:
        """Whether an expression is true of a cell; one that gives no answer is logged, and is not."""
        chosen, key_form = CellFilter(where, self._builds[-1].manifest, base), self._builds[-1].key(base)

        def matches(key: bytes, entry: Entry) -> bool:
            if entry.state is not None and is_sealed(self._written(entry)):
                return False
            found = self._newest_of(base, entry)
            try:
                return found is not None and chosen.matches(key_form.wire(key), entry, found[1])
            except ExpressionFault as fault:
                _log.warning("where gave no answer for %s: %s", self.shown((base, key)), fault)
                return False

        return matches

    def _newest_of(self, base: str, entry: Entry) -> tuple[Manifest, bytes] | None:
        return None if entry.state is None else self._newest(base, entry.era, self._written(entry))

    def _written(self, entry: Entry) -> bytes:
        """A state as it was written; one that is erased stays sealed."""
        data = entry.state
        parts = [*entry.get("log", ()), *([data] if isinstance(data, Link) else [])]
        blocks = self._host.fetch([link.cid for link in parts])
        data = blocks[data.cid] if isinstance(data, Link) else data
        sealed = [blocks[link.cid] for link in entry.get("log", ())]
        assert data is not None
        return self._host.opened(joined([*sealed, data]) if sealed else data)

    def _newest(self, base: str, era: int, data: bytes) -> tuple[Manifest, bytes]:
        types, written = AppCodecs(self._builds[-1]), self._builds[era].manifest
        reading = self._states.read(types, base, written, types.manifest, data)
        return drive(reading, self._states.nodes, self._host.fetch)

    def reply(self, step: StepRow) -> Any:
        """What a step answered, or None."""
        if step.reply is None:
            return None
        if is_sealed(step.reply):
            return ERASED
        return self._builds[step.era].decode_reply(step.cell[0], step.reply)

    def ann(self, step: StepRow) -> Any:
        """A step's note, or None."""
        return None if step.ann is None else plain(step.ann)

    def key(self, base: str, key: bytes) -> Any:
        """A key as it stands in events."""
        for built in reversed(self._builds):
            if base in built.manifest.modules:
                return built.key_value(base, key)
        return key

    def params(self, kind: str, data: bytes) -> Any:
        """The params of a request, as the newest app that knows its kind has them."""
        if is_sealed(data):
            return ERASED
        for built in reversed(self._builds):
            form = built.forms.effects.get(kind)
            if form is not None:
                return built.forms.codec(form.params).decode_trusted(data)
        return decode_trusted(data)

    def receipt_bytes(self, kind: str, value: Any) -> bytes:
        """The value of a receipt; raises `Rejected` if it is not what the effect brings."""
        for built in reversed(self._builds):
            form = built.forms.effects.get(kind)
            if form is not None:
                return built.forms.codec(form.receipt).encode(value)
        return encode(value)

    def shown(self, cell: Target) -> str:
        """A cell for people: `shop/order 'o1'`, or `shop/totals` where there is only one."""
        base, key = cell
        return f"{base} {self.key(base, key)!r}" if key else base

    def time(self, now_ns: int) -> datetime:
        """A moment of the journal."""
        return EPOCH + timedelta(microseconds=now_ns // 1_000)

    def _event(self, row: EventRow) -> Any:
        return self._decoded(row.schema, row.value)

    def _decoded(self, schema: str, value: bytes | Link) -> Any:
        if isinstance(value, Link):
            value = self._host.fetch([value.cid])[value.cid]
        value = self._host.opened(value)
        if is_sealed(value):
            return ERASED
        for built in reversed(self._builds):
            if schema in built.forms.names or schema in built.forms.receipts:
                return built.decode_event(schema, value)
        return decode_trusted(value)
