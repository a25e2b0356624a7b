"""`make run`: the story of the orders example ends by itself, with everything proven."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "00-orders" / "run.py"
WAIT_S = 120


def run(folder, *options):
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--orders", "1000", "--data", str(folder), *options],
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_run_starts_the_story():
    shown = subprocess.run(
        ["make", "--dry-run", "run"], cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    assert ".venv/bin/python examples/00-orders/run.py\n" in shown.stdout


def test_the_story_is_killed_goes_on_and_proves_that_nothing_was_lost(tmp_path):
    folder = tmp_path / "orders"
    done = run(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    acknowledged = int(re.search(r"killed with SIGKILL: ([\d,]+) events", done.stdout)[1].replace(",", ""))
    assert (
        f"all {acknowledged:,} acknowledged events are in the journal, once each and in order" in done.stdout
    )
    assert "1,000 of 1,000 orders are paid and shipped" in done.stdout
    assert re.search(r"ok verified: [\d,]+ steps run again, no difference", done.stdout)
    assert f"--data {folder} cell show order o1" in done.stdout
    assert done.stderr == ""


def test_a_second_run_starts_anew_in_the_folder_of_the_first(tmp_path):
    first, second = run(tmp_path / "orders", "--orders", "200"), run(tmp_path / "orders", "--orders", "200")
    assert (first.returncode, second.returncode) == (0, 0), second.stdout + second.stderr
    assert "200 of 200 orders" in second.stdout


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path):
    (tmp_path / "letters.txt").write_text("dear")
    done = run(tmp_path)
    assert done.returncode == 1
    assert "holds something else" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["letters.txt"]


def test_an_interrupt_leaves_no_process_behind(tmp_path):
    command = [sys.executable, str(SCRIPT), "--orders", "20000", "--data", str(tmp_path / "orders")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.endswith(" events\n"):
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    again = run(tmp_path / "orders", "--orders", "200")
    assert again.returncode == 0, again.stdout + again.stderr
