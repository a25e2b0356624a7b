"""A stream of orders, and the process that takes them. `run.py` starts it, kills it, and starts it again.

Every event has an id of its own. Whoever does not know what became of an event sends it again with the same
id: if it had arrived, it is recognised, and nothing happens twice.
"""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from shop import Paid, Placed, app

import cellule

SEED = 7
BATCHES = 100  # how often the process says how far it is


def stream(orders: int) -> list[tuple[str, Placed | Paid]]:
    """All events with their ids: each order is placed, and paid some time later, in one part or two."""
    chance = random.Random(SEED)  # noqa: S311 - the same orders every time
    events: list[tuple[float, str, Placed | Paid]] = []
    for number in range(1, orders + 1):
        order_id, total = f"o{number}", chance.randrange(5, 500)
        first = chance.randrange(1, total) if chance.random() < 0.5 else total
        events.append((number, f"{order_id}-placed", Placed(order_id, total)))
        for part, amount in enumerate([first, total - first][: 1 if first == total else 2], start=1):
            later = number + part * chance.uniform(1, orders / 10)
            events.append((later, f"{order_id}-paid-{part}", Paid(order_id, amount)))
    events.sort(key=lambda event: event[0])
    return [(given, event) for _, given, event in events]


async def take(folder: Path, orders: int, first: int) -> None:
    """Send the events from position `first` on, always one batch ahead of the one that is waited for."""
    events = stream(orders)
    size = len(events) // BATCHES + 1
    async with cellule.open(folder, app=app) as node:
        world = await node.world()
        under_way: list[Any] = []
        for start in range(first, len(events), size):
            batch = events[start : start + size]
            sents = [await world.send_nowait(event, id=given) for given, event in batch]
            await acknowledge(under_way, start)
            under_way = sents
        await acknowledge(under_way, len(events))


async def acknowledge(sents: list[Any], position: int) -> None:
    """Wait for a batch, then say that everything before `position` is safe, and how much was known before."""
    for sent in sents:
        await sent.wait()
    print(position, sum(sent.duplicate for sent in sents), flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C is for run.py, which ends this process
        asyncio.run(take(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
