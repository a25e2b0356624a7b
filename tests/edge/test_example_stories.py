"""The stories of the examples with effects: each is killed, goes on, ends by itself, and proves its point."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
STORIES = ("01-payments", "02-agent", "04-devices")
WAIT_S = 120


def run(story, folder, *options):
    command = [sys.executable, str(EXAMPLES / story / "main.py"), "--data", str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)


def test_every_order_is_charged_once_though_the_shop_is_killed(tmp_path):
    done = run("01-payments", tmp_path / "data", "--orders", "20", "--wait-s", "0.2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed with SIGKILL" in done.stdout
    assert "ok orders: 1 denied, 19 done" in done.stdout
    requests = int(re.search(r"ok (\d+) requests reached the bank, 19 charges", done.stdout)[1])
    assert requests > 19
    assert "ok 19 customers have one letter each" in done.stdout
    assert re.search(r"ok verified: \d+ steps run again", done.stdout)
    assert done.stderr == ""


def test_a_conversation_goes_on_where_its_process_was_killed(tmp_path):
    done = run("02-agent", tmp_path / "data")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed with SIGKILL" in done.stdout
    assert "crates: Twelve crates at 37.50 cost 450 in all." in done.stdout
    assert re.search(r"ok verified: \d+ steps run again", done.stdout)
    assert done.stderr == ""


def test_silent_devices_are_found_and_the_report_is_written(tmp_path):
    done = run("04-devices", tmp_path / "data", "--devices", "2000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2,000 devices report for the first time" in done.stdout
    assert "ok offline: device-00000, device-00285" in done.stdout
    assert "ok device-00000 is back" in done.stdout
    assert '"devices": 2000' in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("story", STORIES)
def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path, story):
    (tmp_path / "letters.txt").write_text("dear")
    done = run(story, tmp_path)
    assert done.returncode == 1
    assert "holds something else" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["letters.txt"]


@pytest.mark.parametrize(("story", "sign"), [("01-payments", "orders were known"), ("02-agent", "crates:")])
def test_an_interrupt_leaves_no_process_behind(tmp_path, story, sign):
    command = [sys.executable, str(EXAMPLES / story / "main.py"), "--data", str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if sign in line:
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    again = run(story, tmp_path / "data")
    assert again.returncode == 0, again.stdout + again.stderr
