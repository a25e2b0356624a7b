"""The section `schedules`: events that the kernel sends by the calendar, or at an interval.

A schedule's value is canonical bytes in the normal form; a document may give the value itself. That the event
has a subscriber and a key is checked when the whole manifest is known. When a schedule is due next is the
business of the beat, which records it.
"""

from __future__ import annotations

from typing import Any, Final

from cellule.errors import CelluleError
from cellule.kernel.manifest import fields as f
from cellule.kernel.manifest.limits import BACKFILL_DEFAULT, BACKFILL_MAX
from cellule.kernel.manifest.model import Manifest, Schedule, plain
from cellule.kernel.manifest.problems import Problems, below
from cellule.kernel.manifest.routes import Router
from cellule.kernel.manifest.schemas import is_receipt
from cellule.values.calendar import compile_schedule, shortest_gap_ns
from cellule.values.schema import types as t
from cellule.values.schema.codec import wire_codec
from cellule.values.schema.fault import shown

_UTC: Final = "UTC"


def load_schedules(scope: f.Scope, path: str, section: object) -> dict[str, Schedule]:
    """All schedules by name, sorted."""
    schedules: dict[str, Schedule] = {}
    for name, place, body in f.named_of(scope.problems, path, section):
        if f.text_of(scope.problems, place, name) is None:
            continue
        fields, found = f.read_entry(_SCHEDULE, scope, place, body, required=("event",))
        _check_when(fields, found)
        if found["event"] is not None:
            value = _value(fields, found["event"])
            schedules[name] = Schedule(
                **{**found, "name": name, "value": value, "zone": found["zone"] or _UTC}
            )
    return dict(sorted(schedules.items()))


def check_routes(problems: Problems, path: str, manifest: Manifest) -> None:
    """Every schedule's event has to find its cells."""
    if not manifest.schedules:
        return
    router = Router(manifest)
    for name, schedule in manifest.schedules.items():
        try:
            router.route(schedule.event, schedule.value, schedule.key)
        except CelluleError as error:
            problems.add(below(path, name), "schedule_route", str(error))


def normal_schedule(each: Schedule) -> dict[str, Any]:
    """The entry of the normal form."""
    unsaid = () if each.cron is not None else ("zone",)
    return plain(each, "name", *unsaid, *(() if each.catch_up == "backfill" else ("limit",)))


def _event(fields: f.Fields, name: str) -> str | None:
    event = f.schema(fields, name)
    if event is None or not (event.startswith("sys/") or is_receipt(event)):
        return event
    fields.note(name, "reserved", f"{event} is sent by Cellule alone", "Schedule an event of your own.")
    return None


def _key(fields: f.Fields, name: str) -> bytes | None:
    key = fields.get(name)
    if key is None or isinstance(key, bytes):
        return key
    fields.note(name, "type", f"the bytes of a key are needed, not {shown(key)}")
    return None


def _limit(fields: f.Fields, name: str) -> int:
    """How many missed times are made up for."""
    catch_up = fields.get("catch_up")
    if catch_up == "backfill":
        found: int = f.whole(1, BACKFILL_MAX, BACKFILL_DEFAULT)(fields, name)
        return found
    fields.without(name, "it belongs to the catch-up `backfill`")
    return 0 if catch_up == "skip" else 1


_SCHEDULE: Final[f.Table] = {
    "cron": f.text, "zone": f.text, "every_ns": f.positive, "start_ns": f.positive, "event": _event,
    "value": f.raw, "key": _key, "catch_up": f.choice("skip", "once", "backfill", default="once"),
    "limit": _limit, "overlap": f.choice("allow", "skip", "buffer"), "jitter_ns": f.positive,
}  # fmt: skip


def _check_when(fields: f.Fields, found: dict[str, Any]) -> None:
    """A schedule has `cron`, with or without `zone`, or `every_ns`, with or without `start_ns`."""
    if found["cron"] is not None:
        fields.without("every_ns", "a schedule has `cron` or `every_ns`, not both")
        fields.without("start_ns", "it belongs to `every_ns`")
        try:
            cron = compile_schedule(found["cron"], found["zone"] or _UTC)
        except CelluleError as error:
            fields.note("cron", "schedule_cron", str(error))
            return
        if found["jitter_ns"] is not None:
            _check_jitter(fields, found["jitter_ns"], shortest_gap_ns(cron))
        return
    fields.without("zone", "it belongs to `cron`")
    if found["jitter_ns"] is not None:
        _check_jitter(fields, found["jitter_ns"], found["every_ns"] or 0)
    if fields.is_map and fields.get("every_ns") is None and fields.get("cron") is None:
        problem = "the schedule does not say when: `cron` or `every_ns` is missing"
        fields.problems.add(fields.path, "missing_field", problem)


def _check_jitter(fields: f.Fields, jitter_ns: int, gap_ns: int | None) -> None:
    """A time that is put off behind the next one would take its place."""
    if gap_ns is not None and gap_ns <= jitter_ns:
        fields.note(
            "jitter_ns", "schedule_jitter", "the jitter is as long as the interval, or longer",
            "Make it shorter, so that no time passes the next.",
        )  # fmt: skip


def _value(fields: f.Fields, event: str) -> bytes:
    """The canonical bytes of the event; where nothing is given, those of an empty record."""
    codec = wire_codec(t.Ref(event), fields.scope.schemas)
    value = fields.get("value")
    try:
        if isinstance(value, bytes):
            codec.decode(value)
            return value
        return codec.encode({} if value is None else value)
    except CelluleError as error:
        fields.note("value", "schedule_value", str(error))
        return b""
