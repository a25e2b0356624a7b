"""The way of plain requests and plain receipts: one pass each, where nothing has to be looked at closely.

A request is plain if an adapter performs it, it has no idempotency key of its own and short params, it is
allowed, and its module stays below its limit. A receipt is plain if an adapter handed in a short value that
fits, for an open intent in memory that nothing else waits for, and its cell is in memory and takes it. All
others go through `decide/intents/`, which knows every case. Both write the same records and
change the ledger alike: which way was taken is not to be seen in a frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cellule.errors import CelluleError
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.eras import Compiled
from cellule.kernel.decide.intents.gate import Requester, rule
from cellule.kernel.decide.requests import EffectRequest
from cellule.kernel.index.keys import is_number, pair_key
from cellule.kernel.index.live import MISSING
from cellule.kernel.items import Admitted, Opening, Outcome, ReceiptItem
from cellule.kernel.journal.codes import ALLOW, AT_ONCE, Settled
from cellule.kernel.journal.records import DecisionExtras, ReceiptExtras
from cellule.kernel.journal.rows import decision_row, intent_row, receipt_row
from cellule.kernel.journal.writer import LINK_MARK, RECORD_BYTES, held_bytes
from cellule.kernel.limits import (
    FRAME_BYTES_ADMIT,
    OPENING_BYTES,
    OUTPUT_BYTES_MAX,
    PARAMS_INLINE_MAX,
    STEP_EFFECTS_MAX,
)
from cellule.kernel.manifest.model import TIMER_SET, Module
from cellule.kernel.program import CheckedRequest
from cellule.kernel.state.cells import RECEIPT_MESSAGE, Message, Slot
from cellule.kernel.state.intent_changes import attach, detach, spend
from cellule.kernel.state.intent_id import intent_digest, intent_text
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.rows import OPEN, OpenIntent
from cellule.values.cbor import encode

_new = tuple.__new__  # a NamedTuple without its Python-level constructor
_OK = int(Settled.OK)


# Requests


def proven_requests(era: Compiled, module: Module, effects: Sequence[Any]) -> list[EffectRequest] | None:
    """The requests of a step if all are proven, declared and for adapters; None where one takes a look."""
    kinds, emitted, asked = era.manifest.effects, module.effects_emitted, []
    for request in effects:
        if type(request) is not CheckedRequest:
            return None
        kind, params, slot, key, limits = request
        if kind not in emitted or kind == TIMER_SET or key is not None or limits is not None:
            return None
        if len(params) > OUTPUT_BYTES_MAX:
            return None
        effect = kinds.get(kind)
        if effect is None or effect.operation:
            return None
        asked.append(_new(EffectRequest, (effect, params, slot, None, None)))
    return asked if len(asked) <= STEP_EFFECTS_MAX and module.kind != "pure" else None


def open_plain(
    context: BeatContext, slot: Slot, step: int, born: int, era: int, asked: Sequence[EffectRequest]
) -> int:
    """Open plain requests of the step at height `step`; returns the position of the first that is not one."""
    entry, current, book = slot.entry, context.eras.current, context.ledger.book
    if current.number != era or book.over or entry is None or not entry.is_life(born):
        return 0
    if context.ledger.branch is not None and not context.ledger.branch.passes:
        return 0
    base = slot.cells.base
    module, rules, now_ns = current.manifest.modules[base], current.manifest.policy, context.ledger.now_ns
    # Without grants and rules there is nothing to decide, so nothing is asked.
    is_free = not (module.cap_slots or rules.rules) and rules.default == "allow"
    waits = list(entry.get("intents", ()))
    position = 0
    for each in asked:
        effect, params, cap_slot, key, limits = each
        if (
            key is not None or limits is not None or effect.kind == TIMER_SET or effect.operation
            or len(params) > PARAMS_INLINE_MAX or LINK_MARK in params
            or book.counts.get(base, 0) + 1 >= module.open_max
        ):  # fmt: skip
            break
        extras: DecisionExtras = {}
        if not is_free or waits or effect.needs_grant or cap_slot is not None:
            verdict, extras = rule(book, current, Requester(module, slot.key, len(waits)), each, now_ns)
            if verdict != ALLOW:
                break
        waits.append(_open(context, slot, step, born, position, each, extras))
        position += 1
    if position:
        attach(context.ledger, slot, born, *waits[-position:])
    return position


def _open(
    context: BeatContext,
    slot: Slot,
    step: int,
    born: int,
    position: int,
    asked: EffectRequest,
    extras: DecisionExtras,
) -> int:
    """Write an allowed request down and hand it to the host; returns the height of its Intent record."""
    effect, params, cap_slot, _, _ = asked
    writer, book, base, key, kind = (
        context.writer,
        context.ledger.book,
        slot.cells.base,
        slot.key,
        effect.kind,
    )
    records, at, named = writer.records, writer.names.get(base), writer.names.get(kind)
    if at is None or named is None:
        at, named = writer.name(base), writer.name(kind)
    height, held = writer.first + len(records), [params]
    own = None if cap_slot is None else {"slot": cap_slot}
    records.append(intent_row(step, position, at, key, born, named, held, own))
    records.append(decision_row(height, ALLOW, extras or None))
    writer.size += 2 * RECORD_BYTES + len(params) + len(key)
    if own or extras:
        writer.size += held_bytes(own or {}) + held_bytes(extras)
    kept: dict[str, Any] = {"params": held, "since_ns": context.ledger.now_ns}
    limits, size = None, 0
    if own or extras:
        limits, size = _govern(context, kept, own or {}, extras)
    writer.count_beside(OPENING_BYTES + len(params) + len(key) + size)
    digest = intent_digest(context.world, base, key, born, step, position, kind, params)
    book.add(height, _new(OpenIntent, (digest, base, key, born, kind, OPEN, kept)))
    context.opened.append(_new(Opening, (
        digest, height, kind, params, intent_text(digest), effect.priority, effect.timeout_ns,
        effect.attempts, limits, base, key, born, effect.deadline_ns, effect.backoff_ns,
        effect.backoff_max_ns,
    )))  # fmt: skip
    return height


def _govern(
    context: BeatContext, kept: dict[str, Any], own: Mapping[str, Any], extras: DecisionExtras
) -> tuple[Any, int]:
    """Keep and spend what a request was allowed by; returns what its adapter must keep to, and its size."""
    kept.update(own)
    kept.update((name, value) for name, value in extras.items() if name in ("grant", "rule"))
    if "period" in extras:
        spend(context.ledger, extras)
    return context.eras.current.grant(extras.get("grant", ""))


# Receipts


def settle_plain(context: BeatContext, items: Sequence[Any], start: int, outcomes: list[Outcome]) -> int:
    """Settle intents by plain receipts from `start` on; returns the position of the first other item."""
    ledger, writer, current = context.ledger, context.writer, context.eras.current
    if ledger.book.over:
        return start
    held = ledger.book.open.held
    for position in range(start, len(items)):
        item = items[position]
        if type(item) is not ReceiptItem or not _is_plain(item) or writer.size >= FRAME_BYTES_ADMIT:
            return position
        intent: Any = held(pair_key(item.height, 0))
        if intent is MISSING or intent is None or intent.id != item.intent or intent.status != OPEN:
            return position
        kept = intent.extras
        is_more = "key" in kept or "due" in kept or "entry" in kept or "operation" in kept
        event = None if is_more else _event(current, intent, item)
        slot = None if event is None else _slot(ledger, current.number, intent)
        if event is None or slot is None:
            return position
        outcomes.append(_new(Admitted, (_settle(context, slot, intent, item, event), ())))
    return len(items)


def _is_plain(item: ReceiptItem) -> bool:
    """Tell whether a receipt is an adapter's short value, and names a height."""
    value, height = item.value, item.height
    return (
        item.status == "ok" and item.who is None and value.__class__ is bytes
        and len(value) <= PARAMS_INLINE_MAX and is_number(height)
    )  # fmt: skip


