"""A world from production as a test: its exported history runs again under the app of today."""

from __future__ import annotations

import asyncio
from os import PathLike

from cellule.app import App
from cellule.assembly import Options, open
from cellule.host.read.shadow import ShadowReport


def replay_export(path: str | PathLike[str], app: App, *, recent: int | None = None) -> ShadowReport:
    """Run what `cellule world export` wrote again under an app, in memory, and compare.

    Recorded receipts answer the effects. `recent` is how many of the newest records are run; by default all.
    `report.same` tells whether every cell got the same states and made the same events and effects.
    """

    async def replay() -> ShadowReport:
        options = Options(perform=False, tune_process=False)
        async with open("memory:", app, deploy="never", options=options) as node:
            info = await node.import_world(path)
            return await node.shadow_world(info.name, recent=recent)

    return asyncio.run(replay())
