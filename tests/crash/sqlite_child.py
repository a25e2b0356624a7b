"""A process that works on an SQLite store until it is done or killed; started by the tests beside it.

`write PATH FIRST COUNT BATCHES` runs COUNT writers side by side and prints `ack LEDGER NUMBER` for each batch
that was acknowledged; BATCHES 0 means without end. `read PATH LEDGER UNTIL` checks snapshots up to a batch.
"""

from __future__ import annotations

import asyncio
import os
import sys

from cellule.store.engines.sqlite import SqliteEngine
from tests.support.durability import Ledger


def say(line):
    os.write(1, line.encode() + b"\n")


async def write(engine, number, batches):
    ledger = Ledger(number)
    head = await ledger.resume(engine)
    while not batches or head < batches:
        if not await ledger.write(engine):
            sys.exit("a batch was refused")
        head += 1
        say(f"ack {number} {head}")


async def read(engine, number, until):
    ledger = Ledger(number)
    last = rounds = 0
    while last < until:
        seen = await ledger.glance(engine)
        if seen < last:
            sys.exit(f"batch {last} was there and is gone: now {seen}")
        last = seen
        rounds += 1
    say(f"rounds {rounds}")


async def main(kind, path, first, second, batches="0"):
    async with await SqliteEngine.open(path, checkpoint_bytes=200_000, busy_ms=60_000) as engine:
        say("open")
        async with asyncio.TaskGroup() as group:
            if kind == "write":
                for number in range(int(first), int(first) + int(second)):
                    group.create_task(write(engine, number, int(batches)))
            else:
                group.create_task(read(engine, int(first), int(second)))


asyncio.run(main(*sys.argv[1:]))