def _slot(ledger: Ledger, era: int, intent: OpenIntent) -> Slot | None:
    """The slot of the cell that asked, if it is in memory, as it was born, and of this era."""
    _, base, key, born, _, _, _ = intent
    cells = ledger.cells(base)
    slot: Slot | None = cells.slots.get(key)
    entry: Any = cells.live.cached(key) if slot is None else slot.entry
    if entry is MISSING or entry is None or (slot is not None and not slot.loaded):
        return None
    extras = entry.extras
    if not entry.is_life(born) or entry.era != era or extras is None or "intents" not in extras:
        return None
    if slot is None:
        if len(extras) > 1:
            return None
        slot = ledger.take_up(cells, key, entry)
    return slot


def _event(era: Compiled, intent: OpenIntent, item: ReceiptItem) -> bytes | None:
    """What the cell reads, if its code takes it, and the value fits and is short enough."""
    digest, base, _, _, kind, _, _ = intent
    module, effect = era.manifest.modules.get(base), era.manifest.effects.get(kind)
    if module is None or effect is None or effect.event not in module.events:
        return None
    try:
        value = era.fits(effect.receipt).decode(item.value)  # type: ignore[arg-type]
    except CelluleError:
        return None
    told: dict[str, Any] = {"intent_id": intent_text(digest), "kind": kind, "status": "ok"}
    if value is not None:
        told["value"] = value
    event = encode(told)
    return None if len(event) > PARAMS_INLINE_MAX or LINK_MARK in event else event


def _settle(context: BeatContext, slot: Slot, intent: OpenIntent, item: ReceiptItem, event: bytes) -> int:
    """Write the receipt down and deliver it; returns its height."""
    ledger, writer = context.ledger, context.writer
    _, base, key, born, kind, _, _ = intent
    schema = context.eras.current.manifest.effects[kind].event
    records, at, named = writer.records, writer.name(base), writer.name(schema)
    extras: ReceiptExtras = {}
    if item.by:
        extras["by"] = item.by
    if item.attempts:
        extras["attempts"] = item.attempts
    if item.why:
        extras["why"] = item.why
    height = writer.first + len(records)
    records.append(receipt_row(item.height, at, key, born, _OK, named, [event], AT_ONCE, extras or None))
    writer.size += RECORD_BYTES + len(event) + len(key) + held_bytes(extras)
    ledger.book.remove(item.height, intent)
    detach(ledger, slot, born, item.height)
    ledger.deliver(slot, _new(Message, (height, RECEIPT_MESSAGE, schema, event, 0, born)))
    return height
