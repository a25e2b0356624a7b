"""`cellule beat`: what the heartbeat of a world did, beat by beat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from cellule.cli.controls import Act, perform
from cellule.cli.session import Session, in_session, until_interrupted
from cellule.errors import Rejected
from cellule.host.ingress.handles import WorldHandle
from cellule.host.read.beat_view import AgendaLine, BeatView, Impulse
from cellule.host.read.heartbeat import PAGE_MAX
from cellule.values.json_view import to_json

app = typer.Typer(help="Beats: impulses, agendas and what they queued.", no_args_is_help=True)

_ENDS = {0: "ok", -1: "retry", -2: "fatal"}


@app.command()
@in_session
async def show(
    session: Session,
    number: Annotated[int | None, typer.Argument(help="The beat; the newest one by default.", min=1)] = None,
) -> None:
    """Show one beat: its impulses, the enzymes that ran with their return codes, and what was queued."""
    async with session.world_to_read() as world:
        head = await world.head()
        view = await world.heartbeat.beat_view(head.beat if number is None else number)
        if view is None:
            raise Rejected(
                "heartbeat.no_beat", "world {world} has had {beats} beats, and no beat {number}",
                world=world.name, beats=head.beat, number=number,
            )  # fmt: skip
        session.output.document({"world": world.name, **_json(view)}, *_lines(view))


@app.command()
@until_interrupted
async def tail(
    session: Session,
    lines: Annotated[
        int, typer.Option("--lines", "-n", help="Beats to begin with.", min=0, max=PAGE_MAX)
    ] = 10,
    follow: Annotated[bool, typer.Option(help="Go on until interrupted.")] = True,
    count: Annotated[int | None, typer.Option(help="Stop after so many beats.", min=1)] = None,
    all: Annotated[bool, typer.Option("--all", help="Also beats without impulses.")] = False,
) -> None:  # fmt: skip
    """Show the newest beats, and those to come."""
    async with session.world_to_read() as world:
        head = await world.head()
        shown = 0
        for view in await world.heartbeat.beats(limit=lines) if lines else ():
            shown += _print(session, view, all=all)
            if shown == count:
                return
        if not follow:
            return
        async for frame in world.tail(head.height):
            shown += await _print_beat(session, world, frame.header.beat, all=all)
            if shown == count:
                return


@app.command()
@in_session
async def now(session: Session, act: Act) -> None:
    """Have a beat now."""
    await perform(session, None, "heartbeat.beat", act)


@app.command()
@in_session
async def pause(session: Session, act: Act) -> None:
    """Keep impulses until `beat resume`; events, receipts and timers go on."""
    await perform(session, None, "heartbeat.pause", act)


@app.command()
@in_session
async def resume(session: Session, act: Act) -> None:
    """Run the impulses that were kept, in their order, in the next beat."""
    await perform(session, None, "heartbeat.resume", act)


@app.command()
@in_session
async def agenda(session: Session) -> None:
    """Show what the next beat runs, as things stand: resolved, and not run."""
    async with session.world_to_read() as world:
        found = await world.heartbeat.agenda()
        lines = [
            f"{_place(each.signal, each.target)}  ->  {', '.join(each.enzymes) or 'nothing'}"
            for each in found
        ]
        data = {"world": world.name, "agenda": [asdict(each) for each in found]}
        session.output.document(
            data, *(lines or [f"no impulse waits for the next beat of world {world.name}"])
        )


async def _print_beat(session: Session, world: WorldHandle, beat: int, *, all: bool) -> bool:
    view = await world.heartbeat.beat_view(beat)
    return view is not None and _print(session, view, all=all)


def _print(session: Session, view: BeatView, *, all: bool) -> bool:
    if not (all or view.impulses or view.agenda or view.queued):
        return False
    session.output.line(_json(view), "\n".join(_lines(view)))
    return True


def _lines(view: BeatView) -> Iterator[str]:
    when = datetime.fromtimestamp(view.now_ns / 1e9, tz=UTC).isoformat(sep=" ", timespec="milliseconds")
    yield f"beat {view.beat}  {when}  heights {view.first}..{view.last}, {view.promoted} for the next beat"
    yield from (f"  impulse  {_impulse(each)}" for each in view.impulses)
    yield from (f"  agenda   {_agenda(each)}" for each in view.agenda)
    yield from (f"  queued   {_impulse(each)}{_when(each, view.beat)}" for each in view.queued)


def _impulse(each: Impulse) -> str:
    kind = f"  ({each.kind})" if each.kind else ""
    return f"{_place(each.signal, each.target)}{kind}"


def _when(each: Impulse, beat: int) -> str:
    return "" if each.beat == beat + 1 else f"  for beat {each.beat}"


def _agenda(line: AgendaLine) -> str:
    place = _place(line.signal, line.target)
    if line.no_match:
        return f"{place}: no enzyme matches"
    name = line.enzyme or f"entry {line.number}, which is gone"
    end = _ENDS.get(line.code or 0, str(line.code)) if line.ran else f"had run already, {line.code}"
    return f"{place}: {name}, {end}{f': {line.text}' if line.text else ''}"


def _place(signal: str | None, target: str | None) -> str:
    return " at ".join(each for each in (signal or "(no signal)", target) if each)


def _json(view: BeatView) -> dict[str, Any]:
    parts: dict[str, Any] = {field.name: getattr(view, field.name) for field in fields(view)}
    for name in ("impulses", "agenda", "queued"):
        rows = [{field.name: getattr(row, field.name) for field in fields(row)} for row in parts[name]]
        parts[name] = to_json(rows)
    return parts
