"""`cellule mailbox`: messages with ids and an end."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cellule.cli.controls import Timeout, given_value, parsed_value
from cellule.cli.output import compact, table
from cellule.cli.session import Session, in_session
from cellule.heartbeat.mailboxes.layout import Message
from cellule.heartbeat.mailboxes.listing import READ_MAX
from cellule.values.json_view import to_json
from cellule.values.schema.text_forms import time_text

app = typer.Typer(help="Mailboxes: public boards and private inboxes.", no_args_is_help=True)

Path = Annotated[str, typer.Argument(help="The mailbox's path, such as /mail/news.")]
Ttl = Annotated[str | None, typer.Option(help='How long messages are kept, such as {"beats": 10}.')]
Reader = Annotated[str | None, typer.Option(help="Who reads: the owner of an inbox.")]


@app.command()
@in_session
async def create(
    session: Session,
    path: Path,
    owner: Annotated[str | None, typer.Option(help="Make it the inbox of this owner, not a board.")] = None,
    ttl: Ttl = None,
) -> None:
    """Make a mailbox."""
    kind, limit = "board" if owner is None else "inbox", given_value(ttl)
    async with session.world_to_change() as world:
        await world.heartbeat.mailbox(path).create(kind, owner=owner, ttl=limit)
        data = {"world": world.name, "path": path, "kind": kind, "owner": owner}
        session.output.document(data, f"{path} of world {world.name} is a mailbox: {kind}")


@app.command()
@in_session
async def post(
    session: Session,
    path: Path,
    body: Annotated[str, typer.Argument(help="The message as JSON; - reads it from standard input.")],
    id: Annotated[str | None, typer.Option(help="Its id; else a digest of what it says.")] = None,
    unsealed: Annotated[
        bool, typer.Option("--unsealed", help="Number it: the same again is another.")
    ] = False,
    ttl: Ttl = None,
    sender: Annotated[str | None, typer.Option(help="Who says so.")] = None,
    timeout_s: Timeout = 30.0,
) -> None:
    """Post a message, and print its id."""
    value, limit = parsed_value(body), given_value(ttl)
    async with session.world_to_change() as world:
        found = await world.heartbeat.mailbox(path).post(
            value, id=id, sealed=not unsealed, ttl=limit, sender=sender, timeout=timeout_s
        )
        session.output.document({"world": world.name, "path": path, "id": found}, found)


@app.command()
@in_session
async def read(
    session: Session,
    path: Path,
    reader: Reader = None,
    after: Annotated[str | None, typer.Option(help="Behind this id.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many at most.", min=1, max=READ_MAX)] = 100,
) -> None:
    """Show the messages of a mailbox that the reader has not acknowledged."""
    async with session.world_to_read() as world:
        found = await world.heartbeat.mailbox(path).read(reader=reader, after=after, limit=limit)
        rows = [(each.id, _issued(each), each.sender or "", compact(to_json(each.body))) for each in found]
        shown = table(("ID", "POSTED", "SENDER", "BODY"), rows) if rows else f"{path} has no messages"
        data = {"world": world.name, "path": path, "messages": [_json(each) for each in found]}
        session.output.document(data, shown)


@app.command()
@in_session
async def ack(
    session: Session,
    path: Path,
    id: Annotated[str, typer.Argument(help="The message's id.")],
    reader: Reader = None,
    timeout_s: Timeout = 30.0,
) -> None:
    """Acknowledge a message."""
    async with session.world_to_change() as world:
        await world.heartbeat.mailbox(path).acknowledge(id, reader=reader, timeout=timeout_s)
        session.output.document({"world": world.name, "path": path, "id": id}, f"{id} is acknowledged")


def _issued(message: Message) -> str:
    return time_text(message.issued_ns)


def _json(message: Message) -> dict[str, Any]:
    return {"id": message.id, **message.as_data(), "body": to_json(message.body), "issued": _issued(message)}
