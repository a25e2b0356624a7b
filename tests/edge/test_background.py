"""Tests started in the background of a shell, which ignores SIGINT there, run like all others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
INTERRUPTED = "tests/edge/test_make_run.py::test_an_interrupt_leaves_no_process_behind"


def test_a_test_that_interrupts_its_child_passes_in_the_background():
    """48 tests failed there: their children inherited that SIGINT is ignored."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", INTERRUPTED]
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@" & wait $!', "sh", *command],
        cwd=ROOT, capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
