"""Impulses are queued: for the next beat or a later one, each with its Signal record.

    depth   how many emits an impulse is away from the outside; one for a later beat than the next begins anew

A world takes so many impulses for a beat, and so many together. What is emitted beyond that, or by a cascade
that has lived too long, is refused with a record, and a warning signal tells of it; retries, continuations
and warnings are bounded by what led to them, and are always taken.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from cellule.errors import Rejected
from cellule.kernel.decide.argument_checks import check_value
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.decide.refusals import earlier, refused
from cellule.kernel.decide.requests import StepSignal
from cellule.kernel.heartbeat.impulses import DIAGNOSTICS, check_impulse, place_text
from cellule.kernel.items import Admitted, Outcome, SignalItem, record_id
from cellule.kernel.journal.heartbeat_records import (
    SignalExtras,
    SignalRecord,
)
from cellule.kernel.journal.records import (
    RefusedRecord,
)
from cellule.kernel.limits import DEPTH_MAX, EVENT_BYTES_MAX, IMPULSES_PER_BEAT_MAX, IMPULSES_QUEUED_MAX
from cellule.kernel.manifest.system import SIGNAL
from cellule.kernel.need import Need
from cellule.kernel.state.cells import Message
from cellule.kernel.state.dedupe import dedupe_key
from cellule.kernel.state.heartbeat_rows import WARNING, Impulse, impulse_check
from cellule.kernel.state.ledger import Target
from cellule.values.cbor import decode_trusted, encode
from cellule.values.cid import cid_of
from cellule.values.link import Link

WARN = f"{DIAGNOSTICS}/warn"
ERROR = f"{DIAGNOSTICS}/error"


def queue(
    context: BeatContext, cause: int, signal: str | None, target: str | None, payload: Any = None, *,
    kind: str = "", beat: int | None = None, depth: int = 0, retries: Sequence[Sequence[int]] = (),
    id: str | bytes | None = None, dedupe: bool = False,
) -> Generator[Need, None, int]:  # fmt: skip
    """Queue an impulse, whose paths were checked; returns the height of its record.

    `payload` is a held value (`context.hold_value`), or the link of a block that exists.
    """
    ledger = context.ledger
    beat = ledger.beat + 1 if beat is None else beat
    extras: SignalExtras = {}
    if payload is not None:
        extras["payload"] = payload
        context.writer.linked = context.writer.linked or isinstance(payload, Link) or len(payload) > 1
    if kind:
        extras["kind"] = kind
    if retries:
        extras["retries"] = [list(each) for each in retries]
    if id is not None:
        extras["id"] = id
    if dedupe:
        extras["dedupe"] = True
    height = context.writer.add(SignalRecord(cause, signal, target, beat, depth, extras))
    impulse = Impulse(signal, target, payload, kind, depth, extras.get("retries", []))
    yield from ledger.open_heartbeat().queue(beat, height, impulse)
    return height


def warn(
    context: BeatContext, cause: int, about: dict[str, Any], depth: int, signal: str = WARN
) -> Generator[Need, None, None]:
    """Queue a warning signal (or another diagnostic) that tells what happened."""
    if depth <= DEPTH_MAX:
        payload = context.hold_value(encode(about))
        yield from queue(context, cause, signal, None, payload, kind=WARNING, depth=depth)


def emit(
    context: BeatContext, cause: int, signal: str | None, target: str | None, payload: bytes | None,
    beat: int | None, depth: int, depth_max: int = DEPTH_MAX,
) -> Generator[Need, None, None]:  # fmt: skip
    """Queue what user code emitted, or refuse it with a record and a warning."""
    is_later = beat is not None and beat > context.ledger.beat + 1
    depth = 0 if is_later else depth
    try:
        if depth > depth_max:
            raise Rejected(
                "heartbeat.cascade_stopped",
                "{impulse} is {depth} beats away from what began it; at most {most}",
                impulse=place_text(signal, target), depth=depth, most=depth_max,
                hint="An enzyme that emits what leads back to itself must stop by itself.",
            )  # fmt: skip
        yield from check_room(context, beat)
    except Rejected as error:
        record = RefusedRecord(cause, None, SIGNAL, error.code, str(error))
        at = context.writer.add(record)
        about = {"code": error.code, "signal": signal, "target": target, "text": str(error)}
        yield from warn(context, at, about, depth)
        return
    held = None if payload is None else context.hold_value(payload)
    yield from queue(context, cause, signal, target, held, beat=beat, depth=depth)


def tell(context: BeatContext, sent: StepSignal) -> Generator[Need, None, None]:
    """Queue the signal that a step emitted, or the one that tells of its failure."""
    given: Any = decode_trusted(sent.value)
    if sent.is_failure:
        yield from warn(context, sent.height, given, sent.depth, ERROR)
        return
    signal, target, beat = check_impulse(
        given.get("signal"), given.get("target"), given.get("beat"), context.ledger.beat
    )
    payload = None if given.get("payload") is None else encode(given["payload"])
    yield from emit(context, sent.height, signal, target, payload, beat, sent.depth)


def tell_dropped(
    context: BeatContext, letters: Sequence[tuple[Target, Message]]
) -> Generator[Need, None, None]:
    """Tell of emitted events that are dead letters because queues are full, once for each cell."""
    if not letters or context.ledger.heartbeat is None:
        return
    by_cell: dict[Target, list[Message]] = {}
    for target, message in letters:
        by_cell.setdefault(target, []).append(message)
    for (base, key), messages in by_cell.items():
        if context.writer.is_full():
            return
        newest, waiting = messages[-1], len(context.ledger.modules[base].slots[key].queue)
        text = f"{len(messages)} events for it are dead letters: {waiting} messages wait at it"
        about: dict[str, Any] = {
            "code": "kernel.queue_full", "module": base, "key": key, "text": text, "height": newest.height,
        }  # fmt: skip
        yield from warn(context, newest.height, about, newest.depth + 1, ERROR)


def check_room(context: BeatContext, beat: int | None) -> Generator[Need, None, None]:
    """Refuse an impulse for a beat, or a world, that has as many as it takes."""
    heartbeat = context.ledger.heartbeat
    if heartbeat is None:
        return
    beat = context.ledger.beat + 1 if beat is None else beat
    count, _ = yield from heartbeat.count(beat)
    if count >= IMPULSES_PER_BEAT_MAX or heartbeat.queued >= IMPULSES_QUEUED_MAX:
        of_beat = count >= IMPULSES_PER_BEAT_MAX
        raise Rejected(
            "heartbeat.impulses_full", "{count} impulses wait for {what} already",
            count=count if of_beat else heartbeat.queued, what=f"beat {beat}" if of_beat else "later beats",
            hint="Send it for another beat, or later.",
        )  # fmt: skip


def admit(context: BeatContext, item: SignalItem) -> Generator[Need, None, Outcome]:
    """Queue an impulse from outside, once for each id that is remembered."""
    ledger = context.ledger
    given = record_id(item.id)
    try:
        signal, target, beat = check_impulse(item.signal, item.target, item.beat, ledger.beat)
        if item.payload is not None:
            _check_payload(item.payload, signal or target)
        key = dedupe_key(item.id) if item.explicit and item.id is not None else None
        check = impulse_check(signal, target, None if item.payload is None else cid_of(item.payload).digest)
        if key is not None:
            before = earlier((yield from ledger.find_id(key)), check, item.id, "signal")
            if before is not None:
                return before
        yield from check_room(context, beat)
    except Rejected as error:
        return refused(context.writer, error, given, SIGNAL, durable=item.durable)
    payload = None if item.payload is None else context.hold_value(item.payload)
    height = yield from queue(
        context, 0, signal, target, payload, beat=beat, id=given, dedupe=key is not None
    )
    if key is not None:
        ledger.remember_id(key, height, check)
    return Admitted(height)


def _check_payload(payload: bytes, what: str | None) -> None:
    if len(payload) > EVENT_BYTES_MAX:
        raise Rejected(
            "kernel.event_size", "the payload of {schema} has {size} bytes; at most {most}",
            schema=what, size=len(payload), most=EVENT_BYTES_MAX,
            hint="Put large data into a blob and send its link.",
        )  # fmt: skip
    check_value(payload, "payload")
