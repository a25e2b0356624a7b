"""`cellule receipt`: settling an effect by hand."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from cellule.cli.controls import Timeout, given_value, tell
from cellule.cli.effect import Intent
from cellule.cli.session import Session, in_session, operator, within

app = typer.Typer(help="Receipts: the outcomes of effects.", no_args_is_help=True)


@app.command()
@in_session
async def inject(
    session: Session,
    intent: Intent,
    why: Annotated[str, typer.Option(help="The reason, for the journal.")],
    status: Annotated[
        Literal["ok", "failed", "timeout", "cancelled", "denied"], typer.Option(help="How it ended.")
    ] = "ok",
    value: Annotated[
        str | None, typer.Option(help="What it gave, as JSON; - reads it from standard input.")
    ] = None,
    code: Annotated[str, typer.Option(help="A dotted code, where it did not end well.")] = "",
    text: Annotated[str, typer.Option(help="What went wrong, where it did not end well.")] = "",
    timeout_s: Timeout = 30.0,
) -> None:
    """Settle an open effect by a receipt of your own, signed by this folder's key and marked as yours."""
    given = given_value(value)
    async with session.world_to_change() as world:
        async with within(timeout_s, "the outcome of the receipt"):
            done = await world.inject_receipt(
                intent, status, given, who=operator(), why=why, code=code, text=text
            )
        await tell(session, world, done.height, f"effect {intent} settled as {{status}}")
