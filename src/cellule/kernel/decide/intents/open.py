"""Requests of a step become intents: an Intent record, its Decision and, where it is refused, its receipt.

What is wrong with the request itself (a kind that is not declared, params that do not fit, a slot the
module does not have) fails the step and never comes here. A cell that is deleted takes its open intents
with it: each gets an `abandoned` receipt that nobody is told. Intents that the deleting step itself asks
for are opened all the same.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from cellule.errors import CelluleError, Corrupted
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.eras import Compiled
from cellule.kernel.decide.intents import settle as settling
from cellule.kernel.decide.intents.gate import EffectRequest, Requester, Verdict, rule
from cellule.kernel.fast.intents import open_plain
from cellule.kernel.journal.codes import ALLOW, DENY, NEXT_BEAT, SAME, Settled
from cellule.kernel.journal.records import DecisionRecord, IntentExtras, IntentRecord
from cellule.kernel.limits import CELL_INTENTS_MAX, OUTPUT_BYTES_MAX, STEP_EFFECTS_MAX, WAITERS_MAX
from cellule.kernel.manifest.model import TIMER_SET, Module
from cellule.kernel.need import Need
from cellule.kernel.program import CheckedRequest, StepFault
from cellule.kernel.state import intent_book as books
from cellule.kernel.state import intent_changes as applying
from cellule.kernel.state.cells import Slot
from cellule.kernel.state.intent_id import intent_digest
from cellule.values.cbor import decode_trusted

_new = tuple.__new__  # a NamedTuple without its Python-level constructor
KEY_CHARS_MAX = 500  # of an idempotency key


class Step(NamedTuple):
    """The step that asks: its record's height, the cell's incarnation, how deep in a cascade, its era."""

    height: int
    born: int
    depth: int
    era: int


def check(era: Compiled, module: Module, effects: Sequence[Any]) -> list[EffectRequest]:
    """The requests of a step; `StepFault` where one is not declared or does not fit."""
    asked = _proven(era, module, effects)
    if asked is not None:
        return asked
    if module.kind == "pure":
        raise StepFault("kernel.effect_pure", f"{module.name} is pure and may ask for no effect")
    if len(effects) > STEP_EFFECTS_MAX:
        text = f"the step asks for {len(effects)} effects; at most {STEP_EFFECTS_MAX}"
        raise StepFault("kernel.effects_count", text)
    for at, effect in enumerate(effects):
        if not _is_request(effect):
            raise StepFault(
                "kernel.effect_shape", f"effects[{at}] is not (kind, params, slot, key): {effect!r}"
            )
    return [_checked(era, module, at, effect) for at, effect in enumerate(effects)]


def _proven(era: Compiled, module: Module, effects: Sequence[Any]) -> list[EffectRequest] | None:
    """The requests of a step if all are proven, declared and for adapters; None where one takes a look."""
    kinds, emitted, asked = era.manifest.effects, module.effects_emitted, []
    for request in effects:
        if type(request) is not CheckedRequest:
            return None
        kind, params, slot, key = request
        if kind not in emitted or kind == TIMER_SET or key is not None or len(params) > OUTPUT_BYTES_MAX:
            return None
        effect = kinds.get(kind)
        if effect is None:
            return None
        asked.append(_new(EffectRequest, (effect, params, slot, None)))
    return asked if len(asked) <= STEP_EFFECTS_MAX and module.kind != "pure" else None


def _is_request(effect: Any) -> bool:
    if not isinstance(effect, tuple | list) or len(effect) != 4:
        return False
    kind, params, slot, key = effect
    return (
        isinstance(kind, str) and isinstance(params, bytes)
        and (slot is None or isinstance(slot, str)) and (key is None or isinstance(key, str))
    )  # fmt: skip


def _checked(era: Compiled, module: Module, at: int, request: Any) -> EffectRequest:
    kind, params, slot, key = request
    effect = era.manifest.effects.get(kind)
    if effect is None or kind not in module.effects_emitted:
        known = ", ".join(module.effects_emitted) or "none"
        text = f"the step asks for {kind}, which {module.name} does not declare in effects_emitted ({known})"
        raise StepFault("kernel.effect_undeclared", text)
    if len(params) > OUTPUT_BYTES_MAX:
        text = f"the params of effects[{at}] ({kind}) have {len(params)} bytes; at most {OUTPUT_BYTES_MAX}"
        raise StepFault("kernel.effect_size", text)
    if key is not None and not 1 <= len(key) <= KEY_CHARS_MAX:
        text = (
            f"the idempotency key of effects[{at}] ({kind}) has {len(key)} characters; 1 to {KEY_CHARS_MAX}"
        )
        raise StepFault("kernel.effect_key", text)
    if key is not None and not _is_text(key):
        text = f"the idempotency key of effects[{at}] ({kind}) cannot be written as UTF-8: {key!r}"
        raise StepFault("kernel.effect_key", text)
    if type(request) is CheckedRequest and effect.external:
        return EffectRequest(effect, params, slot, key)
    try:
        value: Any = era.fits(effect.params).decode(params)
    except CelluleError as error:
        raise StepFault("kernel.effect_params", f"effects[{at}] ({kind}): {error}") from error
    if not effect.external and (value.get("after_ns") is None) == (value.get("at_ns") is None):
        raise StepFault("kernel.effect_params", f"effects[{at}] ({kind}): give after_ns or at_ns")
    return EffectRequest(effect, params, slot, key)


def _is_text(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def open_all(
    desk: BeatContext, slot: Slot, step: Step, asked: Sequence[EffectRequest], opened: int = 0
) -> Generator[Need, None, None]:
    """Write a step's requests down, decide them, and make it so; the first `opened` are open already."""
    if not opened:
        opened = open_plain(desk, slot, step.height, step.born, step.era, asked)
    for position in range(opened, len(asked)):
        yield from _open(desk, slot, step, position, asked[position])


