"""`cellule schedule`: events by the calendar, when they are due, and pausing them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cellule.cli.controls import Act, Once, tell
from cellule.cli.effect_lines import next_text, schedule_text
from cellule.cli.errors import parsed_time
from cellule.cli.output import compact, table
from cellule.cli.session import Session, in_session, operator, renderer_of, within
from cellule.host.read.effects.model import ScheduleView
from cellule.host.read.effects.schedules import PREVIEW_MAX
from cellule.values.schema.text_forms import duration_text, time_text

app = typer.Typer(help="Schedules: events on a cron or an interval.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The schedule's name.")]


@app.command("list")
@in_session
async def list_(session: Session) -> None:
    """List the schedules of the world, and when each is next due."""
    async with session.world_to_read() as world:
        found = await world.schedules()
        data = [_json(each) for each in found]
        rows = [
            (
                each.name, schedule_text(row), next_text(each.next_ns, paused=each.paused), each.event,
                compact(each.value), each.catch_up, each.overlap,
            )
            for each, row in zip(found, data, strict=True)
        ]  # fmt: skip
        columns = ("NAME", "WHEN", "NEXT", "EVENT", "VALUE", "CATCH UP", "OVERLAP")
        shown = table(columns, rows) if rows else f"world {world.name} has no schedules"
        session.output.document({"world": world.name, "schedules": data}, shown)


@app.command()
@in_session
async def preview(
    session: Session,
    name: Name,
    count: Annotated[int, typer.Option("--count", "-n", help="How many times.", min=1, max=PREVIEW_MAX)] = 10,
    after: Annotated[
        str | None, typer.Option(help="From this time on, such as 2026-03-29T00:00:00Z.")
    ] = None,
) -> None:
    """Show when a schedule is due next, in UTC and on the clocks of its zone."""
    async with session.world_to_read() as world:
        start = None if after is None else parsed_time(after)
        found = await world.preview_schedule(name, count, after=start)
        times = [{"due": time_text(each.due_ns), "local": each.local} for each in found]
        data = {"world": world.name, "name": name, "times": times}
        session.output.document(
            data, table(("DUE", "LOCAL"), [(each["due"], each["local"]) for each in times])
        )


@app.command()
@in_session
async def pause(session: Session, act: Once, name: Name) -> None:
    """Send nothing by a schedule until it is resumed."""
    await _steer(session, "pause", name, act)


@app.command()
@in_session
async def resume(session: Session, act: Once, name: Name) -> None:
    """Let a paused schedule go on from its next due time."""
    await _steer(session, "resume", name, act)


@app.command()
@in_session
async def trigger(session: Session, act: Once, name: Name) -> None:
    """Send the event of a schedule now; its next due time stays as it is."""
    async with session.world_to_change() as world:
        async with within(act.timeout_s, "the outcome of schedule trigger"):
            done = await world.operator(operator()).trigger_schedule(name, why=act.why, id=act.id)
        await tell(session, world, done.height, f"schedule {name} of world {world.name}: sent")


@app.command()
@in_session
async def backfill(
    session: Session,
    act: Act,
    name: Name,
    first: Annotated[str, typer.Option("--from", help="The first due time, with its zone or in UTC.")],
    last: Annotated[str, typer.Option("--to", help="The last due time.")],
) -> None:
    """Send the event of a schedule once for every due time of a range in the past."""
    async with session.world_to_change() as world:
        begin, end = parsed_time(first), parsed_time(last)
        async with within(act.timeout_s, "the outcome of schedule backfill"):
            done = await world.operator(operator()).backfill_schedule(name, begin, end, why=act.why)
        told = [(await renderer_of(world).at(each.height)).json() for each in done]
        sent = sum(each["arguments"]["sent"] for each in told)
        text = f"schedule {name} of world {world.name}: {sent} events"
        session.output.document({"world": world.name, "schedule": name, "sent": sent, "controls": told}, text)


async def _steer(session: Session, verb: str, name: str, act: Once) -> None:
    async with session.world_to_change() as world:
        method = world.pause_schedule if verb == "pause" else world.resume_schedule
        async with within(act.timeout_s, f"the outcome of schedule {verb}"):
            done = await method(name, who=operator(), why=act.why, id=act.id)
        await tell(session, world, done.height, f"schedule {name} of world {world.name}: {verb}")


def _json(view: ScheduleView) -> dict[str, Any]:
    return {
        "name": view.name, "cron": view.cron, "zone": view.zone,
        "every": None if view.every_ns is None else duration_text(view.every_ns),
        "start": None if view.start_ns is None else time_text(view.start_ns),
        "jitter": None if view.jitter_ns is None else duration_text(view.jitter_ns),
        "next": None if view.next_ns is None else time_text(view.next_ns), "paused": view.paused,
        "event": view.event, "value": view.value, "catch_up": view.catch_up, "limit": view.limit,
        "overlap": view.overlap, "waiting": None if view.waiting_ns is None else time_text(view.waiting_ns),
    }  # fmt: skip
