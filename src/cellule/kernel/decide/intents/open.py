"""Requests of a step become intents: an Intent record, its Decision and, where it is refused, its receipt.

What is wrong with the request itself fails the step and never comes here (`requests.py`). What the cell takes
back of earlier requests is settled before (`cancel.py`); intents that a deleting step itself asks for are
opened all the same. A timer takes the place of those with its key.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.intents import answers, life
from cellule.kernel.decide.intents import cancel as cancelling
from cellule.kernel.decide.intents import settle as settling
from cellule.kernel.decide.intents.gate import Requester, Verdict, rule
from cellule.kernel.decide.requests import EffectRequest, Origin
from cellule.kernel.journal.codes import ALLOW, DENY, NEXT_BEAT, PARK, SAME, Settled
from cellule.kernel.journal.records import DecisionExtras, DecisionRecord, IntentExtras, IntentRecord
from cellule.kernel.limits import CELL_INTENTS_MAX, WAITERS_MAX
from cellule.kernel.need import Need
from cellule.kernel.state import intent_changes as applying
from cellule.kernel.state.cells import Slot
from cellule.kernel.state.intent_id import idempotency_hash, intent_digest, params_digest
from cellule.kernel.state.rows import TIMER, KnownKey, OpenIntent
from cellule.values.calendar import DUE_NS_MAX
from cellule.values.cbor import decode_trusted

_TAKEN_BACK: Final = (Settled.CANCELLED, Settled.ABANDONED)


def open_all(
    context: BeatContext, slot: Slot, origin: Origin, asked: Sequence[EffectRequest], opened: int
) -> Generator[Need, None, None]:
    """Write a step's requests down, decide them, and make it so; the first `opened` are open already."""
    if not opened and not origin.entry:
        opened = context.short.open(slot, origin, asked)
    for position in range(opened, len(asked)):
        yield from open_one(context, slot, origin, position, asked[position])


def open_one(
    context: BeatContext, slot: Slot, origin: Origin, position: int, asked: EffectRequest
) -> Generator[Need, None, None]:
    """Write one request down, decide it, and make it so."""
    ledger, base = context.ledger, slot.cells.base
    stored = yield from _stored(context, slot, asked)
    era = yield from context.eras.era(origin.era)
    # Timers with this key are replaced below, so they do not count against the limits of this one.
    old = yield from cancelling.timers_like(context, slot, origin, asked)
    running = sum(timer.status == TIMER for _, timer in old)
    key, count = origin.entry or slot.key, len(ledger.intents_of(slot)) - len(old)
    who = Requester(era.manifest.modules[base], key, count, running)
    ruling = yield from _ruling(context, base, who, asked, stored)
    extras: IntentExtras = {}
    if origin.entry:
        extras["entry"] = origin.entry
    if asked.key is not None:
        extras["key"] = asked.key
    if asked.slot is not None:
        extras["slot"] = asked.slot
    if asked.limits is not None:
        extras["limits"] = asked.limits
    if asked.effect.operation:
        extras["operation"] = True
    intent = record(context, slot, origin, position, asked, stored, extras)
    if not asked.effect.external and ruling.verdict == ALLOW:
        ruling.extras["due_ns"] = due_ns(asked.params, ledger.now_ns)
    yield from decide(context, slot, intent, asked, stored, ruling, origin.depth)
    if ruling.verdict in (ALLOW, PARK):
        yield from cancelling.replace(context, slot, origin, old)


def _stored(context: BeatContext, slot: Slot, asked: EffectRequest) -> Generator[Need, None, bytes]:
    """The params as records and the outbox hold them: sealed, if the cell can be erased.

    With an idempotency key equal params stay equal.
    """
    sealer, base, params = context.sealer, slot.cells.base, asked.params
    keys = yield from sealer.keys_of([(base, slot.key)])
    if asked.key is not None:
        return sealer.known_again(keys, ["intent", base, asked.effect.kind, asked.key], params)
    return sealer.value(keys, params)


def record(
    context: BeatContext,
    slot: Slot,
    origin: Origin,
    position: int,
    asked: EffectRequest,
    params: bytes,
    extras: IntentExtras,
) -> applying.Intent:
    """Write the Intent record, with the params as it holds them."""
    kind = asked.effect.kind
    digest = intent_digest(
        context.world, slot.cells.base, slot.key, origin.born, origin.height, position, kind, params
    )
    stored = context.hold_value(params)
    record = IntentRecord(
        origin.height, position, slot.cells.base, slot.key, origin.born, kind, stored, extras
    )
    height = context.writer.add(record)
    return applying.Intent(height, digest, slot.cells.base, slot.key, origin.born, kind, stored, extras)


