"""`cellule universe quota`: what a universe may have, and what it has."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Annotated, Any

import typer

from cellule.cli.output import table
from cellule.cli.session import Session, in_session
from cellule.host.storage.quotas import Quotas, Usage

Most = Annotated[int | None, typer.Option(help="How many it may have; 0 to allow none more.")]


@in_session
async def quota(
    session: Session,
    name: Annotated[str | None, typer.Argument(help="The universe; --universe if it is left out.")] = None,
    worlds: Most = None, snapshots: Most = None, stored_bytes: Most = None, cells: Most = None,
    events_per_s: Most = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all quotas first.")] = False,
) -> None:  # fmt: skip
    """Show the quotas of a universe and how much of each is used, or set some."""
    given = {
        "worlds": worlds, "snapshots": snapshots, "stored_bytes": stored_bytes, "cells": cells,
        "events_per_s": events_per_s,
    }  # fmt: skip
    changes = {each: most for each, most in given.items() if most is not None}
    universe = name or session.universe_name
    async with session.reading() as node:
        quotas = await node.quotas(universe)
        if changes or clear:
            quotas = replace(Quotas() if clear else quotas, **changes)
            await node.set_quotas(quotas, universe=universe)
        usage = await node.usage(universe)
        data = {"universe": universe, "quotas": asdict(quotas), "usage": asdict(usage)}
        session.output.document(data, table(("QUOTA", "USED", "ALLOWED"), _rows(quotas, usage)))


def _rows(quotas: Quotas, usage: Usage) -> list[tuple[Any, ...]]:
    rows = []
    for field in fields(Quotas):
        most, used = getattr(quotas, field.name), getattr(usage, field.name, "")
        rows.append((field.name, used, "any" if most is None else most))
    return rows
