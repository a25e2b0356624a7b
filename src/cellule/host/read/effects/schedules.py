"""Schedules: which there are, when they are next due, and when they would be."""

from __future__ import annotations

from collections.abc import Generator

from cellule.errors import Rejected
from cellule.host.own.suggestions import suggestion
from cellule.host.read.effects.model import ScheduleView
from cellule.host.read.reader import Reader
from cellule.host.read.record_view import shown
from cellule.kernel.manifest.model import Manifest, Schedule
from cellule.kernel.need import Need
from cellule.kernel.state.rows import ScheduleRow
from cellule.kernel.world import World
from cellule.values import calendar

PREVIEW_MAX = 1_000


async def list_schedules(reader: Reader) -> list[ScheduleView]:
    """All schedules of the current manifest, by name."""
    manifest = await reader.manifest()
    armed = await reader.ask(_armed)
    return [_view(each, armed.get(name), manifest) for name, each in sorted(manifest.schedules.items())]


async def preview_schedule(reader: Reader, name: str, count: int, after_ns: int) -> list[calendar.Upcoming]:
    """The next `count` due times of a schedule after a time, whether it is paused or not."""
    if not 1 <= count <= PREVIEW_MAX:
        raise Rejected(
            "host.preview_count", "a preview shows 1 to {most} times, not {count}", count=count,
            most=PREVIEW_MAX,
        )  # fmt: skip
    manifest = await reader.manifest()
    return calendar.preview(_due(check_schedule(manifest, name)), after_ns, count)


def check_schedule(manifest: Manifest, name: str) -> Schedule:
    """The schedule of a name; `Rejected` with those like it."""
    found = manifest.schedules.get(name)
    if found is None:
        raise Rejected(
            "host.no_schedule", "there is no schedule {name}", name=name,
            hint=suggestion(name, list(manifest.schedules)) or "The manifest declares none.",
        )  # fmt: skip
    return found


def _due(schedule: Schedule) -> calendar.Due:
    if schedule.cron is not None:
        return calendar.Cron.parse(schedule.cron, schedule.zone)
    assert schedule.every_ns is not None
    return calendar.Every(schedule.every_ns, schedule.start_ns or 0)


def _armed(world: World) -> Generator[Need, None, dict[str, ScheduleRow]]:
    yield from ()
    return dict(world.ledger.book.schedules)


def _view(schedule: Schedule, armed: ScheduleRow | None, manifest: Manifest) -> ScheduleView:
    due_ns, paused, waiting_ns = (
        (0, False, 0) if armed is None else (armed.due_ns, armed.paused, armed.waiting_ns)
    )
    return ScheduleView(
        schedule.name, schedule.cron, schedule.zone, schedule.every_ns, schedule.start_ns, schedule.event,
        shown(schedule.value, schedule.event, manifest), schedule.catch_up, schedule.limit,
        schedule.overlap, paused, due_ns or None, waiting_ns or None,
        schedule.jitter_ns,
    )  # fmt: skip
