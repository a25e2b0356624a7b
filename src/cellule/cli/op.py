"""`cellule op`: long work with a state, watchers and an end."""

from __future__ import annotations

from typing import Annotated

import typer

from cellule.cli.controls import Once, Payload, Timeout, given_value
from cellule.cli.output import table
from cellule.cli.session import Session, in_session, operator, within
from cellule.host.read.operations import OPERATIONS_MAX, OperationView, as_json

app = typer.Typer(help="Operations: long work with a state, watchers and an end.", no_args_is_help=True)

Op = Annotated[str, typer.Argument(metavar="OP", help="The operation's id, such as 12-1.")]
Ttl = Annotated[int, typer.Option(help="Beats; 0 for ever.", min=0)]
Shown = Annotated[str, typer.Argument(metavar="OP", help="The operation's id, or the path of what it shows.")]


@app.command()
@in_session
async def start(
    session: Session,
    act: Once,
    verb: Annotated[str, typer.Argument(help="What is done, such as op/import.")],
    target: Annotated[str, typer.Argument(help="The path of what it is done to.")],
    mode: Annotated[
        str, typer.Option(help="opm:direct, or opm:states for one with states between.")
    ] = "opm:states",
    ttl: Ttl = 0,
    payload: Payload = None,
) -> None:
    """Start an operation, and print its id."""
    value = given_value(payload)
    async with session.world_to_change() as world:
        async with within(act.timeout_s, "the outcome of op start"):
            op = await world.op.start(
                verb, target, mode=mode, ttl=ttl, payload=value, who=operator(), why=act.why, id=act.id
            )
        session.output.document({"world": world.name, "id": op}, op)


@app.command()
@in_session
async def state(
    session: Session,
    act: Once,
    op: Op,
    state: Annotated[str, typer.Argument(help="The new state, such as ist:copy.")],
    code: Annotated[int, typer.Option(help="A number of yours.")] = 0,
    note: Annotated[str | None, typer.Option(help="A text; the last one stays where none is given.")] = None,
) -> None:
    """Tell the state of an operation."""
    async with session.world_to_change() as world:
        async with within(act.timeout_s, "the outcome of op state"):
            await world.op.state(op, state, code=code, note=note, who=operator(), why=act.why, id=act.id)
        _show(session, world.name, await world.op.get(op))


@app.command("await")
@in_session
async def await_(
    session: Session,
    act: Once,
    op: Op,
    want: Annotated[str, typer.Argument(help="A state (ist:...), or the status of its close (sts:...).")],
    cont: Annotated[str, typer.Argument(help="The signal to send, with the operation as its target.")],
    ttl: Ttl = 0,
    payload: Payload = None,
) -> None:
    """Have a signal sent once, when an operation is as wanted, or op/tmo when it is not in time."""
    value = given_value(payload)
    async with session.world_to_change() as world:
        async with within(act.timeout_s, "the outcome of op await"):
            await world.op.await_(
                op, want, cont, ttl=ttl, payload=value, who=operator(), why=act.why, id=act.id
            )
        _show(session, world.name, await world.op.get(op))


@app.command()
@in_session
async def close(
    session: Session,
    act: Once,
    op: Op,
    status: Annotated[str, typer.Argument(help="sts:ok, sts:fail or sts:cnl.")] = "sts:ok",
    summary: Annotated[str | None, typer.Option(help="A text about how it ended.")] = None,
) -> None:
    """Close an operation; the same status again changes nothing."""
    async with session.world_to_change() as world:
        async with within(act.timeout_s, "the outcome of op close"):
            await world.op.close(op, status, summary=summary, who=operator(), why=act.why, id=act.id)
        _show(session, world.name, await world.op.get(op))


@app.command()
@in_session
async def get(session: Session, op: Shown) -> None:
    """Show the whole dossier of an operation."""
    async with session.world_to_read() as world:
        _show(session, world.name, await world.op.get(op))


@app.command()
@in_session
async def wait(
    session: Session,
    op: Shown,
    want: Annotated[
        str | None, typer.Argument(help="A state or a status; by default, that it is closed.")
    ] = None,
    timeout_s: Timeout = 30.0,
) -> None:
    """Wait until an operation is closed, or as wanted."""
    async with session.world_to_read() as world:
        _show(session, world.name, await world.op.wait(op, want, timeout=timeout_s))


@app.command("list")
@in_session
async def list_(
    session: Session,
    state: Annotated[str | None, typer.Option(help="Only those in this state, such as ist:run.")] = None,
    after: Annotated[str | None, typer.Option(help="Behind this operation.")] = None,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=OPERATIONS_MAX)] = 100,
) -> None:
    """List operations in the order in which they were started."""
    async with session.world_to_read() as world:
        page = await world.op.list(state=state, after=after, limit=limit)
        rows = [
            (
                each.id, each.state, str(each.code), each.status or "", str(len(each.watchers)), each.verb,
                each.target,
            )
            for each in page.operations
        ]  # fmt: skip
        columns = ("ID", "STATE", "CODE", "STATUS", "WATCHERS", "VERB", "TARGET")
        shown = table(columns, rows) if rows else f"world {world.name} has no such operations"
        data = {
            "world": world.name,
            "operations": [as_json(each) for each in page.operations],
            "next": page.next,
        }
        session.output.document(data, shown)


def _show(session: Session, world: str, view: OperationView) -> None:
    lines = [
        f"operation {view.id} of world {world}: {view.verb} on {view.target}",
        f"mode     {view.mode}, since beat {view.issued_beat}",
        f"state    {view.state}, code {view.code}{_after(view.note)}",
    ]
    if view.is_closed:
        lines.append(f"closed   {view.status} in beat {view.closed_beat}{_after(view.summary)}")
    lines += [
        f"history  beat {each.beat}: {each.state}, code {each.code}{_after(each.note)}"
        for each in view.history
    ]
    for each in view.watchers:
        until = "for ever" if each.deadline is None else f"until beat {each.deadline}"
        lines.append(f"watcher  {each.want} -> {each.cont}, {'armed' if each.armed else until}")
    session.output.document({"world": world, **as_json(view)}, *lines)


def _after(text: str | None) -> str:
    return f": {text}" if text else ""
