"""A writing process is killed at random moments: what it acknowledged is there, nothing is half there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from hashlib import sha256

import pytest

from cellule.store.objects.local import LocalObjects
from cellule.testing.conformance.object_machine import names_in

pytestmark = pytest.mark.crash

FULL = os.environ.get("CELLULE_CRASH") == "full"
ROUNDS = 150 if FULL else 6

CHILD = """
import asyncio, sys
from hashlib import sha256
from cellule.store.objects.local import LocalObjects

def body(name):
    seed = sha256(name.encode()).digest()
    return seed * (1 + seed[0] * seed[1] // 4)

async def pieces(data):
    for start in range(0, len(data), 100_000):
        yield data[start:start + 100_000]

async def writer(store, round, lane):
    for number in range(1_000_000):
        name = f"round-{round}/lane-{lane}/{number:06d}"
        await store.put(name, body(name) if number % 2 else pieces(body(name)))
        sys.stdout.write(name + "\\n")
        sys.stdout.flush()

async def main():
    store = await LocalObjects.open(sys.argv[1])
    async with asyncio.TaskGroup() as group:
        for lane in range(3):
            group.create_task(writer(store, sys.argv[2], lane))

asyncio.run(main())
"""


def body(name: str) -> bytes:
    seed = sha256(name.encode()).digest()
    return seed * (1 + seed[0] * seed[1] // 4)


def run_and_kill(folder, round_number: int, acknowledgements: int) -> list[str]:
    """Let a child write until it acknowledged so many objects, kill it, and return all it acknowledged."""
    command = [sys.executable, "-c", CHILD, str(folder), str(round_number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            lines = [child.stdout.readline() for _ in range(acknowledgements)]
        finally:
            child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
    return [line.strip() for line in lines if line.endswith("\n")]


async def test_a_killed_writer_loses_nothing_it_acknowledged_and_leaves_nothing_half(tmp_path):
    chance = random.Random(7)
    acknowledged: list[str] = []
    for round_number in range(ROUNDS):
        acknowledged += run_and_kill(tmp_path / "objects", round_number, chance.randrange(1, 40))
    async with await LocalObjects.open(tmp_path / "objects", create=False) as store:
        names = await names_in(store, "", 1_000)
        assert len(acknowledged) >= ROUNDS
        assert set(acknowledged) <= set(names)
        for name in names:
            assert await store.get(name) == body(name), name
