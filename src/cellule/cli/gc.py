"""`cellule gc`: what nothing keeps is removed, what is kept is explained, what shall stay is pinned.

All of it may be done while a node works on the store, from any process.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

import typer

from cellule.cli.errors import usage
from cellule.cli.lines import moment_text
from cellule.cli.output import facts, table
from cellule.cli.session import Session, in_session, operator
from cellule.host.limits import COLLECT_GRACE_S
from cellule.host.storage.collection_state import CollectionState
from cellule.host.storage.explain import Explanation
from cellule.host.storage.pins import Pin
from cellule.values.cid import Cid
from cellule.values.schema.text_forms import time_text

app = typer.Typer(help="Garbage: what nothing keeps, why something is kept, and pins.", no_args_is_help=True)

Object = Annotated[str, typer.Argument(help="The object's CID, as `world snapshots` and others show it.")]


@app.command()
@in_session
async def run(
    session: Session,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would go.")] = False,
    now: Annotated[
        bool, typer.Option("--now", help="Without a grace period: what nothing links now goes.")
    ] = False,
) -> None:
    """Remove the objects of the universe that nothing keeps; worlds go on meanwhile."""
    async with session.reading() as node:
        with session.output.progress("objects") as step:

            def told(state: CollectionState) -> None:
                counts = state.counts
                done = counts.kept + counts.removed + counts.waiting
                step(done, done)

            state = await node.collect_garbage(
                universe=session.universe_name, grace_s=0 if now else COLLECT_GRACE_S, dry_run=dry_run,
                progress=told,
            )  # fmt: skip
        session.output.document({"dry_run": dry_run, **state_json(state)}, _shown(state, dry_run=dry_run))


@app.command()
@in_session
async def show(session: Session) -> None:
    """Show how far the collection is, or what the last one did."""
    async with session.reading() as node:
        state = await node.collection(session.universe_name)
        if state is None:
            session.output.document({"phase": None}, "nothing was collected in this universe yet")
            return
        session.output.document(state_json(state), _shown(state))


@app.command("explain-retention")
@in_session
async def explain_retention(session: Session, cid: Object) -> None:
    """Tell why an object is kept: the way from what keeps it, or that nothing does."""
    async with session.reading() as node:
        found = await node.explain_retention(Cid.parse(cid), universe=session.universe_name)
        session.output.document(retention_json(found), _explained(found))


@app.command()
@in_session
async def pin(
    session: Session,
    cid: Object,
    seconds: Annotated[float, typer.Option("--for", help="For how many seconds.")] = 86_400.0,
    why: Annotated[str, typer.Option(help="Why, for those who see the pin.")] = "asked for",
) -> None:
    """Keep an object and what it links for a while, whatever else does."""
    async with session.reading() as node:
        made = await node.pin(
            [Cid.parse(cid)], seconds, who=operator(), why=why, universe=session.universe_name
        )
        session.output.document(
            pin_json(made), f"pin {made.id} keeps {cid} until {moment_text(made.until_ns)}"
        )


@app.command()
@in_session
async def pins(session: Session) -> None:
    """List the pins of the universe."""
    async with session.reading() as node:
        found = await node.pins(session.universe_name)
        rows = [
            (each.id, moment_text(each.until_ns), each.who, each.why, ", ".join(map(str, each.cids)))
            for each in found
        ]
        shown = table(("ID", "UNTIL", "WHO", "WHY", "OBJECTS"), rows)
        session.output.document({"pins": [pin_json(each) for each in found]}, shown)


@app.command()
@in_session
async def unpin(session: Session, pin: Annotated[str, typer.Argument(help="The pin's id.")]) -> None:
    """Remove a pin; what it kept goes with a later collection."""
    try:
        ident = UUID(pin)
    except ValueError:
        raise usage("{pin} is no id of a pin", pin=pin, hint="List them: cellule gc pins") from None
    async with session.reading() as node:
        await node.unpin(ident, universe=session.universe_name)
        session.output.document({"unpinned": pin}, f"pin {pin} is removed")


def state_json(state: CollectionState) -> dict[str, Any]:
    """A collection as JSON data."""
    return {
        "phase": state.phase, "generation": state.generation, "started": time_text(state.started_ns),
        "moved": time_text(state.moved_ns),
        "ended": None if state.ended_ns is None else time_text(state.ended_ns), **asdict(state.counts),
    }  # fmt: skip


def pin_json(pin: Pin) -> dict[str, Any]:
    """A pin as JSON data."""
    return {
        "id": str(pin.id), "objects": [str(cid) for cid in pin.cids], "until": time_text(pin.until_ns),
        "who": pin.who, "why": pin.why,
    }  # fmt: skip


def retention_json(found: Explanation) -> dict[str, Any]:
    """What keeps an object, as JSON data."""
    return {
        "object": str(found.cid), "stored": found.size is not None, "bytes": found.size,
        "generation": found.generation, "kept_by": found.root, "path": [str(cid) for cid in found.path],
    }  # fmt: skip


def _shown(state: CollectionState, *, dry_run: bool = False) -> Any:
    counts = state.counts
    ended = f"it is at: {state.phase}, last seen {moment_text(state.moved_ns)}"
    if state.ended_ns is not None:
        ended = moment_text(state.ended_ns)
    return facts({
        "begun": moment_text(state.started_ns),
        "ended": ended,
        "would be removed" if dry_run else "removed": _sized(counts.removed, counts.removed_bytes),
        "kept": _sized(counts.kept, counts.kept_bytes),
        "not old enough": _sized(counts.waiting, counts.waiting_bytes),
        "bodies left behind": counts.orphans,
        "links to nothing": counts.dangling,
    })  # fmt: skip


def _sized(count: int, size: int) -> str:
    return f"{count:,} objects, {size / 1e6:,.1f} MB"


def _explained(found: Explanation) -> str:
    if found.size is None:
        return f"{found.cid} is not stored in this universe"
    about = f"{found.cid} has {found.size:,} bytes, generation {found.generation}"
    if found.root is None:
        return f"{about}\nnothing keeps it: it goes with a collection once it is old enough"
    way = "".join(f"\n  -> {cid}" for cid in found.path)
    return f"{about}\nkept by {found.root}{way}"
