"""The section `schedules`: events that the kernel sends by the calendar, or at an interval.

A schedule's value is canonical bytes in the normal form; a document may give the value itself. That the event
has a subscriber and a key is checked when the whole manifest is known. When a schedule is due next is the
business of the beat, which records it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cellule.errors import CelluleError
from cellule.kernel.manifest.fields import Fields, named_of, text_of
from cellule.kernel.manifest.limits import BACKFILL_DEFAULT, BACKFILL_MAX
from cellule.kernel.manifest.model import CatchUp, Manifest, Overlap, Schedule
from cellule.kernel.manifest.modules import is_known_schema
from cellule.kernel.manifest.problems import Problems, below
from cellule.kernel.manifest.routes import Router
from cellule.kernel.manifest.schemas import is_receipt
from cellule.values.calendar import compile_schedule
from cellule.values.schema import types as t
from cellule.values.schema.fault import shown
from cellule.values.schema.registry import Schemas
from cellule.values.schema.wire import wire_codec

_FIELDS: Final = (
    "cron", "zone", "every_ns", "start_ns", "event", "value", "key", "catch_up", "limit", "overlap",
)  # fmt: skip
_CATCH_UPS: Final[tuple[CatchUp, ...]] = ("skip", "once", "backfill")
_OVERLAPS: Final[tuple[Overlap, ...]] = ("allow", "skip")
_MADE_UP: Final[dict[str, int]] = {"skip": 0, "once": 1}
_ZONE: Final = "UTC"


def load_schedules(problems: Problems, path: str, section: object, schemas: Schemas) -> dict[str, Schedule]:
    """All schedules by name, sorted."""
    schedules: dict[str, Schedule] = {}
    for name, place, body in named_of(problems, path, section):
        if text_of(problems, place, name) is None:
            continue
        schedule = _ScheduleReader(problems, Fields(problems, place, body, _FIELDS), schemas).schedule(name)
        if schedule is not None:
            schedules[name] = schedule
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


def normal_schedules(schedules: Mapping[str, Schedule]) -> dict[str, Any]:
    """The section of the normal form."""
    return {name: _normal(each) for name, each in schedules.items()}


def _normal(each: Schedule) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "cron": each.cron, "zone": None if each.cron is None else each.zone, "every_ns": each.every_ns,
        "start_ns": each.start_ns, "event": each.event, "value": each.value, "key": each.key,
        "catch_up": each.catch_up, "limit": each.limit if each.catch_up == "backfill" else None,
        "overlap": each.overlap,
    }  # fmt: skip
    return {name: part for name, part in parts.items() if part is not None}


class _ScheduleReader:
    """Reads one entry."""

    def __init__(self, problems: Problems, fields: Fields, schemas: Schemas) -> None:
        self.problems = problems
        self.fields = fields
        self.schemas = schemas

    def schedule(self, name: str) -> Schedule | None:
        fields = self.fields
        fields.required("event")
        cron, zone = self._cron()
        every_ns, start_ns = self._every(cron)
        event = self._event()
        key = fields.get("key")
        if key is not None and not isinstance(key, bytes):
            self.problems.add(fields.at("key"), "type", f"the bytes of a key are needed, not {shown(key)}")
        catch_up = fields.choice("catch_up", _CATCH_UPS, "once")
        limit, overlap = self._limit(catch_up), fields.choice("overlap", _OVERLAPS, "allow")
        if event is None:
            return None
        value = self._value(event)
        return Schedule(
            name, cron, zone, every_ns, start_ns, event, value, key if isinstance(key, bytes) else None,
            catch_up, limit, overlap,
        )  # fmt: skip

    def _cron(self) -> tuple[str | None, str]:
        cron, zone = self.fields.text("cron"), self.fields.text("zone")
        if cron is None:
            self._without("zone", "it belongs to `cron`")
            return None, _ZONE
        try:
            compile_schedule(cron, zone or _ZONE)
        except CelluleError as error:
            self.problems.add(self.fields.at("cron"), "schedule_cron", str(error))
        return cron, zone or _ZONE

    def _every(self, cron: str | None) -> tuple[int | None, int | None]:
        fields = self.fields
        if cron is not None:
            self._without("every_ns", "a schedule has `cron` or `every_ns`, not both")
            self._without("start_ns", "it belongs to `every_ns`")
            return None, None
        if fields.is_map and fields.get("every_ns") is None and fields.get("cron") is None:
            text = "the schedule does not say when: `cron` or `every_ns` is missing"
            self.problems.add(fields.path, "missing_field", text)
        return fields.positive("every_ns"), fields.positive("start_ns")

    def _without(self, name: str, problem: str) -> None:
        if self.fields.get(name) is not None:
            self.problems.add(self.fields.at(name), "unknown_field", problem, "Leave it out.")

    def _event(self) -> str | None:
        event = self.fields.name("event")
        if event is None or not is_known_schema(self.problems, self.fields.at("event"), event, self.schemas):
            return None
        if event.startswith("sys/") or is_receipt(event):
            text = f"{event} is sent by Cellule alone"
            self.problems.add(self.fields.at("event"), "reserved", text, "Schedule an event of your own.")
            return None
        return event

    def _value(self, event: str) -> bytes:
        """The canonical bytes of the event; where nothing is given, those of an empty record."""
        codec = wire_codec(t.Ref(event), self.schemas)
        value = self.fields.get("value")
        try:
            if isinstance(value, bytes):
                codec.decode(value)
                return value
            return codec.encode({} if value is None else value)
        except CelluleError as error:
            self.problems.add(self.fields.at("value"), "schedule_value", str(error))
            return b""

    def _limit(self, catch_up: CatchUp) -> int:
        if catch_up == "backfill":
            return self.fields.whole("limit", 1, BACKFILL_MAX, BACKFILL_DEFAULT)
        self._without("limit", "it belongs to the catch-up `backfill`")
        return _MADE_UP[catch_up]
