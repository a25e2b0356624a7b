"""`cellule signal`: an impulse for a world, by paths."""

from __future__ import annotations

from typing import Annotated

import typer

from cellule.cli.controls import Id, Payload, Timeout, given_value
from cellule.cli.session import Session, in_session, within


@in_session
async def signal(
    session: Session,
    signal: Annotated[
        str | None, typer.Argument(help="What is asked for, such as /signals/image/thumbnail.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The path of what it is about.")] = None,
    payload: Payload = None,
    beat: Annotated[int | None, typer.Option(help="A later beat to run in.", min=1)] = None,
    id: Id = None,
    timeout_s: Timeout = 30.0,
) -> None:
    """Send a signal: the enzymes it resolves to run in the next beat."""
    value = given_value(payload)
    async with session.world_to_change() as world:
        async with within(timeout_s, "the outcome of signal"):
            done = await world.heartbeat.signal(signal, target, payload=value, beat=beat, id=id)
        at = f" at {target}" if target else ""
        text = f"{signal or 'an impulse'}{at} is queued at height {done.height} of world {world.name}"
        data = {
            "world": world.name, "height": done.height, "duplicate": done.duplicate, "signal": signal,
            "target": target,
        }  # fmt: skip
        session.output.document(data, f"{'queued before: ' if done.duplicate else ''}{text}")
