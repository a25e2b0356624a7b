"""`cellule effect`: what cells asked of the outside, what it waits for, and what a person may do about it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from cellule.cli.controls import Once, Timeout, given_value, tell
from cellule.cli.effect_lines import detail_facts, detail_json, effect_json, effect_line
from cellule.cli.output import facts
from cellule.cli.session import Session, in_session, operator, renderer_of, within
from cellule.host.ingress.handles import WorldHandle
from cellule.host.ingress.world_effects import LIST_MAX
from cellule.host.outbox.repair import Report
from cellule.kernel.state.intent_id import ID_BYTES, intent_text

app = typer.Typer(help="Effects: what cells request from the outside.", no_args_is_help=True)

Intent = Annotated[str, typer.Argument(help="The effect's id, or the height of its intent.")]
Status = Literal["open", "outside", "parked", "held", "timer", "waiting"]


@app.command("list")
@in_session
async def list_(
    session: Session,
    status: Annotated[Status | None, typer.Option(help="Only those of this status.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only effects of this kind.")] = None,
    cause: Annotated[
        int | None, typer.Option(help="All that this record led to, settled ones too.", min=1)
    ] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=LIST_MAX)] = 50,
    after: Annotated[int, typer.Option(help="Only above this height.", min=0)] = 0,
) -> None:
    """List open effects, oldest first, and what each waits for."""
    async with session.world_to_read() as world:
        renderer = renderer_of(world)
        found = await world.effects(status=status, kind=kind, cause=cause, limit=limit, after=after)
        effects = [await effect_json(renderer, each) for each in found]
        following = found[-1].height if len(found) == limit and cause is None else None
        head = await world.head()
        data = {
            "world": world.name, "as_of": {"height": head.height}, "effects": effects, "next": following,
        }  # fmt: skip
        session.output.document(data, *map(effect_line, effects))
        if not effects:
            session.output.note("no effect is open")
        if following is not None:
            session.output.note(f"there may be more: --after {following}")


@app.command()
@in_session
async def show(session: Session, intent: Intent) -> None:
    """Show one effect, open or settled: params, decisions, attempts, receipt."""
    async with session.world_to_read() as world:
        with session.output.progress("reading the journal") as step:
            detail = await world.effect(intent, progress=step)
        data = {"world": world.name, **await detail_json(renderer_of(world), detail)}
        session.output.document(data, *detail_facts(data))


@app.command()
@in_session
async def approve(session: Session, act: Once, intent: Intent) -> None:
    """Approve an effect that waits for an approval."""
    await _act(session, "approve", intent, act)


@app.command()
@in_session
async def deny(session: Session, act: Once, intent: Intent) -> None:
    """Refuse an effect that waits for an approval; its cell gets a `denied` receipt."""
    await _act(session, "deny", intent, act)


@app.command()
@in_session
async def cancel(session: Session, act: Once, intent: Intent) -> None:
    """Cancel an open effect, and stop its running attempt."""
    await _act(session, "cancel", intent, act)


@app.command()
@in_session
async def retry(
    session: Session,
    act: Once,
    intent: Annotated[str, typer.Argument(help="An effect's id or height, or the height of a dead letter.")],
) -> None:
    """Request an effect again that failed for good, or make the next attempt of an open one due now."""
    await _act(session, "retry", intent, act)


@app.command()
@in_session
async def complete(
    session: Session,
    token: Annotated[str, typer.Argument(help="The token that the adapter got.")],
    value: Annotated[
        str | None, typer.Option(help="What it gave, as JSON; - reads it from standard input.")
    ] = None,
    code: Annotated[str, typer.Option(help="A dotted code: it failed.")] = "",
    text: Annotated[str, typer.Option(help="What went wrong, beside --code.")] = "",
    why: Annotated[str, typer.Option(help="The reason, for the journal.")] = "completed by hand",
    timeout_s: Timeout = 30.0,
) -> None:
    """Complete an effect that waits for somebody outside, by its token; with --code it failed."""
    given = given_value(value)
    async with session.world_to_change() as world:
        async with within(timeout_s, "the outcome of the completion"):
            if code:
                done = await world.fail(token, code, text, who=operator(), why=why)
            else:
                done = await world.complete(token, given, who=operator(), why=why)
        await tell(session, world, done.height, "the effect is settled as {status}")


@app.command()
@in_session
async def repair(
    session: Session,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be changed.")] = False,
) -> None:
    """Compare open effects with the outbox, and make them agree."""
    async with session.world_to_change() as world:
        report = await world.repair_effects(dry_run=dry_run)
        data = {"world": world.name, **_report_json(report)}
        counts = {
            name: len(value) if isinstance(value, list) else value
            for name, value in data.items()
            if name != "world"
        }
        session.output.document(data, facts(counts))


async def _act(session: Session, verb: str, intent: str, act: Once) -> None:
    async with session.world_to_change() as world:
        async with within(act.timeout_s, f"the outcome of effect {verb}"):
            done = await getattr(world, verb)(intent, who=operator(), why=act.why, id=act.id)
        await _tell(session, world, verb, intent, done.height)


async def _tell(session: Session, world: WorldHandle, verb: str, intent: str, height: int) -> None:
    if not height:
        data: dict[str, Any] = {"world": world.name, "intent": intent, "height": None, "due": "now"}
        session.output.document(data, f"the next attempt of {intent} is due now")
        return
    await tell(session, world, height, f"effect {verb} of {intent} in world {world.name}", intent=intent)


def _report_json(report: Report) -> dict[str, Any]:
    return {
        "dry_run": report.dry_run, "clean": report.is_clean, "open": report.open,
        "missing": _shown(report.missing), "orphans": _shown(report.orphans),
        "unreadable": [key.hex() for key in report.unreadable], "places": _shown(report.places),
        "markers": _shown(report.markers), "skipped": report.skipped,
        "withheld": [{"intent": intent_text(each), "why": why} for each, why in report.withheld.items()],
    }  # fmt: skip


def _shown(intents: list[bytes]) -> list[str]:
    return [intent_text(each) if len(each) == ID_BYTES else each.hex() for each in intents]