def _open(
    desk: BeatContext, slot: Slot, step: Step, position: int, asked: EffectRequest
) -> Generator[Need, None, None]:
    ledger, base = desk.ledger, slot.cells.base
    era = yield from desk.eras.era(step.era)
    who = Requester(era.manifest.modules[base], slot.key, len(ledger.intents_of(slot)))
    ruling = yield from _same(desk, who, asked)
    if ruling is None:
        ruling = rule(ledger.book, desk.eras.current, who, asked, ledger.now_ns)
    extras: IntentExtras = {}
    if asked.key is not None:
        extras["key"] = asked.key
    if asked.slot is not None:
        extras["slot"] = asked.slot
    intent = record(desk, slot, step, position, asked, extras)
    if not asked.effect.external and ruling.verdict == ALLOW:
        ruling.extras["due_ns"] = due_ns(asked.params, ledger.now_ns)
    yield from decide(desk, slot, intent, asked, ruling, step.depth)


def record(
    desk: BeatContext, slot: Slot, step: Step, position: int, asked: EffectRequest, extras: IntentExtras
) -> applying.Intent:
    """Write the Intent record."""
    kind = asked.effect.kind
    digest = intent_digest(
        desk.world, slot.cells.base, slot.key, step.born, step.height, position, kind, asked.params
    )
    stored = desk.hold_value(asked.params)
    record = IntentRecord(step.height, position, slot.cells.base, slot.key, step.born, kind, stored, extras)
    height = desk.writer.add(record, len(asked.params))
    return applying.Intent(height, digest, slot.cells.base, slot.key, step.born, kind, stored, extras)


def decide(
    desk: BeatContext, slot: Slot, intent: applying.Intent, asked: EffectRequest, ruling: Verdict, depth: int
) -> Generator[Need, None, None]:
    """Write the Decision record and make it so; a refused intent gets its receipt at once."""
    verdict, extras = ruling
    is_dispatched = verdict == ALLOW and asked.effect.external
    if is_dispatched and desk.is_at_limit(intent.base):
        extras["over"] = True
    desk.writer.add(DecisionRecord(intent.height, verdict, extras), 0)
    entry = yield from applying.decided(desk.ledger, slot, intent, verdict, extras)
    if is_dispatched:
        desk.dispatch(intent.height, entry, asked.effect, asked.params)
    elif verdict == DENY:
        told = settling.Settlement(extras["code"], extras["text"])
        yield from settling.settle(
            desk, slot, intent.height, entry, Settled.DENIED, None, told, NEXT_BEAT, {"depth": depth + 1}
        )
    elif verdict == SAME:
        yield from _answer_same(desk, slot, intent, entry, depth)


def _same(desk: BeatContext, who: Requester, asked: EffectRequest) -> Generator[Need, None, Verdict | None]:
    """The ruling for a request whose idempotency key was used before; None for a new one, or one too many."""
    if asked.key is None:
        return None
    known = yield from desk.ledger.book.remembered(asked.effect.kind, asked.key, desk.ledger.now_ns)
    if known is None or (known[2] is None and who.open_intents >= CELL_INTENTS_MAX):
        return None
    if known[2] is None and len(known[3]) >= WAITERS_MAX:
        text = f"{len(known[3])} intents wait for the receipt of key {asked.key} already"
        return Verdict(DENY, {"code": "kernel.waiters", "text": text})
    return Verdict(SAME, {"same": known[0]})


def _answer_same(
    desk: BeatContext, slot: Slot, intent: applying.Intent, entry: list[Any], depth: int
) -> Generator[Need, None, None]:
    """If the first intent with this key has its receipt, this one gets the same."""
    known = yield from desk.ledger.book.remembered(intent.kind, entry[6]["key"], desk.ledger.now_ns)
    if known is not None and known[2] is not None:
        extra = {"depth": depth + 1}
        yield from settling.repeat(desk, slot, intent.height, entry, known[2], NEXT_BEAT, extra)


def abandon(desk: BeatContext, slot: Slot, step: Step, heights: Sequence[int]) -> Generator[Need, None, None]:
    """The cell is gone: what it waited for is settled, and only those are told that waited for the same."""
    entries: list[tuple[int, list[Any]]] = []
    for height in heights:
        entry = yield from desk.ledger.book.find(height)
        if entry is None:
            raise Corrupted(
                "kernel.intent_missing", "cell {module} {key} waits for intent {height}, which is not open",
                module=slot.cells.base, key=slot.key, height=height,
            )  # fmt: skip
        entries.append((height, entry))
    entries.sort(key=lambda row: row[1][5] != books.WAITING)  # one may wait for another of the same cell
    told = settling.Settlement("kernel.abandoned", "the cell that asked was deleted")
    for height, entry in entries:
        if entry[5] == books.OPEN:
            desk.writer.close(entry[0], height)
        yield from settling.settle(
            desk, slot, height, entry, Settled.ABANDONED, None, told, NEXT_BEAT, {"depth": step.depth + 1}
        )


def due_ns(params: bytes, now_ns: int) -> int:
    """When a timer with these params is due; a time that has passed is now."""
    value: Any = decode_trusted(params)
    wanted_ns: int = value["at_ns"] if value.get("at_ns") is not None else now_ns + value["after_ns"]
    return max(now_ns, min(wanted_ns, _LATEST_NS))


_LATEST_NS = (1 << 63) - 1
