"""The README's example runs as it stands, and prints what the README shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text()
PROGRAM = re.search(r"^```python\n# shop\.py\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[1]
SHOWN = re.search(r"^```text\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[1]


def test_the_example_prints_what_the_readme_shows(tmp_path):
    (tmp_path / "shop.py").write_text(PROGRAM)
    shown = ""
    for command in re.findall(r"^\$ (.+)$", SHOWN, re.MULTILINE):
        python, *arguments = command.split()
        assert python == "python"
        done = subprocess.run(
            [sys.executable, "-W", "error", *arguments],
            cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        shown += f"$ {command}\n{done.stdout}"
    assert shown == SHOWN


def test_the_example_is_typed(tmp_path):
    (tmp_path / "shop.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "shop.py"],
        cwd=tmp_path, env={**os.environ, "MYPYPATH": ""}, capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
