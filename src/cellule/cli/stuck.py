"""`cellule stuck`: everything in a world that waits for a person, or longer than it should."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cellule.cli.effect_lines import effect_json, effect_line, letter_json
from cellule.cli.errors import usage
from cellule.cli.item import item_json, item_table, items_of
from cellule.cli.output import counted, table
from cellule.cli.session import Session, in_session, owner_of, renderer_of
from cellule.host.ingress.handles import WorldHandle
from cellule.host.read.cell_list import Stopped, list_world
from cellule.host.read.effects.model import EffectView
from cellule.host.read.long_waits import LongWait, find_long_waits
from cellule.host.read.record_view import RecordRenderer
from cellule.host.run.beat_clock import drift_text
from cellule.host.trouble import Trouble, read_trouble
from cellule.kernel.state.rows import OPEN, PARKED
from cellule.sources import SystemClock
from cellule.values.schema.text_forms import duration_of_text, duration_text, time_text

LATE_NS = 5_000_000_000  # an effect that is due for so long and not begun is shown


@in_session
async def stuck(
    session: Session,
    limit: Annotated[int, typer.Option(help="How many of each, oldest first.", min=1, max=1000)] = 100,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Also list effects that wait for a timer or their turn.")
    ] = False,
    long: Annotated[
        str | None, typer.Option("--long", help="Also cells that wait for longer than this: 36h, 7d.")
    ] = None,
) -> None:  # fmt: skip
    """List what is stuck, and why: cells, items, effects, dead letters, a full inbox, a wrong clock."""
    span_ns = None if long is None else _span_ns(long)
    async with session.reading() as node:
        world = await session.world(node)
        renderer = renderer_of(world)
        with session.output.progress("reading the world") as step:
            listing = await list_world(world.follower, step)
        found = await listing.stuck(limit)
        effects = await _effects(world, limit, waiting=waiting)
        data: dict[str, Any] = {
            "world": world.name, "as_of": {"height": listing.height}, "paused": found.paused,
            "inbox": found.inbox, "owner": await owner_of(node),
            "clock": drift_text(listing.now_ns, node.node.clock.now_ns()),
            "stopped": [await _stopped_json(renderer, each) for each in found.stopped],
            "over_budget": [
                {"module": base, "open": count, "held": held}
                for base, (count, held) in sorted(listing.over_budget.items())
            ],
            "snapshot": _trouble_json(
                await read_trouble(node.node.engine, world.info.universe, world.info.id)
            ),
            "items": [item_json(each) for each in await items_of(node, world, limit)],
            "effects": [await effect_json(renderer, each) for each in effects],
            "dead_letters": [
                await letter_json(renderer, each) for each in await world.dead_letters(limit=limit)
            ],
        }  # fmt: skip
        if span_ns is not None:
            found_long = await find_long_waits(
                world.reader, world.wait_reason, listing.now_ns - span_ns, limit
            )
            data["long"] = [_long_json(each, listing.now_ns) for each in found_long.waits]
            data["long_more"] = found_long.more
        session.output.document(data, *_shown(data))


def _span_ns(given: str) -> int:
    try:
        return duration_of_text(given)
    except Exception:  # noqa: BLE001 - whatever makes it none, the person sees what is one
        raise usage("{given} is no length of time", given=given, hint="Write 36h, 7d or 1h30m.") from None


def _long_json(wait: LongWait, now_ns: int) -> dict[str, Any]:
    second = 1_000_000_000
    return {
        "module": wait.module, "key": wait.key, "since": time_text(wait.since_ns),
        "for": duration_text((now_ns - wait.since_ns) // second * second), "what": wait.what,
    }  # fmt: skip


def _trouble_json(trouble: Trouble | None) -> dict[str, Any] | None:
    if trouble is None:
        return None
    return {"since": time_text(trouble.since_ns), "attempts": trouble.attempts, "why": trouble.why}


def trouble_text(trouble: dict[str, Any]) -> str:
    """That no snapshot can be taken, for people."""
    return (
        f"no snapshot could be taken since {trouble['since']}, {trouble['attempts']} attempts: "
        f"{trouble['why']}\nthe world goes on, and the next start takes longer; it is tried again"
    )


async def _effects(world: WorldHandle, limit: int, *, waiting: bool) -> list[EffectView]:
    """The oldest effects that need somebody, or all that are open."""
    if waiting:
        return await world.effects(limit=limit)
    now_ns = SystemClock().now_ns()
    found = [*await world.effects(status=PARKED, limit=limit)]
    after = 0
    while page := await world.effects(status=OPEN, limit=1_000, after=after):
        found += [each for each in page if _is_late(each, now_ns)]
        after = page[-1].height
        if len(page) < 1_000 or len(found) >= limit:
            break
    return sorted(found, key=lambda each: each.height)[:limit]


def _is_late(effect: EffectView, now_ns: int) -> bool:
    """Tell whether a dispatched effect does not go well: an attempt failed, or none was made in time."""
    attempts = effect.attempts
    if attempts is None:
        return effect.since_ns < now_ns - LATE_NS
    return attempts.state != "waiting" or attempts.next_ns < now_ns - LATE_NS


async def _stopped_json(renderer: RecordRenderer, cell: Stopped) -> dict[str, Any]:
    return {
        "module": cell.base, "key": await renderer.key(cell.base, cell.key), "status": cell.status,
        "since": cell.since, "code": cell.code, "text": cell.text, "queue": cell.queue,
    }  # fmt: skip


def _shown(data: dict[str, Any]) -> list[Any]:
    shown: list[Any] = []
    if data["paused"]:
        shown.append(f"world {data['world']} is paused: cellule world resume {data['world']}")
    if data["clock"]:
        shown.append(f"world {data['world']}: {data['clock']}")
    if data["inbox"] and data["owner"] is None:
        shown.append(
            f"in the inbox: {counted(data['inbox'], 'item')}, and nobody owns the folder: start its node"
        )
    if data["snapshot"]:
        shown.append(trouble_text(data["snapshot"]))
    if data["stopped"]:
        columns = ("module", "key", "status", "since", "queue", "text")
        rows = [[each[name] for name in columns] for each in data["stopped"]]
        shown.append(table([name.upper() for name in columns], rows, title="stopped cells"))
        shown.append("try again: cellule cell resume MODULE KEY; after a deploy: cellule cell migrate")
        shown.append("to take the first event out of a queue: cellule cell drop MODULE KEY")
    shown += [
        f"{each['module']} is over budget: {counted(each['open'], 'effect')} open, "
        f"{counted(each['held'], 'cell')} waiting"
        for each in data["over_budget"]
    ]
    if data["items"]:
        shown.append(item_table(data["items"]))
        shown.append("after an upgrade: cellule item retry ID; to forget one: cellule item drop ID")
    if data["effects"]:
        shown += ["effects", *(effect_line(each) for each in data["effects"])]
        shown.append("decide: cellule effect approve|deny|cancel ID; try at once: cellule effect retry ID")
    if data.get("long"):
        names = ("module", "key", "for", "what")
        waits = [[each[name] for name in names] for each in data["long"]]
        shown.append(table([name.upper() for name in names], waits, title="waiting for long"))
        if data["long_more"]:
            shown.append("there may be more: --limit")
    if data["dead_letters"]:
        fields = ("height", "module", "key", "what", "text")
        rows = [
            [{**each, "what": each.get("kind") or each.get("event")}[name] for name in fields]
            for each in data["dead_letters"]
        ]
        shown.append(table([name.upper() for name in fields], rows, title="dead letters"))
        shown.append("let one happen again, or go: cellule letter redrive|dismiss HEIGHT")
    return shown or ["nothing is stuck"]
