"""The process that brings orders to their ends. `main.py` starts it, kills it, and starts it again.

python work.py FOLDER ORDERS BANK SECONDS

All orders are sent each time it starts: what the world knows by its id already, it does not do again.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from shop import Placed, app, takings

import cellule

LARGE_EVERY = 10


def orders_of(count: int, bank: str, write_after: timedelta) -> list[Placed]:
    """The same orders every time; every tenth is a large one."""
    numbers = range(1, count + 1)
    return [
        Placed(f"o{number}", number * 100 + (150_000 if number % LARGE_EVERY == 0 else 0), bank, write_after)
        for number in numbers
    ]


async def work(folder: Path, orders: list[Placed]) -> None:
    """Send the orders, then work until all have come to their ends; say how many have."""
    async with cellule.open(folder, app) as node:
        world = await node.world("shop")
        sents = [await world.send_nowait(order, id=order.order_id) for order in orders]
        for sent in sents:
            await sent.wait()
        print("known", sum(sent.duplicate for sent in sents), flush=True)
        finished = -1
        while finished < len(orders):
            now = await world.cell(takings).wait_until(f"state.finished > {finished}")
            finished = now.finished if now else 0
            print("finished", finished, flush=True)


if __name__ == "__main__":
    folder, count, bank, seconds = sys.argv[1:]
    with suppress(KeyboardInterrupt):  # Ctrl-C is for main.py, which ends this process
        asyncio.run(work(Path(folder), orders_of(int(count), bank, timedelta(seconds=float(seconds)))))
