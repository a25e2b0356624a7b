"""What people do with intents: approve, deny, cancel, and try a failed one again.

Each verb is a Control record with who and why; what it does is said by the records that follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from cellule.errors import Rejected
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.intents import life
from cellule.kernel.decide.intents import open as opening
from cellule.kernel.decide.intents import settle as settling
from cellule.kernel.decide.intents.gate import Verdict, check_again, grant_again
from cellule.kernel.decide.requests import EffectRequest, Origin
from cellule.kernel.index.keys import pair_key
from cellule.kernel.items import Admitted, ControlItem
from cellule.kernel.journal.codes import ALLOW, AT_ONCE, DENY, Settled
from cellule.kernel.journal.records import DecisionExtras, DecisionRecord
from cellule.kernel.limits import CELL_INTENTS_MAX
from cellule.kernel.manifest.effects import limited
from cellule.kernel.manifest.model import Grant
from cellule.kernel.need import Need
from cellule.kernel.state import intent_changes as applying
from cellule.kernel.state.cells import Slot
from cellule.kernel.state.intent_changes import REQUEST_EXTRAS
from cellule.kernel.state.intent_id import idempotency_hash, intent_text
from cellule.kernel.state.rows import HELD, OPEN, PARKED, DeadLetter, OpenIntent

Record = Callable[[], Admitted]


def perform(context: BeatContext, item: ControlItem, record: Record) -> Generator[Need, None, Admitted]:
    """Do one verb; `record` writes its Control record once it is clear that it can be done."""
    match item.verb:
        case "effect.approve":
            return (yield from _approve(context, item, record))
        case "effect.deny":
            return (yield from _deny(context, item, record))
        case "effect.cancel":
            return (yield from _cancel(context, item, record))
        case _:
            return (yield from retry(context, item, record))


def _approve(context: BeatContext, item: ControlItem, record: Record) -> Generator[Need, None, Admitted]:
    height, intent = yield from _intent(context, item, parked=True)
    kept, was_held = intent.extras, intent.status == HELD
    asked = yield from asked_before(context, intent.module, intent.key, intent.kind, kept)
    grants = context.eras.current.manifest.grants
    check_again(grants, kept.get("grant"), asked, context.ledger.now_ns)
    admitted = record()
    extras: DecisionExtras = {"control": admitted.height}
    if not asked.effect.external:
        extras["due_ns"] = opening.due_ns(asked.params, context.ledger.now_ns)
    elif not was_held:  # which is counted already
        if context.is_at_limit(intent.module):
            extras["over"] = True
        if context.holds(intent.kind) and not context.is_live:
            extras["held"] = True
    context.writer.add(DecisionRecord(height, ALLOW, extras))
    changed = yield from applying.approved(context.ledger, height, intent, extras)
    if asked.effect.external and "held" not in extras:
        context.dispatch(height, changed, asked.effect, (yield from context.stored_value(kept["params"])))
    if not was_held:
        yield from life.goes_on(context, height, changed)
    return admitted


def asked_before(
    context: BeatContext, base: str, key: bytes, kind: str, kept: Mapping[str, Any]
) -> Generator[Need, None, EffectRequest]:
    """What was asked for, as far as a manifest still knows it."""
    slot = yield from context.slot(base, key)
    known = yield from context.effect(slot, kind)
    if known is None:
        raise Rejected(
            "kernel.effect_unknown", "the manifest no longer has the effect {kind}", kind=kind,
            hint="Deploy a manifest that declares it.",
        )  # fmt: skip
    params = yield from context.value_of(kept["params"])
    limits = kept.get("limits")
    effect = limited(known[1], limits)
    return EffectRequest(effect, params, kept.get("slot"), kept.get("key"), limits)


def _deny(context: BeatContext, item: ControlItem, record: Record) -> Generator[Need, None, Admitted]:
    height, intent = yield from _intent(context, item, parked=True)
    admitted = record()
    context.writer.add(DecisionRecord(height, DENY, {"control": admitted.height}))
    ending = settling.Settlement("kernel.approval_denied", item.why or f"{item.who} denied it")
    yield from _settle(context, item, admitted, height, intent, Settled.DENIED, ending)
    return admitted


def _cancel(context: BeatContext, item: ControlItem, record: Record) -> Generator[Need, None, Admitted]:
    height, intent = yield from _intent(context, item, parked=False)
    admitted = record()
    if intent.status == OPEN:
        context.close(intent.id, height)
    ending = settling.Settlement("kernel.cancelled", item.why or f"{item.who} cancelled it")
    yield from _settle(context, item, admitted, height, intent, Settled.CANCELLED, ending)
    return admitted


def _settle(
    context: BeatContext, item: ControlItem, admitted: Admitted, height: int, intent: OpenIntent,
    status: Settled, ending: settling.Settlement,
) -> Generator[Need, None, None]:  # fmt: skip
    slot = yield from context.slot(intent.module, intent.key)
    extra = {"who": item.who, "why": item.why, "control": admitted.height}
    yield from settling.settle(context, slot, height, intent, status, None, ending, AT_ONCE, extra)


def _intent(
    context: BeatContext, item: ControlItem, *, parked: bool
) -> Generator[Need, None, tuple[int, OpenIntent]]:
    height = number(item, "intent")
    intent = yield from context.ledger.book.find(height)
    if intent is None:
        raise Rejected(
            "kernel.intent_not_open", "no intent is open at height {height}", height=height,
            hint="It may be settled: look at its receipt.",
        )  # fmt: skip
    if parked and intent.status not in (PARKED, HELD):
        raise Rejected(
            "kernel.intent_not_parked", "intent {intent} does not wait for an approval: it is {status}",
            intent=intent_text(intent.id), status=intent.status,
        )  # fmt: skip
    return height, intent


def retry(context: BeatContext, item: ControlItem, record: Record) -> Generator[Need, None, Admitted]:
    """Ask again for what an adapter gave up; the outside sees the same idempotency key."""
    letters, at = context.ledger.dead_letters, number(item, "letter")
    row = yield from letters.get(pair_key(at, 1))
    if row is None or not row.is_effect:
        raise Rejected(
            "kernel.no_letter",
            "there is no dead letter at height {height}",
            height=at,
            hint="`cellule letter list` shows those there are.",
        )
    check_letter(context, row)
    base, key, letter = row.module, row.key, row.letter
    asked = yield from asked_before(context, base, key, letter["kind"], letter)
    yield from _check_key(context, base, asked)
    slot = yield from context.slot(base, key)
    _check_room(context, slot)
    grant = yield from _grant(context, slot, asked)
    admitted = record()
    context.ledger.take_letter(at)
    extras: Any = {name: letter[name] for name in REQUEST_EXTRAS if name in letter}
    origin = Origin(admitted.height, letter["born"], 0, context.eras.current.number)
    params = yield from context.stored_value(letter["params"])
    intent = opening.record(context, slot, origin, 0, asked, params, extras)
    ruling = Verdict(ALLOW, {} if grant is None else {"grant": grant.name})
    yield from opening.decide(context, slot, intent, asked, params, ruling, 0)
    return admitted


def check_letter(context: BeatContext, letter: DeadLetter, *, of_entry: bool = False) -> None:
    """Refuse to repeat what was for a whole map that is cells now, and the receipt of an entry's effect."""
    module = context.eras.current.manifest.modules.get(letter.module)
    is_moved = module is not None and module.cell_key is not None and not letter.key
    if is_moved or of_entry:
        raise Rejected(
            "kernel.letter_of_map", "the dead letter was for {what} of {module}, and cannot come again",
            module=letter.module,
            what="the whole map" if is_moved else "an effect that an entry in the map",
            hint="Send what it says as an event of its own, and dismiss the letter.",
        )  # fmt: skip


