"""What a beat works with: the ledger, the eras, the frame under way, its pace and entropy, its short ways.

Also what all of `intents/` ask: which effect a kind is for a cell, and whether its code takes an event.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from cellule.errors import Rejected
from cellule.kernel.decide.argument_checks import check_value
from cellule.kernel.decide.eras import Compiled, Eras
from cellule.kernel.decide.sealer import Sealer
from cellule.kernel.decide.short_ways import ShortWays
from cellule.kernel.decide.steps import Stepper
from cellule.kernel.items import Opening, Pace, StepRow
from cellule.kernel.journal.writer import FrameWriter
from cellule.kernel.limits import EVENT_BYTES_MAX, OPENING_BYTES, PARAMS_INLINE_MAX
from cellule.kernel.manifest.model import BLOBS, EffectKind
from cellule.kernel.need import Need, fetch, fetch_present
from cellule.kernel.state.cells import Slot
from cellule.kernel.state.intent_id import dispatch_id, intent_text
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.rows import HELD, OPEN, OpenIntent
from cellule.values.envelope import open_envelope
from cellule.values.link import Link


@dataclass(slots=True)
class BeatContext:
    """What all parts of one beat share."""

    ledger: Ledger
    eras: Eras
    stepper: Stepper
    writer: FrameWriter
    pace: Pace
    entropy: bytes
    sealer: Sealer
    ahead_ns: int = 0  # how far the world's time is ahead of the clock
    short: ShortWays = field(init=False)
    opened: list[Opening] = field(default_factory=list)  # for the host to dispatch once the frame is durable
    closed: list[bytes] = field(default_factory=list)  # dispatched ones that were settled without an adapter
    removed: list[StepRow] = field(default_factory=list)  # messages that people took out of queues

    @property
    def world(self) -> bytes:
        """The id of the world."""
        return self.stepper.world

    def holds(self, kind: str) -> bool:
        """Tell whether an effect that is allowed may have an answer of the fork, or is held by it."""
        branch = self.ledger.branch
        return branch is not None and not kind.startswith(BLOBS) and not branch.passes

    @property
    def is_live(self) -> bool:
        """Tell whether the world dispatches effects: all do but forks that are held."""
        return self.ledger.branch is None or self.ledger.branch.live

    def sent_as(self, height: int, intent: bytes) -> bytes:
        """The id under which an intent is dispatched: a fork's own where another world made the intent."""
        branch = self.ledger.branch
        if branch is None or height > branch.height:
            return intent
        return dispatch_id(self.world, intent)

    def hold_value(self, value: bytes) -> Any:
        """A value as records and the book hold it; a long one is a block, in reach from now on."""
        held = self.writer.stored(value, PARAMS_INLINE_MAX)
        if isinstance(held, Link):
            self.ledger.keep_block(held.cid, value)  # it is read before the frame is durable
        return held

    def stored_value(self, stored: Any) -> Generator[Need, None, bytes]:
        """The bytes of a held value, as they are stored."""
        if isinstance(stored, Link):
            found = yield from fetch(self.ledger.nodes, (stored.cid,))
            return found[stored.cid]
        return open_envelope(stored).data

    def value_of(self, stored: Any) -> Generator[Need, None, bytes]:
        """The bytes of a held value; `Gone` where they are erased."""
        return (yield from self.in_clear((yield from self.stored_value(stored))))

    def in_clear(self, data: bytes) -> Generator[Need, None, bytes]:
        """Bytes as they are, or what they hide where they are sealed; `Gone` where they are erased."""
        return data if not self.sealer.in_use else (yield from self.ledger.keys.opened(data))

    def given_value(self, given: Any, field: str) -> Generator[Need, None, bytes]:
        """The bytes of a value that an argument brings or links; refused where it is none, or not there."""
        data = given
        if isinstance(given, Link):
            data = (yield from fetch_present(self.ledger.nodes, (given.cid,))).get(given.cid)
        if not isinstance(data, bytes) or len(data) > EVENT_BYTES_MAX:
            raise Rejected(
                "kernel.argument", "`{field}` needs a value of at most {most} bytes, or a link of one",
                field=field, most=EVENT_BYTES_MAX,
            )  # fmt: skip
        check_value(data, field)
        return data

    def slot(self, base: str, key: bytes) -> Generator[Need, None, Slot]:
        """A cell, loaded."""
        yield from self.ledger.slots([(base, key)])
        return self.ledger.cells(base).slot(key)

    def era_of(self, slot: Slot) -> Generator[Need, None, Compiled]:
        """The era whose code takes the cell's next message."""
        current, entry = self.eras.current, slot.entry
        module = current.manifest.modules.get(slot.cells.base)
        if entry is None or entry.state is None or entry.era == current.number:
            return current
        if module is not None and module.upgrade == "follow":
            return current
        return (yield from self.eras.era(entry.era))

    def effect(self, slot: Slot, kind: str) -> Generator[Need, None, tuple[Compiled, EffectKind] | None]:
        """What the cell's era knows of a kind, else what the current one does; with that era."""
        for era in ((yield from self.era_of(slot)), self.eras.current):
            effect = era.manifest.effects.get(kind)
            if effect is not None:
                return era, effect
        return None

    def takes(self, slot: Slot, born: int, schema: str) -> Generator[Need, None, bool]:
        """Tell whether this incarnation of the cell is there, and its code takes the event."""
        entry = slot.entry
        if entry is None or not entry.is_life(born):
            return False
        era = yield from self.era_of(slot)
        module = era.manifest.modules.get(slot.cells.base)
        return module is not None and schema in module.events

    def is_below(self, intent: OpenIntent) -> bool:
        """Tell whether settling this intent brings its module below its limit."""
        base, book = intent.module, self.ledger.book
        if intent.status not in (OPEN, HELD) or base not in book.over:
            return False
        module = self.eras.current.manifest.modules.get(base)
        return module is None or book.counts[base] - 1 < module.open_max

    def is_at_limit(self, base: str) -> bool:
        """Tell whether one more dispatched intent brings a module to its limit."""
        book = self.ledger.book
        module = self.eras.current.manifest.modules.get(base)
        return (
            module is not None and base not in book.over and book.counts.get(base, 0) + 1 >= module.open_max
        )

    def close(self, intent: bytes, height: int) -> None:
        """An intent that an adapter may have is settled; one that this frame opens never leaves at all."""
        if height < self.writer.first:
            self.closed.append(self.sent_as(height, intent))
        else:
            self.opened = [opening for opening in self.opened if opening.height != height]

    def dispatch(self, height: int, intent: OpenIntent, effect: EffectKind, params: bytes) -> None:
        """Hand an intent to the host, for when this frame is durable."""
        digest, base, key, born, kind, _, kept = intent
        limits, size = self.eras.current.grant(kept.get("grant", ""))
        told = kept.get("key") or intent_text(digest)
        opening = Opening(
            self.sent_as(height, digest), height, kind, params, told, effect.priority,
            effect.timeout_ns, effect.attempts, limits, base, key, born, effect.deadline_ns,
            effect.backoff_ns, effect.backoff_max_ns,
        )  # fmt: skip
        self.opened.append(opening)
        own = len(kept.get("key", ""))
        self.writer.count_beside(OPENING_BYTES + len(params) + len(key) + own + size)
