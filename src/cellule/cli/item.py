"""`cellule item`: inbox items that a world could not take, and what becomes of them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cellule.cli.output import table
from cellule.cli.session import Session, in_session
from cellule.host.inbox.aside import ItemAside, drop_aside, list_aside, retry_aside
from cellule.host.ingress.handles import WorldHandle
from cellule.host.service import Cellule
from cellule.values.schema.text_forms import time_text

app = typer.Typer(help="Items that a world could not take and set aside.", no_args_is_help=True)

ItemId = Annotated[str, typer.Argument(help="The item's id, as `item list` shows it.")]


async def items_of(node: Cellule, world: WorldHandle, limit: int) -> list[ItemAside]:
    """The oldest items of a world that were set aside."""
    return await list_aside(node.node.engine, world.info.universe, world.info.id, limit)


def item_json(item: ItemAside) -> dict[str, Any]:
    """An item that was set aside, as JSON data."""
    event_id = item.event_id.hex() if isinstance(item.event_id, bytes) else item.event_id
    return {
        "id": item.id, "name": item.name, "event_id": event_id, "why": item.why, "at": time_text(item.at_ns)
    }  # fmt: skip


def item_table(items: list[dict[str, Any]]) -> Any:
    """Items that were set aside, for people."""
    columns = ("id", "name", "at", "why")
    rows = [[each[name] for name in columns] for each in items]
    return table([name.upper() for name in columns], rows, title="items set aside")


@app.command("list")
@in_session
async def list_items(
    session: Session,
    limit: Annotated[int, typer.Option(help="How many, oldest first.", min=1, max=1000)] = 100,
) -> None:
    """List the items that the world could not take, with the reason."""
    async with session.reading() as node:
        world = await session.world(node)
        items = [item_json(each) for each in await items_of(node, world, limit)]
        shown = [item_table(items)] if items else ["nothing is set aside"]
        session.output.document({"world": world.name, "items": items}, *shown)


@app.command()
@in_session
async def retry(session: Session, item: ItemId) -> None:
    """Put an item into the world's inbox again, after an upgrade; it is applied once at most."""
    async with session.reading() as node:
        world = await session.world(node)
        info, bell_id = world.info, node.node.entropy.bytes(16)
        await retry_aside(node.node.engine, info.universe, info.id, item, bell_id)
        session.output.document({"world": world.name, "retried": item}, f"item {item} is in the inbox again")


@app.command()
@in_session
async def drop(session: Session, item: ItemId) -> None:
    """Forget an item for good; that it was refused stays in the journal."""
    async with session.reading() as node:
        world = await session.world(node)
        await drop_aside(node.node.engine, world.info.universe, world.info.id, item)
        session.output.document({"world": world.name, "dropped": item}, f"item {item} is gone")
