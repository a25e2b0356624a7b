"""Begin an export, watch it, and wait for its end, as a client would."""

from __future__ import annotations

import asyncio
import sys

from exports import app

import cellule


async def main(folder: str) -> None:
    """One export of five rows."""
    async with cellule.open(folder, app=app) as node:
        world = await node.world("office")
        for name in ("begin", "copy_page"):
            await world.heartbeat.bind("/tables", name, propagate=True)
        await world.heartbeat.write("/tables/orders", {"rows": [1, 2, 3, 4, 5]})
        await world.heartbeat.signal("/exports/begin", "/tables/orders", payload={"by": "ada"}, id="export-1")
        await world.wait_idle(timeout=30)
        [export] = (await world.op.list()).operations
        done = await world.op.wait(export.id, timeout=30)
        for each in done.history:
            print(f"beat {each.beat - done.issued_beat}: {each.state}{f', {each.note}' if each.note else ''}")
        print(f"{done.status}: {done.summary}")
        for name in await world.heartbeat.list("/mail"):
            print("mail:", await world.heartbeat.read(f"/mail/{name}"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "data"))