def decide(
    context: BeatContext,
    slot: Slot,
    intent: applying.Intent,
    asked: EffectRequest,
    params: bytes,
    ruling: Verdict,
    depth: int,
) -> Generator[Need, None, None]:
    """Write the Decision record and make it so; a refused intent gets its receipt at once."""
    verdict, extras = ruling
    is_external = verdict == ALLOW and asked.effect.external
    answer = None
    if is_external and context.holds(intent.kind):
        answer = yield from answers.find(context, intent.base, intent.key, intent.kind, intent.params)
        # Held also where the fork answers it itself: it is allowed, and no adapter may see it.
        if answer is not None or not context.is_live:
            extras["held"] = True
    if is_external and context.is_at_limit(intent.base):
        extras["over"] = True
    said = extras
    if verdict == DENY and params is not asked.params:  # the reason may quote what is sealed
        keys = yield from context.sealer.keys_of([(intent.base, intent.key)])
        said = {**extras, "text": context.sealer.text(keys, extras["text"])}
    context.writer.add(DecisionRecord(intent.height, verdict, said))
    opened = yield from applying.decided(context.ledger, slot, intent, verdict, said)
    yield from life.opened(context, intent.height, opened, depth)
    if answer is not None:
        yield from answers.give(context, slot, intent.height, opened, answer, NEXT_BEAT, {"depth": depth + 1})
    elif is_external and "held" not in extras:
        context.dispatch(intent.height, opened, asked.effect, params)
    elif verdict == DENY:
        told = settling.Settlement(extras["code"], extras["text"])
        yield from settling.settle(
            context, slot, intent.height, opened, Settled.DENIED, None, told, NEXT_BEAT, {"depth": depth + 1}
        )
    elif verdict == SAME:
        yield from _answer_same(context, slot, intent.height, opened, depth)


def _ruling(
    context: BeatContext, base: str, who: Requester, asked: EffectRequest, params: bytes
) -> Generator[Need, None, Verdict]:
    """Decide a request: first whether it is allowed, then whether its idempotency key was used before."""
    book, now_ns = context.ledger.book, context.ledger.now_ns
    known = None
    if asked.key is not None:
        place = idempotency_hash(base, asked.effect.kind, asked.key)
        known = yield from book.remembered(place, now_ns)
        if known is not None and _was_taken_back(known, params):
            known = None
    is_one_more = known is None or (known.receipt is None and who.open_intents >= CELL_INTENTS_MAX)
    ruling = rule(book, context.eras.current, who, asked, now_ns, repeats=not is_one_more)
    if known is None or ruling.verdict == DENY:
        return ruling
    return _same(asked, params, known, ruling)


def _was_taken_back(known: KnownKey, params: bytes) -> bool:
    """Tell whether a key stands for this same request, which ended because nobody wanted it any more.

    Then it is made anew, and the outside sees the same key: what it may have done before is not done twice.
    """
    if known.receipt is None or known.waiters:
        return False
    return known.receipt.status in _TAKEN_BACK and known.params == params_digest([params])


def _same(asked: EffectRequest, params: bytes, known: KnownKey, ruling: Verdict) -> Verdict:
    """The ruling for an allowed request whose idempotency key was used before: nothing is asked again.

    An approval is not needed either: what a person has to approve is asking the outside.
    """
    extras = ruling.extras
    by: DecisionExtras = {}
    if "rule" in extras:
        by["rule"] = extras["rule"]
    if "grant" in extras:
        by["grant"] = extras["grant"]
    if known.params != params_digest([params]):
        text = f"the idempotency key {asked.key!r} stands for intent {known.height}, which has other params"
        return Verdict(DENY, {**by, "code": "kernel.key_reused", "text": text})
    if known.receipt is None and len(known.waiters) >= WAITERS_MAX:
        text = f"{len(known.waiters)} intents wait for the receipt of key {asked.key} already"
        return Verdict(DENY, {**by, "code": "kernel.waiters", "text": text})
    return Verdict(SAME, {**by, "same": known.height})


def _answer_same(
    context: BeatContext, slot: Slot, height: int, intent: OpenIntent, depth: int
) -> Generator[Need, None, None]:
    """If the first intent with this key has its receipt, this one gets the same."""
    place = idempotency_hash(intent.module, intent.kind, intent.extras["key"])
    known = yield from context.ledger.book.remembered(place, context.ledger.now_ns)
    if known is not None and known.receipt is not None:
        extra = {"depth": depth + 1}
        yield from settling.repeat(context, slot, height, intent, known.receipt, NEXT_BEAT, extra)


def due_ns(params: bytes, now_ns: int) -> int:
    """When a timer with these params is due; a time that has passed is now."""
    value: Any = decode_trusted(params)
    wanted_ns: int = value["at_ns"] if value.get("at_ns") is not None else now_ns + value["after_ns"]
    return max(now_ns, min(wanted_ns, DUE_NS_MAX))
