"""`cellule event`: sending, from a shell, with the same promises as from a program."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import typer

from cellule.cli.controls import Timeout
from cellule.cli.errors import parsed_time
from cellule.cli.given import json_of, number_of
from cellule.cli.lines import cell_text
from cellule.cli.output import compact
from cellule.cli.session import Session, in_session, renderer_of, within
from cellule.errors import Rejected
from cellule.host.codecs import StoredCodecs
from cellule.host.inbox.sends import Wait
from cellule.host.ingress.handles import WorldHandle
from cellule.host.ingress.outcomes import Applied
from cellule.host.read.record_view import id_text, key_of_text
from cellule.kernel.journal.codes import Status
from cellule.sources import SystemClock, SystemEntropy, uuid7
from cellule.values.json_view import to_json

app = typer.Typer(help="Events: what happens to cells.", no_args_is_help=True)


@app.command()
@in_session
async def send(
    session: Session,
    name: Annotated[str, typer.Argument(help="The event, with or without namespace and version.")],
    value: Annotated[str, typer.Argument(help="Its value as JSON; - reads it from standard input.")] = "{}",
    id: Annotated[str | None, typer.Option(help="Sending the same id again changes nothing.")] = None,
    wait: Annotated[Literal["durable", "applied", "reply"], typer.Option(help="Wait for what?")] = "applied",
    expected_version: Annotated[
        str | None,
        typer.Option(help="Only if the cell is at this version or etag; 0: it must not exist."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="The cell's key, where the event does not hold it.")] = None,
    correlation: Annotated[
        str | None, typer.Option(help="An id of the story it belongs to; whatever follows inherits it.")
    ] = None,
    issued: Annotated[
        str | None,
        typer.Option(help="When it was first sent with this id; too long ago is refused."),
    ] = None,
    timeout_s: Timeout = 30.0,
) -> None:  # fmt: skip
    """Send one event, and show its outcome."""
    sent_id = uuid7(SystemClock().now_ns(), SystemEntropy().bytes(10)) if id is None else id
    event = (name, _parsed(value))
    async with within(timeout_s, "the outcome of the event"), session.world_to_change() as world:
        applied = await world.send(
            event, id=sent_id, key=await _key(world, event, key), wait=wait,
            expected_version=_expected(expected_version), correlation=correlation,
            issued=None if issued is None else parsed_time(issued),
        )  # fmt: skip
        await _tell(session, world, applied, wait)


async def _key(world: WorldHandle, event: tuple[str, Any], text: str | None) -> bytes | None:
    """An explicit key; all modules that take the event share its form."""
    if text is None:
        return None
    schema, _ = world.types.event(event)
    manifest = await renderer_of(world).manifest()
    routed = StoredCodecs(manifest).routed(schema)
    return key_of_text(manifest, manifest.routes[routed][0].base, text)


def _expected(text: str | None) -> int | str | None:
    """A version where it is a number, else an etag."""
    number = None if text is None else number_of(text)
    return text if number is None else number


def _parsed(text: str) -> Any:
    try:
        return json_of(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise Rejected(
            "cli.json", "the event's value is not JSON: {why}", why=str(error),
            hint="""Quote it for the shell: cellule event send Placed '{"order_id": "o1"}'""",
        ) from error  # fmt: skip


async def _tell(session: Session, world: WorldHandle, applied: Applied[Any], wait: Wait) -> None:
    renderer = renderer_of(world)
    steps = [
        {
            "module": step.module, "key": await renderer.key(step.module, step.key),
            "status": Status(step.status).name.lower(), "version": step.version, "height": step.height,
        }
        for step in applied.steps
        if wait != "durable"
    ]  # fmt: skip
    data = {
        "world": world.name, "id": id_text(applied.id), "wait": wait, "height": applied.height or None,
        "duplicate": applied.duplicate, "steps": steps,
    }  # fmt: skip
    if wait == "reply":
        data["reply"] = to_json(applied.reply)
    where = f"at height {applied.height}" if applied.height else "into the inbox"
    head = f"{'known already' if applied.duplicate else 'sent'} {where} with id {data['id']}"
    lines = [f"  {cell_text(step)} {step['status']} v{step['version']}" for step in steps]
    if wait == "reply":
        lines.append(f"  reply {compact(data['reply'])}")
    session.output.document(data, "\n".join([head, *lines]))
