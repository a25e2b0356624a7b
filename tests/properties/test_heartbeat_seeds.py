"""The journals and snapshots of heartbeat worlds are the same bytes, whatever the order of Python's sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"


def written(seed: str) -> list[str]:
    """The digest of all that was written with the records it covers, and the order of a set there."""
    files = [str(FIXTURES / name) for name in ("heartbeat.json", "heartbeat_by_hand.json")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.heartbeat_written", *files],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}, cwd=ROOT,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_worlds_are_the_same_bytes_under_all_hash_seeds():
    first, second = written("1"), written("77")
    assert first[1] != second[1], "the seeds order sets alike, so this shows nothing"
    assert first[0] == second[0]
    kinds = {each.partition("=")[0] for each in first[0].partition(" ")[2].split(",")}
    assert kinds >= {
        "AgendaRecord", "BindingRecord", "ControlRecord", "EnzymeRecord", "IntentRecord", "ReceiptRecord",
        "SignalRecord", "StageRecord", "WriteRecord", "RefusedRecord",
    }  # fmt: skip
