"""The real implementation of each section, as a function from a case to what came out."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any, Final

from cellule.heartbeat.mailboxes import expiry, message_ids, ttl
from cellule.heartbeat.mailboxes.message_ids import Taken
from cellule.heartbeat.mailboxes.ttl import TtlContext, TtlSettings, TtlSpec
from cellule.kernel.heartbeat.spacing import Spacing
from cellule.kernel.items import Item
from cellule.kernel.need import Need
from cellule.kernel.state.ledger import Ledger
from cellule.kernel.state.wall_clock import WallClock
from cellule.testing.vectors.agenda import agenda
from cellule.testing.vectors.cases import (
    ClockAction,
    ClockCase,
    Context,
    MessageAction,
    MessageCase,
    RetentionCase,
    Settings,
    Spec,
    TtlCase,
)
from cellule.testing.vectors.ops import ops
from cellule.testing.vectors.report import Perform
from cellule.testing.vectors.worlds import CaseWorld, control, is_done, no_code
from cellule.values.cbor import encode
from cellule.values.cid import cid_of

_DIGEST_LABEL: Final = re.compile(r"digest\(([^)]*)\)")


def wallclock(case: ClockCase) -> list[Any]:
    """Tell beats of a world their times, and read the intervals: each line is a beat."""
    world = CaseWorld((), no_code)
    world.step(())
    return [_clock(action, world) for action in case.script]


def _clock(action: ClockAction, world: CaseWorld) -> Any:
    match action.do:
        case "publish":
            return _is_taken(world, control("heartbeat.publish", beat=action.beat, ns=action.ns))
        case "lookup":
            return world.ask(lambda ledger: _clock_of(ledger).find(action.beat))
        case "set_window":
            ok = _is_taken(world, control("heartbeat.window", window=action.window))
            return {"ok": ok, "window": world.ask(_spacing).window}
        case _:
            return [list(each) for each in world.ask(_spacing).intervals]


def _is_taken(world: CaseWorld, item: Item) -> bool:
    (outcome,) = world.step([item]).outcomes
    return is_done(outcome)


def _clock_of(ledger: Ledger) -> WallClock:
    assert ledger.heartbeat is not None
    return ledger.heartbeat.wall_clock


def _spacing(ledger: Ledger) -> Generator[Need, None, Spacing]:
    yield from ()
    return _clock_of(ledger).spacing


def ttl_of(case: TtlCase) -> list[Any]:
    """Resolve one TTL."""
    spacing, told = Spacing(), dict(case.published)
    for beat, ns in case.published:
        spacing.add(beat, ns)
    found = ttl.resolve(
        [_spec(case.message), _spec(case.mailbox), _spec(case.topology)], _context(case.context),
        _settings(case.settings), told.get, [interval for _, interval in spacing.intervals],
    )  # fmt: skip
    if found is None:
        return [{"ok": False}]
    return [{"ok": True, **found._asdict()}]


def _spec(spec: Spec | None) -> TtlSpec | None:
    return None if spec is None else TtlSpec(spec.beats, spec.unix_ns, spec.is_forever)


def _context(given: Context) -> TtlContext:
    return TtlContext(given.issued_beat, given.issued_unix_ns, given.current_beat, given.current_unix_ns)


def _settings(given: Settings) -> TtlSettings:
    return TtlSettings(given.wallclock_disabled, given.beat_lookahead, given.spacing_samples)


def message_id(case: MessageCase) -> list[Any]:
    """Select ids in one mailbox."""
    labels = {
        _label_id(action.envelope): action.envelope for action in case.script if action.envelope is not None
    }
    taken: dict[str, Taken] = {}
    counter = 1
    found: list[Any] = []
    for action in case.script:
        selected = message_ids.select(_explicit(action), _digest(action), taken.get, counter)
        counter = selected.counter
        if selected.id is None:
            found.append({"ok": False, "collision": selected.collision})
            continue
        if action.store and selected.mode != "reused":
            taken[selected.id] = Taken(_digest(action))
        shown = selected.id
        for stem, label in labels.items():
            shown = shown.replace(stem, f"digest({label})")
        result: dict[str, Any] = selected._asdict()
        found.append({**result, "ok": True, "id": shown})
    return found


def _explicit(action: MessageAction) -> str | None:
    if action.explicit is None:
        return None
    return _DIGEST_LABEL.sub(lambda found: _label_id(found[1]), action.explicit)


def _digest(action: MessageAction) -> bytes | None:
    return _label_digest(action.envelope) if action.envelope is not None and action.sealed else None


def _label_digest(label: str) -> bytes:
    return cid_of(encode({"body": label})).digest


def _label_id(label: str) -> str:
    return f"msg-{_label_digest(label)[: message_ids.DIGEST_BYTES].hex()}"


def retention(case: RetentionCase) -> list[Any]:
    """Record a message with some deadlines, and plan at some moments."""
    beats: dict[int, set[str]] = {}
    wallclock: dict[int, set[str]] = {}
    for each in case.records:
        context = TtlContext(each.issued_beat, each.issued_unix_ns)
        found = ttl.resolve([_spec(each), None, None], context, TtlSettings(), dict[int, int]().get, [])
        if found is not None:
            expiry.record(beats, wallclock, case.message, found)
    plans: list[Any] = []
    for question in case.plans:
        due = expiry.plan(beats, wallclock, question.current_beat, question.current_unix_ns)
        plans.append(due._asdict())
    return [*plans, {"beats": sorted(beats), "wallclock": sorted(wallclock)}]


REAL: Final[dict[str, Perform]] = {
    "agenda": agenda,
    "ops": ops,
    "wallclock": wallclock,
    "ttl": ttl_of,
    "message_ids": message_id,
    "retention": retention,
}
