"""An effect whose kind says `operation` shows its life as an operation, at `/effects/<id of the intent>`.

    opened                          /op/begin, with the cell and the params' kind as payload
    parked; held for an outsider    /op/tell ist:wait
    approved                        /op/tell ist:run
    settled                         /op/end: sts:ok, sts:cnl where it was cancelled, else sts:fail

The Intent record says `operation`, too: its receipt ends the operation under whichever manifest it comes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from cellule.kernel.decide import impulses
from cellule.kernel.decide.beat_context import BeatContext
from cellule.kernel.heartbeat import shown_operations as shown
from cellule.kernel.heartbeat.cell_paths import cell_path
from cellule.kernel.journal.codes import Settled
from cellule.kernel.limits import DEPTH_MAX
from cellule.kernel.need import Need
from cellule.kernel.state.intent_id import intent_text
from cellule.kernel.state.rows import PARKED, OpenIntent
from cellule.values.cbor import encode

PLACE = "/effects"
_STATUS = {Settled.OK: shown.OK, Settled.CANCELLED: shown.CANCELLED}


def opened(context: BeatContext, height: int, intent: OpenIntent, depth: int) -> Generator[Need, None, None]:
    """It was asked for; where it needs an approval it waits for that."""
    if not _is_shown(intent):
        return
    about: dict[str, Any] = {"kind": intent.kind, "height": height}
    if intent.born:
        about["cell"] = cell_path(intent.module, intent.key)
    verb = f"effect/{intent.kind}"
    yield from _queue(context, height, shown.begin(_path(intent), verb, about), depth)
    if intent.status == PARKED:
        yield from waits(context, height, intent, "it needs an approval")


def waits(context: BeatContext, cause: int, intent: OpenIntent, why: str) -> Generator[Need, None, None]:
    """It waits for somebody."""
    if _is_shown(intent):
        yield from _queue(context, cause, shown.tell(_path(intent), shown.WAIT, why), 0)


def goes_on(context: BeatContext, cause: int, intent: OpenIntent) -> Generator[Need, None, None]:
    """It waits no longer."""
    if _is_shown(intent):
        yield from _queue(context, cause, shown.tell(_path(intent), shown.RUN), 0)


def settled(
    context: BeatContext, cause: int, intent: OpenIntent, status: Settled, text: str, extra: Mapping[str, Any]
) -> Generator[Need, None, None]:
    """It has its receipt; `text` says why it did not end well."""
    if not _is_shown(intent):
        return
    attempts = extra.get("attempts", 0)
    summary = text or (f"attempts: {attempts}" if attempts else None)
    ended = shown.end(_path(intent), _STATUS.get(status, shown.FAIL), summary)
    yield from _queue(context, cause, ended, extra.get("depth", 0))


def _is_shown(intent: OpenIntent) -> bool:
    return bool(intent.extras.get("operation"))


def _path(intent: OpenIntent) -> str:
    return f"{PLACE}/{intent_text(intent.id)}"


def _queue(
    context: BeatContext, cause: int, given: Mapping[str, Any], depth: int
) -> Generator[Need, None, None]:
    payload = context.hold_value(encode(given["payload"]))
    yield from impulses.queue(context, cause, given["signal"], None, payload, depth=min(depth, DEPTH_MAX))