def _check_room(context: BeatContext, slot: Slot) -> None:
    """A cell never has more open intents than its own steps may open; the letter stays."""
    count = len(context.ledger.intents_of(slot))
    if count >= CELL_INTENTS_MAX:
        raise Rejected(
            "kernel.cell_intents", "cell {module} {key} has {count} open intents already",
            module=slot.cells.base, key=slot.key, count=count, hint="Try again once some are settled.",
        )  # fmt: skip


def _check_key(context: BeatContext, base: str, asked: EffectRequest) -> Generator[Need, None, None]:
    """A module never asks the outside twice at a time with one idempotency key."""
    assert asked.key is not None
    place = idempotency_hash(base, asked.effect.kind, asked.key)
    known = yield from context.ledger.book.remembered(place, context.ledger.now_ns)
    if known is not None and not known.is_settled:
        raise Rejected(
            "kernel.key_open", "intent {height} with the same idempotency key {key!r} is open",
            height=known.height, key=asked.key, hint="Wait for its receipt, or cancel it.",
        )  # fmt: skip


def _grant(context: BeatContext, slot: Slot, asked: EffectRequest) -> Generator[Need, None, Grant | None]:
    """The grant the adapter has to keep to; what it may spend is not asked again."""
    era, base, current = (yield from context.era_of(slot)), slot.cells.base, context.eras.current
    module = era.manifest.modules.get(base) or current.manifest.modules.get(base)
    if module is None:
        raise Rejected(
            "kernel.no_module", "module {module} is not in the current manifest: {key} cannot ask again",
            module=base, key=slot.key,
        )  # fmt: skip
    return grant_again(current, module, asked, context.ledger.now_ns)


def number(item: ControlItem, field: str) -> int:
    """An argument that is a height."""
    value = item.arguments.get(field)
    if type(value) is not int or value < 1:
        raise Rejected("kernel.argument", "{verb} needs `{field}`, a height", verb=item.verb, field=field)
    return value
