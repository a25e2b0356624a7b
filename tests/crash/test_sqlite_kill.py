"""A writing process is killed at random moments: acknowledged is there, nothing is half there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from cellule.store.engines.sqlite import SqliteEngine, check
from tests.support.durability import Ledger

pytestmark = pytest.mark.crash

FULL = os.environ.get("CELLULE_CRASH") == "full"
KILLS = 30 if FULL else 2
WRITERS = 4
CHILD = Path(__file__).with_name("sqlite_child.py")


def run_and_kill(path, acknowledgements_max):
    """Let a child write until it acknowledged so many batches, kill it, return all that it acknowledged."""
    child = subprocess.Popen(
        [sys.executable, str(CHILD), "write", str(path), "0", str(WRITERS), "0"], stdout=subprocess.PIPE
    )
    lines = []
    try:
        for line in child.stdout:
            lines.append(line)
            if len(lines) > acknowledgements_max:
                break
    finally:
        child.kill()
        lines += child.stdout.readlines()
        child.stdout.close()
        child.wait()
    assert child.returncode < 0, "the child ended by itself"
    words = [line.split() for line in lines if line.endswith(b"\n")]
    return [(int(number), int(n)) for kind, number, n in (w for w in words if w[0] == b"ack")]


@pytest.mark.parametrize("seed", range(4))
async def test_a_killed_process_loses_nothing_acknowledged(tmp_path, seed):
    path = tmp_path / "store.db"
    moments = Random(seed)
    ledgers = [Ledger(number) for number in range(WRITERS)]
    for _ in range(KILLS):
        for number, n in run_and_kill(path, moments.choice((0, 1, 5, 40, moments.randrange(200)))):
            ledgers[number].acknowledged.add(n)
        async with await SqliteEngine.open(path) as engine:
            for ledger in ledgers:
                await ledger.verify(engine)
        report = await check(path)
        assert report.ok, report.problems
    assert any(ledger.acknowledged for ledger in ledgers)
