"""The journals and snapshots of heartbeat worlds are the same bytes, whatever the order of Python's sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """
import hashlib, sys
from pathlib import Path
from cellule.testing.vectors import worlds
from cellule.testing.vectors.agenda import agenda
from cellule.testing.vectors.document import read
from cellule.testing.vectors.ops import ops

written = hashlib.sha256()
beat = worlds.MemoryHost.beat


def noted(self, items=()):
    done = beat(self, items)
    written.update(done.frame or b"")
    written.update(repr(self._snapshots[-1]).encode())
    return done


worlds.MemoryHost.beat = noted
perform = {"agenda": agenda, "ops": ops}
for number, entry in enumerate(read(Path(sys.argv[1]))):
    if number % 2 and entry.section in perform:
        perform[entry.section](entry.case)
print(written.hexdigest(), {"a", "b", "c", "d"})
"""


def written(seed: str) -> tuple[str, str]:
    """The digest of all that was written, and the order of a set in that process."""
    command = [sys.executable, "-c", SCRIPT, str(ROOT / "tests" / "fixtures" / "heartbeat.json")]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=ROOT)
    digest, _, order = done.stdout.strip().partition(" ")
    return digest, order


def test_worlds_are_the_same_bytes_under_all_hash_seeds():
    first, second = written("1"), written("77")
    assert first[1] != second[1], "the seeds order sets alike, so this shows nothing"
    assert first[0] == second[0]
