"""`cellule stuck`: everything in a world that waits for a person."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cellule.cli.output import table
from cellule.cli.session import Session, owner_of, session_of, teller_of
from cellule.host.listing import DeadLetter, Stopped, Stuck, list_world
from cellule.host.telling import Teller


def stuck(
    context: typer.Context,
    limit: Annotated[int, typer.Option(help="How many of each, oldest first.", min=1, max=1000)] = 100,
) -> None:  # fmt: skip
    """List stopped cells and why, dead letters, a paused world, and an inbox that nobody empties."""
    session = session_of(context)
    session.run(_stuck(session, limit))


async def _stuck(session: Session, limit: int) -> None:
    async with session.reading() as node:
        world = await session.world(node)
        teller = teller_of(world)
        with session.output.progress("reading the world") as step:
            listing = await list_world(world.follower, step)
        found = await listing.stuck(limit)
        data = {
            "world": world.name, "as_of": {"height": listing.height}, "paused": found.paused,
            "inbox": found.inbox, "owner": owner_of(node),
            "stopped": [await _stopped_json(teller, each) for each in found.stopped],
            "dead_letters": [await _letter_json(teller, each) for each in found.dead_letters],
        }  # fmt: skip
        session.output.document(data, *_shown(data, found))


async def _stopped_json(teller: Teller, cell: Stopped) -> dict[str, Any]:
    return {
        "module": cell.base, "key": await teller.key(cell.base, cell.key), "status": cell.status,
        "since": cell.since, "code": cell.code, "text": cell.text, "queue": cell.queue,
    }  # fmt: skip


async def _letter_json(teller: Teller, letter: DeadLetter) -> dict[str, Any]:
    return {
        "height": letter.height, "module": letter.base, "key": await teller.key(letter.base, letter.key),
        "code": letter.code, "text": letter.text, "event": letter.message.schema,
        "cause": letter.message.height,
    }  # fmt: skip


def _shown(data: dict[str, Any], found: Stuck) -> list[Any]:
    shown: list[Any] = []
    if found.paused:
        shown.append(f"world {data['world']} is paused: cellule world resume {data['world']}")
    if found.inbox and data["owner"] is None:
        shown.append(f"{found.inbox} items wait in the inbox and nobody owns the folder: start its node")
    if data["stopped"]:
        columns = ("module", "key", "status", "since", "queue", "text")
        rows = [[each[name] for name in columns] for each in data["stopped"]]
        shown.append(table([name.upper() for name in columns], rows, title="stopped cells"))
        shown.append("try again: cellule cell resume MODULE KEY; after a deploy: cellule cell migrate")
    if data["dead_letters"]:
        fields = ("height", "module", "key", "event", "text")
        rows = [[each[name] for name in fields] for each in data["dead_letters"]]
        shown.append(table([name.upper() for name in fields], rows, title="dead letters"))
    return shown or ["nothing is stuck"]
