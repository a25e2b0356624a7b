"""Processes that are killed with SIGKILL while they work, and what they said before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run_and_kill(script: Path, *words: str, lines_before: int) -> list[list[str]]:
    """Run a script until it printed more lines than that, and kill it; the words of each whole line."""
    command = [sys.executable, str(script), *words]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    lines: list[bytes] = []
    try:
        for line in child.stdout:
            lines.append(line)
            if len(lines) > lines_before:
                break
    finally:
        child.kill()
        lines += child.stdout.readlines()
        complaint = child.stderr.read()
        child.stdout.close()
        child.stderr.close()
        child.wait()
    assert child.returncode == -9, complaint.decode()
    return [line.decode().split() for line in lines if line.endswith(b"\n")]
